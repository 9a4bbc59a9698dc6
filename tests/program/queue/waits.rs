//! `--wait`: an exit code for each outcome, the JSON, and the hint that no daemon runs.

use super::super::cli::{fields, program};
use super::super::support::{BALANCES, UPDATE, World};
use super::{ended, read_desk};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Duration, Instant};

const FIELDS: [&str; 6] = ["id", "key", "message", "reason", "state", "what_to_do"];

/// Sets the faults of the sandbox.
async fn faults(world: &World, faults: Value) {
    world.post("/_sandbox/faults", &faults).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_exit_code_of_the_outcome() {
    let desk = read_desk().await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let working = desk.world.work().await;

    let applied = desk.json(&["quantity", "adjust", &sku, &warehouse, "+3", "--wait", "--json"]).await;
    assert_eq!(fields(&applied), FIELDS);
    assert_eq!((&applied["state"], &applied["reason"]), (&json!("applied"), &Value::Null), "{applied}");
    assert_eq!(desk.world.shop_level(&sku, warehouse.parse().unwrap()).await, quantity + 3);

    let below = (-quantity - 70).to_string();
    let held =
        desk.run(&["quantity", "adjust", &sku, &warehouse, &below, "--key", "h", "--wait", "--json"]).await;
    assert_eq!(held.status.code(), Some(5));
    let held: Value = serde_json::from_slice(&held.stdout).unwrap();
    assert_eq!(
        (&held["state"], &held["reason"], &held["key"]),
        (&json!("held"), &json!("negative"), &json!("h"))
    );
    assert!(held["message"].as_str().unwrap().contains("would become"), "{held}");
    assert!(held["what_to_do"].as_str().unwrap().contains("tallyd outbox cancel h"), "{held}");

    desk.text(&["outbox", "cancel", "h"]).await;
    let again = ["quantity", "adjust", &sku, &warehouse, &below, "--key", "h", "--wait"];
    let (code, said) = ended(&desk.run(&again).await);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("0 changes queued, 1 known already by their keys"), "{said}");
    assert!(said.contains("change h is cancelled (operator): "), "{said}");

    let typo =
        ["quantity", "adjust", "NO-SUCH-SKU", &warehouse, "1", "--unknown", "--key", "t", "--wait=60s"];
    let (code, said) = ended(&desk.run(&typo).await);
    assert_eq!(code, 5, "{said}");
    assert!(
        said.contains("change t is queued\n") && said.contains("change t is held (not_shown): "),
        "{said}"
    );
    assert!(said.contains("what to do: nothing if the change is right: tallyd asks again"), "{said}");
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_not_decided_in_time_is_waiting_or_in_doubt() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let working = desk.world.work().await;
    faults(&desk.world, json!([{"Operation": UPDATE, "Status": 503}])).await;
    let (code, said) = ended(&desk.run(&["quantity", "adjust", &sku, &warehouse, "1", "--wait=1s"]).await);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains(" after 1 s: ") && said.contains("what to do: "), "{said}");

    let lost = json!([{"Operation": UPDATE, "Drop": "after"}, {"Operation": BALANCES, "Status": 500}]);
    faults(&desk.world, lost).await;
    let (other, warehouse, _) = desk.world.shop().await.into_iter().find(|level| level.0 != sku).unwrap();
    let args = ["quantity", "adjust", &other, &warehouse.to_string(), "1", "--key", "lost", "--wait=20s"];
    let waiting = desk.run(&args);
    let in_doubt = desk.world.until("it is in doubt", async |world| {
        let found = "SELECT count(*) FROM outbox WHERE key = 'lost' AND state = 'in_doubt'";
        world.number(found).await > 0
    });
    let (output, ()) = tokio::join!(waiting, in_doubt);
    let (code, said) = ended(&output);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("change lost is in doubt (no_answer) after 20 s: "), "{said}");
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_daemon_a_command_says_so_and_does_not_wait() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let adjust = ["quantity", "adjust", &sku, &warehouse, "1"];
    let queued = desk.run(&[&adjust[..], &["--key", "a"]].concat()).await;
    assert_eq!(queued.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&queued.stdout), "change a is queued\n");
    let warning = String::from_utf8_lossy(&queued.stderr).into_owned();
    assert!(
        warning.starts_with("warning: no daemon runs") && warning.contains("systemctl start tallyd"),
        "{warning}"
    );

    let begun = Instant::now();
    let waited = desk.run(&[&adjust[..], &["--key", "b", "--wait=10m", "--json"]].concat()).await;
    assert_eq!(waited.status.code(), Some(7));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let waited: Value = serde_json::from_slice(&waited.stdout).unwrap();
    assert_eq!((&waited["state"], &waited["key"]), (&json!("pending"), &json!("b")), "{waited}");
    assert!(waited["message"].as_str().unwrap().contains("no daemon runs"), "{waited}");
    assert!(waited["what_to_do"].as_str().unwrap().contains("systemctl start tallyd"), "{waited}");
    assert_eq!(desk.world.number("SELECT count(*) FROM outbox WHERE state = 'pending'").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_pushes_are_told_and_waited_for() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let working = desk.world.work().await;
    desk.text(&["pause", "--why", "stocktaking"]).await;
    let adjust = ["quantity", "adjust", &sku, &warehouse, "1"];
    let (code, said) = ended(&desk.run(&adjust).await);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning: push is paused since ") && said.contains("stocktaking"), "{said}");
    let (code, said) = ended(&desk.run(&[&adjust[..], &["--wait=1s"]].concat()).await);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("is paused since ") && said.contains("tallyd resume push"), "{said}");
    desk.text(&["resume"]).await;
    let (code, said) = ended(&desk.run(&[&adjust[..], &["--wait=60s"]].concat()).await);
    assert_eq!(code, 0, "{said}");
    working.stop().await;
}

