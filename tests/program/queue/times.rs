//! Times in the zone of `TZ`, in and out.

use super::super::cli::Desk;
use super::{ended, read_desk, run_in_zone};
use serde_json::Value;

/// Queues a count in a zone and returns its moment, as the body holds it.
async fn counted_at(desk: &Desk, zone: &str, text: &str, more: &[&str]) -> String {
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let (warehouse, key) = (warehouse.to_string(), format!("{zone} {text} {more:?}"));
    let args = ["quantity", "set", &sku, &warehouse, "7", "--counted-at", text, "--key", &key];
    let (code, said) = ended(&run_in_zone(desk, zone, &[&args[..], more].concat()).await);
    assert_eq!(code, 0, "{said}");
    let change = desk.json(&["outbox", "show", &key, "--json"]).await;
    change["body"]["counted_at"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_without_a_zone_is_that_of_tz() {
    let desk = read_desk().await;
    let cases: [(&str, &str, &[&str], &str); 7] = [
        ("Europe/Vienna", "2025-11-22 05:30", &[], "2025-11-22T04:30:00.000Z"),
        ("Europe/Vienna", "2025-07-22T05:30:10", &[], "2025-07-22T03:30:10.000Z"),
        ("America/New_York", "2025-11-22 08:40", &[], "2025-11-22T13:40:00.000Z"),
        (":Asia/Kolkata", "2025-11-22 08:40", &[], "2025-11-22T03:10:00.000Z"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2025-07-22 05:30", &[], "2025-07-22T03:30:00.000Z"),
        ("Europe/Vienna", "2025-11-22T08:40:00-05:00", &[], "2025-11-22T13:40:00.000Z"),
        ("Europe/Vienna", "2025-11-22 05:30", &["--utc"], "2025-11-22T05:30:00.000Z"),
    ];
    for (zone, text, more, expected) in cases {
        assert_eq!(counted_at(&desk, zone, text, more).await, expected, "{zone} {text} {more:?}");
    }
    // A clock time is of the zone's today: midnight there is within the last day.
    let midnight = counted_at(&desk, "Asia/Kolkata", "00:00", &[]).await;
    assert!(midnight.ends_with("T18:30:00.000Z"), "{midnight}");
    let age = "SELECT count(*) FROM outbox WHERE key LIKE 'Asia/Kolkata 00:00%' AND created_at >= ";
    assert_eq!(desk.world.number(&format!("{age}'{midnight}'")).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_time_that_is_not_unique_is_refused_with_both_readings() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    for zone in ["Europe/Vienna", "CET-1CEST,M3.5.0,M10.5.0/3"] {
        let cases = [
            ("2025-10-26 02:30", "came twice", ["2025-10-26 02:30:00+02:00", "2025-10-26 02:30:00+01:00"]),
            ("2025-03-30 02:30", "never was", ["2025-03-30 01:30:00+01:00", "2025-03-30 03:30:00+02:00"]),
        ];
        for (text, why, readings) in cases {
            let args = ["quantity", "set", &sku, &warehouse, "7", "--counted-at", text];
            let (code, said) = ended(&run_in_zone(&desk, zone, &args).await);
            assert_eq!(code, 2, "{zone}: {said}");
            assert!(
                said.contains(why) && readings.iter().all(|reading| said.contains(reading)),
                "{zone}: {said}"
            );
        }
    }
    let args = ["quantity", "set", &sku, &warehouse, "7", "--counted-at", "08:40"];
    let (code, said) = ended(&run_in_zone(&desk, "Europe/Viena", &args).await);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("TZ is `Europe/Viena`, which is no time zone"), "{said}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 0);
    let reading = counted_at(&desk, "Europe/Vienna", "2025-10-26 02:30:00+01:00", &[]).await;
    assert_eq!(reading, "2025-10-26T01:30:00.000Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_local_times_with_their_dates() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let file = desk.config.with_file_name("counts.csv");
    let write = |time: &str| {
        let lines = format!("sku,warehouse_id,quantity,counted_at,key\n{sku},{warehouse},7,{time},k\n");
        std::fs::write(&file, lines).unwrap();
    };
    let import = ["quantity", "import", file.to_str().unwrap()];
    write("08:40");
    let (code, said) = ended(&run_in_zone(&desk, "Europe/Vienna", &import).await);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("line 2: `08:40` has no date"), "{said}");
    write("2025-11-22 08:40");
    assert_eq!(run_in_zone(&desk, "Europe/Vienna", &import).await.status.code(), Some(0));
    let change = desk.json(&["outbox", "show", "k", "--json"]).await;
    assert_eq!(change["body"]["counted_at"], "2025-11-22T07:40:00.000Z");
}

/// A local time that is written with a Z lies hours ahead; the units sold in them would be for sale again.
#[tokio::test(flavor = "multi_thread")]
async fn a_moment_to_come_and_a_year_of_two_digits_are_refused_by_commands_and_files() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let in_an_hour =
        tallyd::model::Timestamp(tallyd::model::Clock::now(&tallyd::daemon::SystemClock).0 + 3_600_000)
            .to_rfc3339();
    let file = desk.config.with_file_name("counts.csv");
    let path = file.to_str().unwrap();
    for (time, why) in [(in_an_hour.as_str(), "is in the future"), ("26-11-22", "is of the year 26")] {
        for (columns, values, command) in [
            ("sku,warehouse_id,quantity,counted_at", format!("{sku},{warehouse},7,{time}"), "quantity"),
            ("shipment_id,tracking_number,shipped_date", format!("7,1Z1,{time}"), "tracking"),
        ] {
            std::fs::write(&file, format!("{columns}\n{values}\n")).unwrap();
            let (code, said) = ended(&run_in_zone(&desk, "Europe/Vienna", &[command, "import", path]).await);
            assert!(code == 1 && said.contains("line 2: ") && said.contains(why), "{command} {time}: {said}");
        }
        for command in [
            &["quantity", "set", &sku, &warehouse, "7", "--counted-at", time][..],
            &["tracking", "submit", "--shipment", "7", "--number", "1Z1", "--shipped", time],
        ] {
            let (code, said) = ended(&run_in_zone(&desk, "Europe/Vienna", command).await);
            assert!(code == 2 && said.contains(why), "{command:?}: {said}");
        }
    }
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox").await, 0);
    let estimate = format!("shipment_id,tracking_number,estimated_delivery_date\n7,1Z1,{in_an_hour}\n");
    std::fs::write(&file, estimate).unwrap();
    let (code, said) = ended(&run_in_zone(&desk, "Europe/Vienna", &["tracking", "import", path]).await);
    assert_eq!(code, 0, "an estimate is to come: {said}");
}

/// Returns the words of an output that are times of RFC 3339 in UTC.
fn utc_times(text: &str) -> Vec<&str> {
    let is_time = |word: &&str| {
        let word = word.trim_end_matches([',', ';', '.', ')', '`']);
        word.len() >= 20 && word.ends_with('Z') && word.as_bytes().get(10) == Some(&b'T')
    };
    text.split_whitespace().filter(is_time).collect()
}

/// People read local times in every command; programs read UTC.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_shows_local_times_and_json_has_utc() {
    let desk = read_desk().await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    let (warehouse, below) = (warehouse.to_string(), (-quantity - 70).to_string());
    desk.text(&["quantity", "set", &sku, &warehouse, "7", "--counted-at", "2025-11-22 08:40", "--key", "c"])
        .await;
    desk.text(&["quantity", "adjust", &sku, &warehouse, &below, "--key", "h"]).await;
    desk.text(&["run", "--once"]).await;
    desk.world.sql("UPDATE warehouse SET missing_since_ms = 1700000000000").await;
    desk.world.sql("UPDATE storefront SET missing_since_ms = 1700000000000").await;
    let order = desk.world.sandbox.order_ids().await.unwrap()[0].to_string();
    let runs = desk.json(&["job", "list", "--limit", "1", "--json"]).await;
    let run = runs[0]["id"].to_string();
    let entries = desk.json(&["journal", "show", "--last", "1", "--json"]).await;
    let entry = entries[0]["position"].to_string();
    let commands: [&[&str]; 13] = [
        &["status", "--all"],
        &["order", "list"],
        &["order", "show", &order],
        &["explain", &sku],
        &["outbox", "show", "h"],
        &["product", "find", &sku],
        &["warehouse", "list"],
        &["storefront", "list"],
        &["job", "list"],
        &["job", "show", &run],
        &["journal", "show"],
        &["journal", "show", &entry],
        &["report", "work-queue"],
    ];
    for command in commands {
        let shown = |more: &'static [&'static str]| {
            let (desk, args) = (&desk, [command, more].concat());
            async move { ended(&run_in_zone(desk, "Asia/Kolkata", &args).await).1 }
        };
        let local = shown(&[]).await;
        assert!(local.contains("+05:30"), "{command:?} shows no local time: {local}");
        assert_eq!(utc_times(&local), [""; 0], "{command:?}: {local}");
        let utc = shown(&["--utc"]).await;
        assert!(!utc.contains("+05:30") && utc.contains('Z'), "{command:?}: {utc}");
        let json = shown(&["--json"]).await;
        assert!(!json.contains("+05:30") && json.contains('Z'), "{command:?}: {json}");
        serde_json::from_str::<Value>(&json).unwrap_or_else(|why| panic!("{command:?}: {why}: {json}"));
    }
}
