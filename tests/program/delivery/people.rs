//! A person's decisions about changes, made with the program beside the daemon: their effects and their
//! limits.

use super::support::{A_MOMENT, Dock, PRODUCT, SHIP, TEMPLATE, UPDATE, WAREHOUSE, whole};
use serde_json::{Value, json};

/// Returns a stock level with enough stock.
async fn level(dock: &Dock) -> (String, i64, i64) {
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let row = stock.into_iter().find(|row| row.quantity >= 20).unwrap();
    (row.sku, row.warehouse_id, row.quantity)
}

fn adjust(sku: &str, warehouse: i64, delta: i64) -> Value {
    json!({"sku": sku, "warehouse_id": warehouse, "delta": delta})
}

fn count(sku: &str, warehouse: i64, quantity: i64) -> Value {
    json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity})
}

/// Returns the own delta of the stock level.
async fn ours(dock: &Dock, sku: &str, warehouse: i64) -> i64 {
    let sql = "SELECT own_delta FROM balance b JOIN product p ON p.id = b.product";
    dock.number(&format!("{sql} WHERE sku = '{sku}' AND warehouse_id = {warehouse}")).await
}

/// Inserts an adjust by −2 with a lost answer and sells 5 units, so that no check can decide it.
async fn lost_and_sold_from(dock: &Dock, key: &str, sku: &str, warehouse: i64) {
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.change(key, "quantity.adjust", adjust(sku, warehouse, -2)).await;
    dock.push().await;
    dock.sandbox.sell_units(sku, warehouse, 5).await.unwrap();
    assert_eq!(dock.state(key).await, "in_doubt");
}

/// Inserts such an adjust and runs checks until it is held.
async fn undecided(dock: &Dock, key: &str, sku: &str, warehouse: i64) {
    lost_and_sold_from(dock, key, sku, warehouse).await;
    dock.settle_after(A_MOMENT).await;
    assert_eq!(dock.reason(key).await, "undecided");
}

#[tokio::test]
async fn landed_by_a_persons_word_is_ours_and_the_working_daemon_goes_on_at_once() {
    let mut dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    lost_and_sold_from(&dock, "lost", &sku, warehouse).await;
    let _at_work = dock.work();
    dock.change("next", "quantity.adjust", adjust(&sku, warehouse, -1)).await;
    let said = dock.done(&["outbox", "resolve", "lost", "--done"]).await;
    assert!(said.starts_with("lost: applied; the operator decided"), "{said}");
    dock.until("next", "applied").await;
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 2 - 5 - 1);
    assert_eq!(ours(&dock, &sku, warehouse).await, -3, "the sale is others', the rest ours");
    let answer = "SELECT detail FROM event WHERE kind = 'outbox.resolved' AND subject = 'lost'";
    let answer: Value = serde_json::from_str(&dock.outsider().await.value::<String>(answer).await).unwrap();
    assert_eq!(answer["answered"], "took effect", "{answer}");
    assert!(answer["write"]["stock_level"]["written"].as_i64().unwrap() > 0, "{answer}");
}

#[tokio::test]
async fn not_landed_by_a_persons_word_is_sent_again_at_once() {
    let mut dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.fault(UPDATE, json!({"Drop": "before"})).await;
    dock.change("lost", "quantity.adjust", adjust(&sku, warehouse, -2)).await;
    dock.push().await;
    let _at_work = dock.work();
    dock.done(&["outbox", "resolve", "lost", "--not-done"]).await;
    dock.until("lost", "applied").await;
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 2);
    assert_eq!(ours(&dock, &sku, warehouse).await, -2);
}

#[tokio::test]
async fn the_changes_of_one_entry_stand_and_fall_together() {
    for (word, state) in [("--done", "applied"), ("--not-done", "pending")] {
        let dock = Dock::open().await;
        let (sku, warehouse, quantity) = level(&dock).await;
        let stock = dock.sandbox.stock_levels().await.unwrap();
        let other = stock.into_iter().find(|row| row.sku != sku && row.quantity >= 2).unwrap();
        dock.fault(UPDATE, json!({"Drop": "after"})).await;
        for key in ["a", "b"] {
            dock.change(key, "quantity.adjust", adjust(&sku, warehouse, -2)).await;
        }
        dock.change("c", "quantity.adjust", adjust(&other.sku, other.warehouse_id, -2)).await;
        dock.push().await;
        let said = dock.done(&["outbox", "resolve", "b", word]).await;
        assert!(said.contains("a: ") && said.contains("b: "), "{said}");
        assert_eq!((dock.state("a").await, dock.state("b").await), (state.into(), state.into()));
        assert_eq!(dock.state("c").await, "in_doubt", "the call's other entry is not meant");
        dock.push().await;
        let twice = if word == "--done" { 4 } else { 8 };
        assert_eq!(dock.level(&sku, warehouse).await, quantity - twice, "who says not landed is believed");
    }
}