/// A killed daemon sends no notification; its lock tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_dies_during_a_wait_ends_it() {
    let desk = read_desk().await;
    let (sku, warehouse, _) = desk.world.shop().await[0].clone();
    faults(&desk.world, json!([{"Operation": UPDATE, "Status": 503}])).await;
    let mut daemon = tokio::process::Command::from(program(&desk.config))
        .arg("run")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(daemon.stderr.take().unwrap()).lines();
    while !log.next_line().await.unwrap().unwrap().contains("\"event\":\"daemon.ready\"") {}
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
    let (warehouse, begun) = (warehouse.to_string(), Instant::now());
    let args = ["quantity", "adjust", &sku, &warehouse, "1", "--key", "left", "--wait=10m"];
    let kill = async {
        desk.world
            .until("the change was sent once", async |world| {
                let sent = "SELECT count(*) FROM change_transition WHERE state = 'sending'";
                world.number(sent).await > 0
            })
            .await;
        daemon.kill().await.unwrap();
    };
    let (output, ()) = tokio::join!(desk.run(&args), kill);
    let (code, said) = ended(&output);
    assert_eq!(code, 7, "{said}");
    assert!(said.contains("no daemon runs"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
    reading.await.unwrap();
}

/// The wait ends with the write that decides the change, and not with the next inspection of the daemon's lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_write_that_decides() {
    let desk = read_desk().await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    let (warehouse, below) = (warehouse.to_string(), (-quantity - 70).to_string());
    let working = desk.world.work().await;
    faults(&desk.world, json!([{"Operation": BALANCES, "LatencyMs": 1500, "Times": 1}])).await;
    let args = ["quantity", "adjust", &sku, &warehouse, &below, "--key", "w", "--wait=10m"];
    let (code, said) = ended(&desk.run(&args).await);
    let returned = tallyd::model::Clock::now(&tallyd::daemon::SystemClock);
    assert_eq!(code, 5, "{said}");
    let decided = desk.world.number("SELECT state_changed_ms FROM outbox WHERE key = 'w'").await;
    let late = returned.0 - decided;
    assert!(late < 4_000, "{late} ms after the decision; the lock is inspected each 5,000 ms");
    working.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_waits_for_all_of_its_lines() {
    let desk = read_desk().await;
    let levels = desk.world.shop().await;
    let (one, other) = (&levels[0], levels.iter().find(|level| level.0 != levels[0].0).unwrap());
    let file = desk.config.with_file_name("moves.csv");
    let write = |lines: &str| std::fs::write(&file, format!("sku,warehouse_id,delta\n{lines}")).unwrap();
    write(&format!("{},{},2\n{},{},-100000\n", one.0, one.1, other.0, other.1));
    let working = desk.world.work().await;
    let import = ["quantity", "import", file.to_str().unwrap(), "--wait=60s"];
    let (code, said) = ended(&desk.run(&import).await);
    assert_eq!(code, 5, "{said}");
    assert!(
        said.contains("2 changes queued, 0 known already") && said.contains("1 applied, 1 held\n"),
        "{said}"
    );
    assert!(said.contains("is held (negative): "), "{said}");
    let output = desk.run(&[&import[..], &["--new-lines", "--json"]].concat()).await;
    assert_eq!(output.status.code(), Some(5));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((fields(&rows[0]), rows.as_array().unwrap().len()), (FIELDS.to_vec(), 2));
    assert_eq!((&rows[0]["state"], &rows[1]["state"]), (&json!("applied"), &json!("held")), "{rows}");
    working.stop().await;
}

/// Every command that queues a change takes the options, and prints the same fields.
#[tokio::test(flavor = "multi_thread")]
async fn each_command_that_queues_a_change_waits_and_prints_its_json() {
    let desk = read_desk().await;
    let (sku, warehouse, quantity) = desk.world.shop().await[0].clone();
    let order = desk.world.sandbox.order_ids().await.unwrap().last().unwrap().to_string();
    let file = |name: &str, text: &str| {
        let file = desk.config.with_file_name(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let product = file("product.json", r#"{"Sku":"NEW-1","Name":"A new one"}"#);
    let made = desk.world.post("/api/Inventory", &json!({"Sku": "UPD-1", "Name": "Old"})).await;
    let mut changed = made["data"]["Product"].clone();
    changed["Name"] = "New".into();
    let update = file("update.json", &changed.to_string());
    let markup = file("body.html", "<p>{Name}</p>");
    let storefront = desk.json(&["storefront", "list", "--json"]).await[0]["id"].to_string();
    let (warehouse, counted) = (warehouse.to_string(), (quantity + 1).to_string());
    let working = desk.world.work().await;
    let commands: [&[&str]; 7] = [
        &["quantity", "set", &sku, &warehouse, &counted],
        &["product", "create", &product],
        &["product", "update", &update],
        &["warehouse", "create", "--name", "Attic", "--type", "Standard"],
        &["template", "create", "--storefront", &storefront, "--name", "Mine", "--body-file", &markup],
        &["ship", &order, "--key", "s"],
        &["tracking", "submit", "--shipment-key", "s", "--number", "1Z1", "--shipped", "2026-11-22 08:40"],
    ];
    for command in commands {
        let done = desk.json(&[command, &["--wait=60s", "--json"]].concat()).await;
        assert_eq!(
            (fields(&done), &done["state"]),
            (FIELDS.to_vec(), &json!("applied")),
            "{command:?}: {done}"
        );
    }
    let tracking = file("tracking.csv", "shipment_key,tracking_number\ns,1Z1\n");
    let rows = desk.json(&["tracking", "import", &tracking, "--wait=60s", "--json"]).await;
    assert_eq!((fields(&rows[0]), &rows[0]["state"]), (FIELDS.to_vec(), &json!("applied")), "{rows}");
    working.stop().await;
}
