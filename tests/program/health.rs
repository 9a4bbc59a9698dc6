//! The contract with monitoring: the fields of `status --json`, the exit code, the age of the data, the
//! metrics file.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::bounds::Running;
use crate::support::{BALANCES, World};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use tallyd::daemon::SystemClock;
use tallyd::model::Clock;

async fn run(world: &World, more: &str, args: &[&str]) -> Output {
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml(more)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.args(args).arg("--config").arg(config).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn status(world: &World) -> (Option<i32>, Value) {
    let output = run(world, "", &["status", "--json"]).await;
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns the value with every leaf replaced by its type.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "flag".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fields_of_status_are_a_contract() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    world.change("mine", "no.such.kind", "{}").await;
    world.once().await;
    let (code, all) = status(&world).await;
    assert_eq!((code, &all["well"]), (Some(3), &json!(false)), "a rejected change is news: {all}");
    let finding = json!({
        "code": "text", "severity": "text", "count": "number", "since": "text", "subjects": ["text"], "text": "text",
        "what_to_do": "text", "consequences": []
    });
    assert_eq!((shape(&all["findings"]), shape(&all["troubles"])), (json!([finding]), json!(["text"])));
    assert_eq!(
        (&all["findings"][0]["code"], &all["findings"][0]["severity"]),
        (&json!("rejected"), &json!("person"))
    );
    assert_eq!(run(&world, "", &["outbox", "acknowledge", "mine"]).await.status.code(), Some(0));
    let (code, status) = status(&world).await;
    assert_eq!((code, &status["well"], &status["troubles"]), (Some(0), &json!(true), &json!([])), "{status}");
    assert_eq!(status["findings"], json!([]));
    let counts = ["stock_levels", "exchanges", "missing_skus", "orders", "parked", "runs", "skus"];
    let counts: Value = counts.iter().map(|name| ((*name).to_owned(), json!("number"))).collect();
    assert_eq!(shape(&status["mirror"]), counts);
    assert_eq!(status["outbox"], json!({"rejected": 1}));
    assert!(status["budget"]["limit"].is_number() && status["budget"]["last_60_s"].is_array(), "{status}");
    let good = json!({
        "job": "text", "last_good_at": "text", "age_seconds": "number", "stale": "flag", "next_due_at": "text",
        "last_outcome": "text"
    });
    let jobs = status["jobs"].as_array().unwrap();
    let balances = jobs.iter().find(|row| row["job"] == "balances").unwrap();
    assert_eq!(shape(balances), good);
    let names: BTreeSet<&str> = good.as_object().unwrap().keys().map(String::as_str).collect();
    for row in jobs {
        assert_eq!(row.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>(), names);
    }
}

/// Data older than twice its interval are the first line and exit code 3.
///
/// The age counts from the start of the last good run, and a job whose schedule is silent is stale all the
/// same.
#[tokio::test(flavor = "multi_thread")]
async fn data_older_than_twice_its_interval_is_the_first_line_and_exit_code_3() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    // The interval of balances is five minutes, so ten are allowed.
    for (age_s, code) in [(590, 0), (660, 3)] {
        let then = SystemClock.now().0 - age_s * 1000;
        world.sql(&format!("UPDATE job_state SET last_good_ms = {then} WHERE job = 'balances'")).await;
        let stale = "SELECT stale FROM job_health WHERE job = 'balances'";
        assert_eq!(world.outsider().await.value::<bool>(stale).await, code == 3, "{age_s} s");
        let output = run(&world, "", &["status"]).await;
        assert_eq!(output.status.code(), Some(code), "{age_s} s");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let first = said.lines().next().unwrap();
        match code {
            0 => assert_eq!(first, "all is well"),
            _ => {
                assert!(first.starts_with("balances is stale (11 min old); see: tallyd job list"), "{first}")
            }
        }
    }
    let (code, status) = status(&world).await;
    assert_eq!((code, &status["well"]), (Some(3), &json!(false)));
}