#[tokio::test]
async fn an_undecided_change_that_had_landed_is_over_and_counts_as_done() {
    let dock = Dock::open_with("policy = \"ask\"").await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.run(tallyd::model::JobKind::Warehouses).await;
    dock.change("count", "quantity.set", count(&sku, warehouse, quantity + 10)).await;
    dock.push().await;
    assert_eq!(dock.state("count").await, "applied");
    dock.change("again", "quantity.set", count(&sku, warehouse, quantity + 20)).await;
    dock.sandbox.sell_units(&sku, warehouse, 1).await.unwrap();
    dock.push().await;
    assert_eq!(dock.reason("again").await, "conflict");
    undecided(&dock, "lost", &sku, warehouse).await;
    let said = dock.done(&["outbox", "resolve", "lost", "--done"]).await;
    assert!(said.starts_with("lost: cancelled"), "{said}");
    assert_eq!(
        (dock.state("lost").await, dock.reason("lost").await),
        ("cancelled".into(), "landed".into()),
        "held never becomes applied"
    );
    dock.done(&["outbox", "resolve", "again", "--use", "mine"]).await;
    dock.push().await;
    assert_eq!(dock.level(&sku, warehouse).await, quantity + 20 - 2, "the movement came after the count");
}

#[tokio::test]
async fn an_undecided_change_that_had_not_landed_is_planned_anew_and_frees_its_stock_level() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    undecided(&dock, "lost", &sku, warehouse).await;
    dock.change("next", "quantity.adjust", adjust(&sku, warehouse, -1)).await;
    dock.done(&["outbox", "resolve", "lost", "--not-done"]).await;
    dock.push().await;
    assert_eq!((dock.state("lost").await, dock.state("next").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 2 - 5 - 2 - 1);
}

#[tokio::test]
async fn a_lost_shipment_is_adopted_by_its_id_and_its_tracking_follows_at_once() {
    let mut dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 5)]).await;
    let ours = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 2}]});
    dock.fault(SHIP, json!({"Drop": "after"})).await;
    dock.change("s", "shipment.create", ours).await;
    dock.change("t", "tracking.submit", json!({"shipment_key": "s", "tracking_number": "T"})).await;
    dock.push().await;
    let theirs = json!([{"OrderId": order, "LineItems": [{"LineItemId": lines[0], "Quantity": 3}]}]);
    let theirs = dock.data("POST", "/api/Shipments/Create", &theirs.to_string()).await;
    let theirs = whole(&theirs[0]["Shipment"]["Id"]);
    let refused = dock.refused(&["outbox", "resolve", "s", "--done"]).await;
    assert!(refused.contains("tallyd outbox resolve s --shipment ID"), "{refused}");
    let _at_work = dock.work();
    let wrong = theirs.to_string();
    dock.done(&["outbox", "resolve", "s", "--shipment", &wrong]).await;
    let answer = format!("shipment {wrong} was not adopted");
    dock.until_fate("s", |(state, _, detail)| state == "in_doubt" && detail.contains(&answer)).await;
    let shown = dock.done(&["outbox", "show", "s"]).await;
    assert!(shown.contains(&format!("shipment {wrong} does not match: of line")), "{shown}");
    dock.done(&["outbox", "resolve", "s", "--shipment", &(theirs - 1).to_string()]).await;
    dock.until("t", "applied").await;
    assert_eq!((dock.state("s").await, dock.made("s").await), ("applied".into(), theirs - 1));
    assert_eq!(dock.calls(SHIP), 2, "one of them was ours");
}

