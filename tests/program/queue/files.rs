//! Files: nothing is done twice by one, under whatever name it comes again, and lines that contradict each other are
//! refused.

use super::super::cli::Desk;
use super::{ended, read_desk};
use serde_json::json;

/// A desk and a stock level, with files beside its configuration.
struct FileDesk {
    desk: Desk,
    sku: String,
    warehouse: i64,
}

impl FileDesk {
    async fn new() -> Self {
        let desk = read_desk().await;
        let (sku, warehouse, _) = desk.world.shop().await[0].clone();
        Self { desk, sku, warehouse }
    }

    /// Imports a file of movements of the stock level; returns the exit code and what was said.
    async fn moves(&self, name: &str, deltas: &[&str], options: &[&str]) -> (i32, String) {
        let line = |delta: &&str| format!("{},{},{delta}\n", self.sku, self.warehouse);
        let lines: String = deltas.iter().map(line).collect();
        self.import("quantity", name, format!("sku,warehouse_id,delta\n{lines}").as_bytes(), options).await
    }

    async fn import(&self, command: &str, name: &str, content: &[u8], options: &[&str]) -> (i32, String) {
        let file = self.desk.config.with_file_name(name);
        std::fs::write(&file, content).unwrap();
        ended(&self.desk.run(&[&[command, "import", file.to_str().unwrap()], options].concat()).await)
    }

    async fn queued(&self) -> i64 {
        self.desk.world.number("SELECT count(*) FROM outbox").await
    }