/// Returns the first metrics of a daemon.
async fn first_metrics(world: &World) -> String {
    let file = world.path.with_file_name("tallyd.prom");
    let _ = std::fs::remove_file(&file);
    let config = world.toml(&format!("[metrics]\ntextfile = {file:?}\n"));
    let config = tallyd::config::Config::from_toml(&config).unwrap();
    let clock = std::sync::Arc::new(tallyd::daemon::SystemClock);
    let daemon = tallyd::daemon::Daemon::start(config, clock).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let (_reload, changed) = tokio::sync::mpsc::channel(1);
    let ended = tokio::spawn(daemon.run(stop.clone(), changed));
    world.until("the metrics are written", async |_| file.exists()).await;
    stop.cancel();
    ended.await.unwrap().unwrap();
    std::fs::read_to_string(&file).unwrap()
}

/// A metrics file in a folder that does not exist, and a position file of another user, are findings while a daemon runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_daemon_cannot_write_is_a_finding() {
    let world = World::new().await;
    world.track_all().await;
    let metrics = world.path.with_file_name("missing").join("tallyd.prom");
    let more = format!("[metrics]\ntextfile = {metrics:?}\n");
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml(&more)).unwrap();
    let mut running = Running::start(&config).await;
    running.until("daemon.ready").await;
    let unwritten = async || {
        let output = run(&world, &more, &["status", "--json"]).await;
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = status["findings"].as_array().unwrap().clone();
        let texts = findings.iter().filter(|found| found["code"] == "file_unwritten");
        texts.map(|found| found["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(unwritten().await, [""; 0], "a daemon that just started has its time");
    world
        .sql(
            "UPDATE session SET started_ms = started_ms - 600000; \
             INSERT INTO run (session_id, job, trigger, started_ms, ended_ms, outcome, summary) \
             SELECT max(id), 'balances', 'outbox', 1, 1, 'ok', 'read' FROM session",
        )
        .await;
    let texts = unwritten().await;
    assert!(texts.len() == 1 && texts[0].contains("tallyd.prom"), "{texts:?}");
    std::fs::create_dir(metrics.parent().unwrap()).unwrap();
    std::fs::write(&metrics, "").unwrap();
    assert_eq!(unwritten().await, [""; 0], "it is over once the file is new");

    let position = world.path.with_file_name("tallyd.db.position");
    if world.is_on_server("a server's position is in it") {
        return;
    }
    if std::os::unix::fs::chown(&position, Some(12_345), None).is_err() {
        println!("skipped: the position file of another user, because only root gives a file away");
        return;
    }
    let texts = unwritten().await;
    assert!(texts.len() == 1 && texts[0].contains("tallyd.db.position"), "{texts:?}");
    std::os::unix::fs::chown(&position, Some(0), None).unwrap();
    assert_eq!(unwritten().await, [""; 0]);
    assert_eq!(running.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_counted_over_restarts() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, _) = world.mirror().await.into_iter().find(|level| level.2 > 5).unwrap();
    let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": -1}).to_string();
    let count = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 40}).to_string();
    world.change("adjust-1", "quantity.adjust", &body).await;
    world.change("unknown-1", "quantity.fly", "{}").await;
    world.once().await;
    world.change("adjust-2", "quantity.adjust", &body).await;
    world.once().await;
    for _restart in 0..2 {
        let text = first_metrics(&world).await;
        let counted = |kind: &str, outcome: &str, total: i64| {
            let sample = format!("\ntallyd_changes_total{{kind=\"{kind}\",outcome=\"{outcome}\"}} {total}\n");
            assert!(text.contains(&sample), "{sample}: {text}");
        };
        counted("quantity.adjust", "applied", 2);
        counted("quantity.adjust", "cancelled", 0);
        counted("other", "rejected", 1);
        counted("shipment.create", "applied", 0);
        assert!(text.contains("# TYPE tallyd_changes_total counter\n"), "{text}");
    }
    world.change("count-1", "quantity.set", &count).await;
    world.once().await;
    let text = first_metrics(&world).await;
    assert!(text.contains("{kind=\"quantity.set\",outcome=\"applied\"} 1\n"), "{text}");
}