#[tokio::test]
async fn a_shipment_that_was_not_made_is_made_on_a_persons_word() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&a, 5)]).await;
    dock.fault(SHIP, json!({"Drop": "before"})).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    dock.done(&["outbox", "resolve", "s", "--shipment", "999999"]).await;
    dock.done(&["outbox", "resolve", "s", "--not-done"]).await;
    assert_eq!(dock.number("SELECT count(*) FROM adoption").await, 0, "the later word stands");
    dock.push().await;
    assert_eq!((dock.state("s").await, dock.left(order).await), ("applied".into(), vec![0]));
}

#[tokio::test]
async fn a_lost_create_is_applied_or_made_on_a_persons_word() {
    let dock = Dock::open().await;
    let shop = whole(&dock.data("GET", "/api/storefronts", "").await[0]["Id"]);
    let creates = [
        (PRODUCT, "product.create", json!({"Sku": "N", "Name": "n", "Identifiers": {"UPC": "1"}})),
        (WAREHOUSE, "warehouse.create", json!({"Name": "N", "Type": "Dropship"})),
        (TEMPLATE, "listing_template.create", json!({"StorefrontId": shop, "Name": "N", "Body": "<i>b</i>"})),
    ];
    for (operation, kind, body) in creates {
        for (drop, word, made) in [("before", "--not-done", "pending"), ("after", "--done", "applied")] {
            let mut body = body.clone();
            for name in ["Sku", "Name"] {
                if body[name].is_string() {
                    body[name] = format!("N {drop}").into();
                }
            }
            let key = format!("{kind}-{drop}");
            dock.fault(operation, json!({"Drop": drop})).await;
            dock.change(&key, kind, body).await;
            dock.push().await;
            dock.done(&["outbox", "resolve", &key, word]).await;
            assert_eq!(dock.state(&key).await, made);
            dock.push().await;
            assert_eq!(dock.state(&key).await, "applied", "{key}");
        }
        assert_eq!(dock.calls(operation), 3, "two lost, and the one that had not landed again: {kind}");
    }
    assert_eq!(dock.number("SELECT count(*) FROM tracked_sku WHERE sku IN ('N before', 'N after')").await, 2);
}

/// Inserts a count from which the stock drifted, under the policy `ask`.
async fn in_conflict(dock: &Dock) -> (String, i64, i64) {
    let (sku, warehouse, quantity) = level(dock).await;
    dock.change("first", "quantity.adjust", adjust(&sku, warehouse, 0)).await;
    dock.push().await;
    dock.change("count", "quantity.set", count(&sku, warehouse, quantity + 10)).await;
    dock.sandbox.sell_units(&sku, warehouse, 3).await.unwrap();
    dock.push().await;
    assert_eq!(dock.reason("count").await, "conflict");
    (sku, warehouse, quantity)
}

#[tokio::test]
async fn a_conflict_ends_with_the_number_a_person_names() {
    for (word, becomes) in [("mine", Some(10)), ("theirs", None), ("N", Some(7))] {
        let mut dock = Dock::open_with("policy = \"ask\"").await;
        let (sku, warehouse, quantity) = in_conflict(&dock).await;
        let said = (quantity + 7).to_string();
        let word = if word == "N" { said.as_str() } else { word };
        let _at_work = dock.work();
        dock.done(&["outbox", "resolve", "count", "--use", word]).await;
        match becomes {
            Some(more) => {
                dock.until("count", "applied").await;
                assert_eq!(dock.level(&sku, warehouse).await, quantity + more, "{word}");
            }
            None => {
                let (state, reason, detail) = dock.fate("count").await;
                assert_eq!((state.as_str(), reason.as_str()), ("rejected", "operator"));
                assert!(detail.contains(&format!("{}, not {}", quantity - 3, quantity + 10)), "{detail}");
                assert_eq!(dock.level(&sku, warehouse).await, quantity - 3);
            }
        }
    }
}

#[tokio::test]
async fn what_is_sold_after_a_person_said_a_number_still_counts() {
    let dock = Dock::open_with("policy = \"ask\"").await;
    let (sku, warehouse, quantity) = in_conflict(&dock).await;
    dock.done(&["outbox", "resolve", "count", "--use", &(quantity + 7).to_string()]).await;
    let pending =
        format!("SELECT pending_quantity FROM stock WHERE sku = '{sku}' AND warehouse_id = {warehouse}");
    assert_eq!(dock.number(&pending).await, quantity + 7);
    dock.sandbox.sell_units(&sku, warehouse, 4).await.unwrap();
    dock.push().await;
    assert_eq!(dock.state("count").await, "applied");
    assert_eq!(dock.level(&sku, warehouse).await, quantity + 7 - 4);
}