    /// Returns the units of all movements.
    async fn moved(&self) -> i64 {
        self.desk
            .world
            .number("SELECT CAST(coalesce(sum(CAST(json_extract(body, '$.delta') AS BIGINT)), 0) AS BIGINT) FROM outbox")
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_lines_are_imported_once_under_whatever_name_and_in_whatever_form() {
    let desk = FileDesk::new().await;
    let (sku, warehouse) = (desk.sku.clone(), desk.warehouse);
    let (code, said) = desk.moves("receipts.csv", &["5", "2", "5"], &[]).await;
    assert_eq!(code, 0, "{said}");
    let lines = [5, 5, 2].map(|delta| format!("{delta};{warehouse};{}\r\n", sku.to_lowercase())).concat();
    let other_form = format!("\u{feff}delta;warehouse_id;sku\r\n{lines}\r\n;;\r\n");
    let text = other_form.replace('\u{feff}', "");
    let utf_16 = std::iter::once(0xfeff).chain(text.encode_utf16());
    let utf_16: Vec<u8> = utf_16.flat_map(u16::to_le_bytes).collect();
    let plain =
        format!("sku,warehouse_id,delta\n{sku},{warehouse},+5\n{sku},{warehouse},2.0\n{sku},{warehouse},5\n");
    for (name, content) in [
        ("receipts.csv", plain.as_bytes()),
        ("receipts (1).csv", plain.as_bytes()),
        ("Copy of receipts.csv", plain.as_bytes()),
        ("other.txt", other_form.as_bytes()),
        ("utf16.csv", &utf_16),
    ] {
        let (code, said) = desk.import("quantity", name, content, &[]).await;
        assert_eq!(code, 1, "{name}: {said}");
        assert!(
            said.contains("the same lines were imported at 20") && said.contains("from receipts.csv"),
            "{said}"
        );
        assert!(said.contains("nothing was queued") && said.contains("--again"), "{said}");
    }
    let (code, said) = desk.import("quantity", "other.txt", other_form.as_bytes(), &["--new-lines"]).await;
    assert_eq!(code, 1, "another file is known as a whole: {said}");
    assert_eq!((desk.queued().await, desk.moved().await), (3, 12));
    for (name, times) in [("other.csv", 2), ("receipts.csv", 3), ("receipts.csv", 4)] {
        let (code, said) = desk.import("quantity", name, plain.as_bytes(), &["--again"]).await;
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("3 changes queued, 0 known already"), "{said}");
        assert_eq!(desk.moved().await, times * 12);
    }
    assert_eq!(desk.moves("receipts.csv", &["5", "2"], &["--again", "--new-lines"]).await.0, 2);
}

/// The file of each day has equal lines, which are other movements; an import in part is followed by the whole file.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_an_earlier_file_of_the_name_waits_for_a_persons_word() {
    let desk = FileDesk::new().await;
    let (code, said) = desk.moves("receipts.csv", &["5", "x", "7", "y", "5"], &["--partial"]).await;
    assert_eq!(code, 0, "{said}");
    let corrected = ["5", "6", "7", "8", "5", "5"];
    for name in ["receipts.csv", "receipts (1).csv"] {
        let (code, said) = desk.moves(name, &corrected, &[]).await;
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("brought 3 of its 6 lines, the first in line 2, 4, 6; nothing was queued"),
            "{said}"
        );
        assert!(said.contains("--new-lines") && said.contains("--again"), "{said}");
    }
    assert_eq!(desk.moved().await, 17);
    for (queued, moved) in [("3 changes queued, 3 known", 36), ("0 changes queued, 6 known", 36)] {
        let (code, said) = desk.moves("receipts.csv", &corrected, &["--new-lines"]).await;
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(queued), "{said}");
        assert_eq!(desk.moved().await, moved);
    }
    let (code, said) = desk.moves("receipts.csv", &["5", "9"], &["--again"]).await;
    assert_eq!((code, desk.moved().await), (0, 50), "the file of another day: {said}");
    assert_eq!(desk.moves("another-name.csv", &["5", "11"], &[]).await.0, 0);
    assert_eq!(desk.moved().await, 66);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_and_trackings_are_known_as_movements_are_and_lines_with_a_key_by_it() {
    let desk = FileDesk::new().await;
    let (sku, warehouse) = (&desk.sku, desk.warehouse);
    let counts = format!("sku,warehouse_id,quantity\n{sku},{warehouse},7\n");
    let keyed = format!("sku,warehouse_id,delta,key\n{sku},{warehouse},7,k-1\n");
    let trackings = "shipment_id,tracking_number\n7,1Z1\n";
    for (command, content) in [("quantity", counts.as_str()), ("tracking", trackings)] {
        for (name, expected) in [("a.csv", 0), ("a.csv", 1), ("b.csv", 1)] {
            let (code, said) = desk.import(command, name, content.as_bytes(), &[]).await;
            assert_eq!(code, expected, "{command} {name}: {said}");
        }
    }
    for name in ["keyed.csv", "keyed.csv", "other.csv"] {
        let (code, said) = desk.import("quantity", name, keyed.as_bytes(), &[]).await;
        assert_eq!(code, 0, "{said}");
    }
    assert_eq!(desk.queued().await, 3);
    let (code, said) = desk.import("quantity", "c.csv", keyed.replace(",7,", ",8,").as_bytes(), &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 2: change `k-1`: "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_contradict_each_other_are_refused_with_both_and_counts_are_added_on_request() {
    let desk = FileDesk::new().await;
    let (sku, warehouse) = (desk.sku.clone(), desk.warehouse);
    desk.desk.world.sql("UPDATE warehouse SET name = 'Hall ' || id").await;
    let lower = sku.to_lowercase();
    let counts = format!("sku,warehouse_id,quantity\n{sku},{warehouse},5\n\n{lower},hall {warehouse},9\n");
    let (code, said) = desk.import("quantity", "counts.csv", counts.as_bytes(), &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 2: line 4 counts this stock level too; --sum"), "{said}");
    assert!(said.contains("line 4: line 2 counts this stock level too; --sum"), "{said}");
    let (code, said) = desk.import("quantity", "counts.csv", counts.as_bytes(), &["--partial"]).await;
    assert_eq!((code, desk.queued().await), (1, 0), "none is valid: {said}");
    let other = desk.desk.world.shop().await.into_iter().find(|level| level.0 != sku).unwrap();
    let equal = format!("{counts}{},{},3\n{sku},{warehouse},5\n", other.0, other.1);
    let (code, said) = desk.import("quantity", "counts.csv", equal.as_bytes(), &["--sum", "--wait=0s"]).await;
    assert_eq!(code, 7, "no daemon runs: {said}");
    let sql = "SELECT body FROM outbox ORDER BY id";
    let bodies: String = desk.desk.world.outsider().await.value(&format!("{sql} LIMIT 1")).await;
    let body: serde_json::Value = serde_json::from_str(&bodies).unwrap();
    assert_eq!(body, json!({"sku": sku, "warehouse_id": warehouse, "quantity": 19}));
    assert_eq!(desk.queued().await, 2);
    let seen = format!("sku,warehouse_id,quantity,seen\n{sku},{warehouse},5,4\n{sku},{warehouse},9,5\n");
    let (code, said) = desk.import("quantity", "seen.csv", seen.as_bytes(), &["--sum"]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 3: line 2 counts this stock level too"), "{said}");
    let keys = format!("sku,warehouse_id,delta,key\n{sku},{warehouse},5,k\n{sku},{warehouse},9,k\n");
    let (code, said) = desk.import("quantity", "keys.csv", keys.as_bytes(), &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 3: line 2 has this `key` too"), "{said}");
    let twice = "shipment_id,tracking_number\n7,1Z1\n8,1Z2\n7,1Z3\n8,1Z2\n";
    let (code, said) = desk.import("tracking", "trackings.csv", twice.as_bytes(), &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 4: line 2 has other values for this shipment"), "{said}");
    assert!(!said.contains("line 5: "), "equal lines contradict nothing: {said}");
    assert_eq!(desk.queued().await, 2);
}

/// A browser names a second download so.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_downloaded_again_is_not_booked_again() {
    let desk = FileDesk::new().await;
    assert_eq!(desk.moves("receipts.csv", &["5", "2"], &[]).await.0, 0);
    for name in ["receipts (1).csv", "goods.csv"] {
        let (code, said) = desk.moves(name, &["5", "2"], &[]).await;
        assert_eq!((code, desk.moved().await), (1, 7), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slip_in_the_name_of_a_column_refuses_the_file_and_an_empty_one_is_no_success() {
    let desk = FileDesk::new().await;
    let line = format!("{},{},9,2026-01-01T08:00:00Z\n", desk.sku, desk.warehouse);
    let count = format!("sku,warehouse_id,quantity,countedat\n{line}");
    let tracking = "shipment_id,tracking_number,carrier\n7,1Z1,3\n".to_owned();
    for (command, text, meant) in [("quantity", count, "counted_at"), ("tracking", tracking, "carrier_id")] {
        let (code, said) = desk.import(command, "slip.csv", text.as_bytes(), &[]).await;
        assert_eq!((code, desk.queued().await), (1, 0), "{said}");
        assert!(said.contains(&format!("did you mean `{meant}`")), "{said}");
    }
    for text in ["", "sku,warehouse_id,delta\n"] {
        let (code, said) = desk.import("quantity", "empty.csv", text.as_bytes(), &[]).await;
        assert_eq!(code, 1, "{text:?}: {said}");
    }
}

/// A spreadsheet's file with one mark too few: the lines below it are text of one field.
#[tokio::test(flavor = "multi_thread")]
async fn a_quotation_mark_that_is_never_closed_refuses_the_file_with_its_line() {
    let desk = FileDesk::new().await;
    let line = |delta: i64, comment: &str| format!("{},{},{delta},{comment}\n", desk.sku, desk.warehouse);
    let lines = [line(5, ""), line(6, "\"see box"), line(7, "")].concat();
    let text = format!("sku,warehouse_id,delta,comment\n{lines}");
    for options in [&[][..], &["--partial"]] {
        let (code, said) = desk.import("quantity", "open.csv", text.as_bytes(), options).await;
        assert_eq!((code, desk.queued().await), (1, 0), "{said}");
        assert!(said.contains("line 3: ") && said.contains("is not closed"), "{said}");
    }
}

/// The texts are sent to customers as tracking numbers, and asked for as SKUs.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_a_spreadsheet_destroyed_is_refused_with_its_line() {
    let desk = FileDesk::new().await;
    for text in ["#N/A", "\"=\"\"0012345\"\"\"", "1.23457E+12", "#REF!"] {
        let trackings = format!("shipment_id,tracking_number\n7,1Z1\n8,{text}\n");
        let skus = format!("sku\nGOOD-1\n{text}\n");
        for (command, content) in [("tracking", trackings), ("sku", skus)] {
            let (code, said) = desk.import(command, "sheet.csv", content.as_bytes(), &[]).await;
            assert_eq!(code, 1, "{command} {text}: {said}");
            assert!(said.contains("line 3: ") && said.contains("a spreadsheet makes"), "{said}");
        }
    }
    let tracked = "SELECT count(*) FROM tracked_sku WHERE sku = 'GOOD-1'";
    assert_eq!((desk.queued().await, desk.desk.world.number(tracked).await), (0, 0));
}