/// The metrics add what ended since the last count, so that each call is counted once.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_counted_once_by_its_answer() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let store = tallyd::store::Store::open_beside(&world.location).await.unwrap();
    let counted = async |after: i64| {
        let rows = store.call_outcomes_after(after).await.unwrap();
        let calls = |outcome: &str| {
            rows.iter().filter(|row| row.outcome == outcome).map(|row| row.calls).sum::<i64>()
        };
        (calls("accepted"), calls("transient"), rows.iter().map(|row| row.last_end).max().unwrap_or(after))
    };
    let first = i64::try_from(world.sandbox.logged_calls().len()).unwrap();
    let (accepted, transient, last_end) = counted(0).await;
    assert_eq!((accepted, transient), (first, 0));
    assert_eq!(counted(last_end).await, (0, 0, last_end));
    world.post("/_sandbox/faults", &json!({"Operation": BALANCES, "Status": 500, "Times": 1})).await;
    world.once().await;
    let second = i64::try_from(world.sandbox.logged_calls().len()).unwrap() - first;
    let (accepted, transient, newest) = counted(last_end).await;
    assert_eq!((accepted, transient), (second - 1, 1));
    let session = world.number("SELECT max(id) FROM session").await;
    assert_eq!(
        store.last_answer_before(session).await.unwrap(),
        last_end,
        "the count begins with the session"
    );
    assert_eq!(store.last_answer_before(session + 1).await.unwrap(), newest);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_file_holds_what_its_page_promises() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let now = tallyd::model::Clock::now(&tallyd::daemon::SystemClock).0;
    let taken = format!("INSERT INTO units_taken SELECT id, 1, 1, {now}, 7 FROM product ORDER BY id LIMIT 1");
    world.outsider().await.run(&taken).await.unwrap();
    let text = first_metrics(&world).await;
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for sample in &samples {
        let (name, value) = sample.rsplit_once(' ').unwrap();
        assert!(name.starts_with("tallyd_") && value.parse::<i64>().is_ok(), "{sample}");
    }
    let names: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let page = include_str!("../../docs/operations.md");
    let (_, table) = page.split_once("\n## Metrics\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let written: BTreeSet<&str> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split(['`', '{']).nth(1).unwrap())
        .collect();
    assert_eq!(names, written, "docs/operations.md, Metrics");
    let reserved = ["{job=", ",job=", "{instance=", ",instance="];
    assert!(!samples.iter().any(|sample| reserved.iter().any(|label| sample.contains(label))), "{text}");
    for there in [
        "tallyd_job_stale{task=\"balances\"} 0",
        "tallyd_outbox_changes{state=\"held\"} 0",
        "tallyd_outbox_oldest_pending_seconds 0",
        "tallyd_findings{code=\"waiting\"} 0",
        "tallyd_calls_last_minute{lane=\"operator\"} 0",
        "tallyd_calls_total{operation=\"GET /api/Company/WorkQueue\",answer=\"refused\"} 0",
        "tallyd_changes_total{kind=\"quantity.set\",outcome=\"applied\"} 0",
        "tallyd_conflicts_open{kind=\"count\"} 0",
        "tallyd_quota_share_permille 1000",
        "tallyd_bad_requests_limit{line=\"soft\"} 300",
        "tallyd_last_backup_timestamp_seconds 0",
        "tallyd_units_at_risk 7",
    ] {
        assert!(samples.contains(&there), "{there}: {text}");
    }
    let codes = samples.iter().filter(|sample| sample.starts_with("tallyd_findings{")).count();
    assert_eq!(codes, tallyd::health::FindingCode::ALL.len(), "what is not found is there with 0");
}