#[tokio::test]
async fn a_number_is_refused_where_nobody_knows_what_it_is_measured_against() {
    let dock = Dock::open_with("policy = \"ask\"").await;
    in_conflict(&dock).await;
    let sql = "UPDATE read_batch SET observed_ms = observed_ms - 3600000; \
               UPDATE balance SET fact_ms = fact_ms - 3600000";
    dock.done_sql(sql).await;
    let refused = dock.refused(&["outbox", "resolve", "count", "--use", "7"]).await;
    assert!(refused.contains("long ago") && refused.contains("insert a new count"), "{refused}");
    assert_eq!(dock.state("count").await, "held");
    // The journal has the true times; they are restored, because the test ends with a comparison of
    // projection and mirror.
    let sql = "UPDATE read_batch SET observed_ms = observed_ms + 3600000; \
               UPDATE balance SET fact_ms = fact_ms + 3600000";
    dock.done_sql(sql).await;
}

#[tokio::test]
async fn a_held_change_is_planned_anew_once_its_cause_is_mended() {
    let mut dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.change("much", "quantity.adjust", adjust(&sku, warehouse, -quantity - 5)).await;
    dock.change("nonsense", "quantity.adjust", json!({"sku": sku})).await;
    dock.push().await;
    assert_eq!(dock.reason("much").await, "negative");
    let more = json!([{"Sku": sku, "WarehouseId": warehouse, "Quantity": quantity + 6}]);
    dock.request("POST", "/api/inventory/updateQuantityOnHand", &more.to_string()).await;
    let _at_work = dock.work();
    let (code, said) = dock.tallyd(&["outbox", "retry", "nonsense", "much", "nobody"]).await;
    assert_eq!(code, 1);
    assert!(said.contains("nonsense: not retried: it is rejected, which is final"), "{said}");
    assert!(
        said.contains("much: retried") && said.contains("nobody: not retried: there is no change"),
        "{said}"
    );
    dock.until("much", "applied").await;
    assert_eq!(dock.level(&sku, warehouse).await, 1);
}

#[tokio::test]
async fn cancelling_a_shipment_rejects_the_tracking_that_waits_for_it_at_once() {
    let mut dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 2)]).await;
    let body = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 3}]});
    dock.change("s", "shipment.create", body).await;
    dock.change("t", "tracking.submit", json!({"shipment_key": "s", "tracking_number": "T"})).await;
    dock.push().await;
    assert_eq!((dock.state("s").await, dock.state("t").await), ("held".into(), "pending".into()));
    let _at_work = dock.work();
    dock.done(&["outbox", "cancel", "s"]).await;
    dock.until("t", "rejected").await;
    assert_eq!(dock.reason("t").await, "no_shipment");
}

#[tokio::test]
async fn a_word_that_makes_no_sense_changes_nothing_and_names_the_one_that_does() {
    let dock = Dock::open().await;
    let (sku, warehouse, _) = level(&dock).await;
    undecided(&dock, "lost", &sku, warehouse).await;
    dock.change("waits", "quantity.adjust", adjust(&sku, warehouse, -1)).await;
    let before = dock.number("SELECT position FROM journal_sequence").await;
    let cases: [(&[&str], i32, &str); 9] = [
        (&["resolve", "lost", "--use", "mine"], 1, "tallyd outbox resolve lost --not-done"),
        (&["resolve", "lost", "--shipment", "5"], 1, "tallyd outbox resolve lost --done"),
        (&["retry", "lost"], 1, "tallyd outbox resolve lost --not-done"),
        (&["resolve", "waits", "--done"], 1, "tallyd outbox cancel waits"),
        (&["resolve", "nobody", "--done"], 1, "there is no change with this key"),
        (&["resolve", "lost"], 2, "--not-done"),
        (&["resolve", "lost", "--done", "--not-done"], 2, "cannot be used with"),
        (&["resolve", "lost", "--use", "-3"], 2, "expected mine, theirs or a number"),
        (&["resolve", "lost", "--shipment", "0"], 2, "0"),
    ];
    for (args, expected, words) in cases {
        let (code, said) = dock.tallyd(&[&["outbox"], args].concat()).await;
        assert_eq!(code, expected, "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(dock.number("SELECT position FROM journal_sequence").await, before, "nothing was written");
    assert_eq!((dock.state("lost").await, dock.state("waits").await), ("held".into(), "pending".into()));
}

#[tokio::test]
async fn what_a_brake_holds_goes_by_a_release_alone_and_then_at_once() {
    let mut dock = Dock::open_with("max_quantity_jump = 3").await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.change("first", "quantity.adjust", adjust(&sku, warehouse, -1)).await;
    dock.push().await;
    dock.change("far", "quantity.adjust", adjust(&sku, warehouse, -9)).await;
    dock.push().await;
    assert_eq!(dock.reason("far").await, "brake");
    for args in [["resolve", "far", "--use", "mine"].as_slice(), &["retry", "far"]] {
        let said = dock.refused(&[&["outbox"], args].concat()).await;
        assert!(said.contains("tallyd outbox release far"), "{said}");
    }
    let _at_work = dock.work();
    dock.done(&["outbox", "release", "far"]).await;
    dock.until("far", "applied").await;
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 10);
}

/// Returns the names of an object's fields, in order.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn show_tells_the_whole_story_and_its_fields_are_stable() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    lost_and_sold_from(&dock, "lost", &sku, warehouse).await;
    dock.settle().await;
    let all: Value = serde_json::from_str(&dock.done(&["outbox", "show", "lost", "--json"]).await).unwrap();
    let names = "base_quantity body candidates created_at decisions detail evidence exchange_id exchanges id inserted_by key \
                 kind mine moves obstacles priority reason settled_at state theirs what_to_do written";
    assert_eq!(fields(&all).join(" "), names);
    assert_eq!(fields(&all["moves"][0]), ["at", "detail", "exchange_id", "position", "reason", "state"]);
    let evidence = &all["evidence"];
    let names = "answers before claimed made_id next_check_at sent_at target waits_for";
    assert_eq!(fields(evidence).join(" "), names);
    assert_eq!((&evidence["before"], &evidence["target"]), (&json!(quantity), &json!(quantity - 2)));
    assert_eq!(evidence["answers"][0]["shown"], quantity - 7);
    assert!(evidence["answers"][0]["exchange_id"].as_i64() > all["exchange_id"].as_i64());
    assert!(evidence["next_check_at"].is_string(), "{evidence}");
    assert_eq!(all["exchanges"][0]["operation"], UPDATE);
    dock.settle_after(A_MOMENT).await;
    dock.done(&["outbox", "resolve", "lost", "--not-done"]).await;
    let all: Value = serde_json::from_str(&dock.done(&["outbox", "show", "lost", "--json"]).await).unwrap();
    let states: Vec<&str> =
        all["moves"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["sending", "in_doubt", "held", "pending"]);
    assert_eq!(fields(&all["decisions"][0]), ["at", "by", "detail", "kind", "position", "subject"]);
    assert_eq!(all["decisions"][0]["detail"]["answered"], "had no effect");
    let text = dock.done(&["outbox", "show", "lost"]).await;
    for words in
        ["\nhistory\n", "inserted", "\ncalls\n", "\nevidence\n", &format!("{} was sent", quantity - 2)]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test]
async fn the_list_is_grouped_by_reason_and_says_what_to_do() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    for key in ["much", "more"] {
        dock.change(key, "quantity.adjust", adjust(&sku, warehouse, -quantity - 5)).await;
    }
    dock.change("odd", "quantity.move", json!({})).await;
    dock.push().await;
    let said = dock.done(&["outbox", "list"]).await;
    let held = said.find("held, negative: 2 changes\nwhat to do: count the stock level").expect(&said);
    let rejected = said.find("rejected, bad_body: 1 change").expect(&said);
    assert!(held < rejected, "what waits for a person comes first: {said}");
    let only = dock.done(&["outbox", "list", "--state", "rejected"]).await;
    assert!(only.contains("odd") && !only.contains("much"), "{only}");
    let flat: Value = serde_json::from_str(&dock.done(&["outbox", "list", "--json"]).await).unwrap();
    assert_eq!(flat.as_array().unwrap().len(), 3, "for programs it stays a list");
    let (code, said) = dock.tallyd(&["outbox", "list", "--state", "lost"]).await;
    assert!(code == 2 && said.contains("in_doubt"), "{said}");
}
