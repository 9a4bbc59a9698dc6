//! The log, as an operator's tools read it.
//!
//! Each line about a change names the change. A failure is one line with the time of the next attempt. The
//! daemon logs a release when it notices it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::{UPDATE, World};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use tallyd::daemon::SystemClock;
use tallyd::model::Clock;

/// The program against a world's account, with its log in a file.
struct Desk<'a> {
    world: &'a World,
    more: &'static str,
}

impl Desk<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let config = self.world.path.with_file_name("tallyd.toml");
        std::fs::write(&config, self.world.toml(self.more)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(config).args(args).env("TALLYD_JOBS__SETTLE__ENABLED", "true");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Runs a command and returns its log lines.
    async fn lines(&self, args: &[&str]) -> Vec<Value> {
        let mut command = self.command(args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        parsed(&String::from_utf8(output.stderr).unwrap())
    }

    /// Runs a command and returns its output.
    async fn said(&self, args: &[&str]) -> String {
        let mut command = self.command(args);
        command.stdout(Stdio::piped());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the daemon, which runs until it is dropped.
    fn daemon(&self) -> Daemon {
        let log = std::fs::File::create(self.log()).unwrap();
        Daemon(self.command(&["run"]).stderr(log).spawn().unwrap())
    }

    fn log(&self) -> std::path::PathBuf {
        self.world.path.with_file_name("log")
    }

    /// Waits for the daemon's first line with this event and returns it.
    async fn line(&self, event: &str) -> Value {
        let find = || {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
            parsed(whole).into_iter().find(|line| line["event"] == event)
        };
        self.world.until(&format!("{event} is written"), async |_| find().is_some()).await;
        find().unwrap()
    }
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Parses the lines, and fails if docs/logging.md has no sample of one of them.
pub(crate) fn parsed(log: &str) -> Vec<Value> {
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // A library's line bears no event: a statement that waited for a second, for one.
    let is_ours = |line: &&Value| line["target"].as_str().is_some_and(|target| target.starts_with("tallyd"));
    let unknown = lines.iter().filter(is_ours).filter(|line| !is_sampled(line));
    let unknown: Vec<String> = unknown.map(ToString::to_string).collect();
    assert!(unknown.is_empty(), "docs/logging.md has no sample of these lines:\n{}", unknown.join("\n"));
    lines
}

/// Returns true if the page has a sample of the line's shape: event, level, target, and the line's fields with the
/// types of their values. A field without a value is absent from a line.
fn is_sampled(line: &Value) -> bool {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/logging.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, samples) = page.split_once("\n## Samples\n").unwrap();
    let samples = samples.split("```").nth(1).unwrap().trim_start_matches("json\n");
    let mut samples = samples.lines().filter(|line| !line.is_empty());
    let line = shape(line);
    samples.any(|sample| line.is_subset(&shape(&serde_json::from_str(sample).unwrap())))
}

fn shape(line: &Value) -> BTreeSet<(String, String)> {
    let kind = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) if ["event", "level", "target"].contains(&key.as_str()) => text.clone(),
            Value::String(_) => "text".into(),
            Value::Number(_) => "number".into(),
            other => other.to_string(),
        };
        (key.clone(), value)
    };
    line.as_object().unwrap().iter().map(kind).collect()
}

async fn id(world: &World, key: &str) -> i64 {
    world.number(&format!("SELECT id FROM outbox WHERE key = '{key}'")).await
}

/// Returns event, reason and outcome of the single line about this change.
async fn own_line(world: &World, lines: &[Value], key: &str) -> (String, String, String) {
    let own: Vec<&Value> = lines.iter().filter(|line| line["key"] == key).collect();
    let [line] = own[..] else { panic!("{key} has {} lines: {lines:#?}", own.len()) };
    assert_eq!(line["change"], id(world, key).await, "{line}");
    let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    (field("event"), field("reason"), field("outcome"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_about_a_change_names_its_id_and_its_key() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let mut stocked = world.shop().await;
    stocked.retain(|(_, _, quantity)| *quantity > 2);
    stocked.dedup_by(|a, b| a.0 == b.0);
    let [(sku, warehouse, _), (other, its_warehouse, _), (third, third_warehouse, _), ..] = &stocked[..]
    else {
        panic!("too little stock: {stocked:?}")
    };
    let changes = [
        ("fine", "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": -1})),
        ("below", "quantity.adjust", json!({"sku": other, "warehouse_id": its_warehouse, "delta": -999_999})),
        ("nobody", "quantity.set", json!({"sku": "NO-SUCH-SKU", "warehouse_id": 1, "quantity": 1})),
        ("nonsense", "no.such.kind", json!({})),
        ("attic", "warehouse.create", json!({"Name": "Attic", "Type": "Standard"})),
        (
            "moved",
            "quantity.set",
            json!({"sku": third, "warehouse_id": third_warehouse, "quantity": 1, "seen": 999}),
        ),
    ];
    for (key, kind, body) in &changes {
        world.change(key, kind, &body.to_string()).await;
    }
    let desk = Desk { world: &world, more: "[quantities]\npolicy = \"ask\"\n" };
    let lines = desk.lines(&["run", "--once"]).await;
    let answer = |event: &str, reason: &str, outcome: &str| (event.into(), reason.into(), outcome.into());
    for (key, expected) in [
        ("below", answer("outbox.held", "negative", "")),
        ("nobody", answer("outbox.held", "not_shown", "")),
        ("nonsense", answer("outbox.finished", "bad_body", "rejected")),
        ("attic", answer("outbox.finished", "", "applied")),
        ("moved", answer("conflict.opened", "", "")),
    ] {
        assert_eq!(own_line(&world, &lines, key).await, expected, "{key}");
    }
    let call = lines.iter().find(|line| line["entries"].is_number()).unwrap();
    assert_eq!((&call["ids"], &call["keys"]), (&json!(id(&world, "fine").await.to_string()), &json!("fine")));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_in_doubt_are_named_and_so_is_what_a_look_decides() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    world.post("/_sandbox/faults", &json!([{"Operation": UPDATE, "Drop": "after", "Times": 1}])).await;
    let (sku, warehouse, _) = world.shop().await.into_iter().find(|(.., quantity)| *quantity > 9).unwrap();
    for key in ["one", "two"] {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": -1}).to_string();
        world.change(key, "quantity.adjust", &body).await;
    }
    let desk = Desk { world: &world, more: "" };
    let lines = desk.lines(&["run", "--once"]).await;
    let doubt = lines.iter().find(|line| line["event"] == "outbox.in_doubt").unwrap();
    let ids = format!("{}, {}", id(&world, "one").await, id(&world, "two").await);
    assert_eq!((&doubt["ids"], &doubt["keys"]), (&json!(ids), &json!("one, two")));
    let decided = lines.iter().find(|line| line["event"] == "outbox.finished").unwrap();
    assert_eq!((&decided["keys"], &decided["exchange"]), (&doubt["keys"], &doubt["exchange"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_failed_is_one_line_that_says_when_it_is_tried_again() {
    let world = World::new().await;
    world.track_all().await;
    let broken = json!([{"Operation": "GET /api/Warehouses", "Status": 400}]);
    world.post("/_sandbox/faults", &broken).await;
    let desk = Desk { world: &world, more: "[jobs.warehouses]\nschedule = \"* * * * * *\"\n" };
    let _daemon = desk.daemon();
    let failed = desk.line("job.failed").await;
    let run = failed["run"].as_i64().unwrap();
    assert_eq!((&failed["job"], &failed["level"]), (&json!("warehouses"), &json!("WARN")));
    assert!(failed["retry_s"].as_i64().unwrap() >= 1 && failed["elapsed_ms"].is_number(), "{failed}");
    assert!(failed["reason"].as_str().unwrap().contains("400"), "{failed}");
    let log = std::fs::read_to_string(desk.log()).unwrap();
    assert_eq!(log.matches(&format!("\"run\":{run},")).count(), 1, "said once: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_says_what_a_person_released() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let desk = Desk { world: &world, more: "" };
    let _daemon = desk.daemon();
    desk.line("daemon.ready").await;
    for (n, (sku, warehouse, _)) in world.shop().await.iter().enumerate() {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 0}).to_string();
        world.change(&format!("z{n}"), "quantity.set", &body).await;
    }
    let tripped = desk.line("brake.tripped").await;
    world.until("the changes are held", async |world| world.fate("z0").await.0 != "pending").await;
    desk.lines(&["outbox", "release", "--all"]).await;
    let released = desk.line("brake.released").await;
    assert_eq!(released["trip"], tripped["trip"], "{tripped} {released}");
    assert!(released["changes"].as_i64().unwrap() > 0, "{released}");
}

/// An operator ordered the stop, so it is no warning; the line names the run whose work is not done.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_stop_ended_early_is_one_line_that_says_so() {
    const MONTH: &str = "GET /api/Inventory/TopSelling";
    let world = World::new().await;
    world.post("/_sandbox/faults", &json!([{"Operation": MONTH, "LatencyMs": 200}])).await;
    let desk = Desk { world: &world, more: "" };
    let log = std::fs::File::create(desk.log()).unwrap();
    let mut command = desk.command(&["run"]);
    let mut daemon =
        Daemon(command.env("TALLYD_JOBS__TOP_SELLING__ENABLED", "true").stderr(log).spawn().unwrap());
    world.until("some of the 24 months are read", async |world| world.calls(MONTH) > 1).await;
    let pid = rustix::process::Pid::from_child(&daemon.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success());
    assert!(world.calls(MONTH) < 24);
    let lines = parsed(&std::fs::read_to_string(desk.log()).unwrap());
    let of_job: Vec<&Value> = lines.iter().filter(|line| line["job"] == "top_selling").collect();
    let [line] = of_job[..] else { panic!("{lines:#?}") };
    let said = ["event", "outcome", "level"].map(|field| line[field].as_str().unwrap());
    assert_eq!(said, ["job.finished", "interrupted", "INFO"], "{line}");
}

/// An operator can end a wait of a day; such a `Retry-After` is more likely a mistake of the platform.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_a_day_ends_by_a_persons_word() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let day = json!([{"Operation": UPDATE, "Status": 429, "RetryAfter": 86_400, "Times": 1}]);
    world.post("/_sandbox/faults", &day).await;
    let desk = Desk { world: &world, more: "" };
    let _daemon = desk.daemon();
    desk.line("daemon.ready").await;
    let (sku, warehouse, quantity) = world.shop().await[0].clone();
    let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity + 1}).to_string();
    world.change("waits", "quantity.set", &body).await;
    assert_eq!(desk.line("quota.hold").await["hold_ms"], 86_400_000);
    // The line tells of the answer; the commit that stores the answer stores the hold too.
    let stored = "SELECT count(*) FROM exchange WHERE status = 429 AND ended IS NOT NULL";
    world.until("the hold is stored", async |world| world.number(stored).await == 1).await;
    assert!(desk.said(&["status"]).await.contains("by mistake: tallyd quota lift"));
    let said = desk.said(&["quota", "lift"]).await;
    assert!(said.starts_with("ended: account waits (rate) until "), "{said}");
    desk.line("quota.lifted").await;
    let events = "SELECT count(*) FROM event WHERE kind = 'quota.lifted' AND decided_by LIKE 'user:%'";
    assert_eq!(world.number(events).await, 1);
    world.until("it is applied", async |world| world.fate("waits").await.0 == "applied").await;
    assert!(desk.said(&["quota", "lift"]).await.contains("no wait of the account"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_a_person_corrected_is_pushed_at_once() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, quantity) = world.shop().await[0].clone();
    let now = SystemClock.now().0;
    world
        .sql(&format!("INSERT INTO quarantine VALUES ('{UPDATE}', '{sku}', {now}, {now}, 9, 'locked')"))
        .await;
    let desk = Desk { world: &world, more: "" };
    let _daemon = desk.daemon();
    desk.line("daemon.ready").await;
    let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity + 1}).to_string();
    world.change("aside", "quantity.set", &body).await;
    let waits = "SELECT count(*) FROM outbox WHERE state = 'pending' AND detail LIKE '%locked%'";
    world.until("it waits", async |world| world.number(waits).await == 1).await;
    let listed: Value = serde_json::from_str(&desk.said(&["quarantine", "list", "--json"]).await).unwrap();
    assert_eq!((&listed[0]["entry"], &listed[0]["why"]), (&json!(sku), &json!("locked")), "{listed}");
    assert_eq!(desk.said(&["quarantine", "retry", "no-such"]).await, "no-such: not quarantined\n");
    let said = desk.said(&["quarantine", "retry", &sku]).await;
    assert_eq!(said, format!("{sku}: retried by the next run that needs it\n"));
    world.until("it is applied", async |world| world.fate("aside").await.0 == "applied").await;
    assert_eq!(desk.said(&["quarantine", "list"]).await, "nothing is quarantined\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_a_warning_and_one_that_a_person_decided_is_none() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, _) = world.shop().await.into_iter().find(|(.., quantity)| *quantity > 9).unwrap();
    let moved = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 1, "seen": 999});
    world.change("policy", "quantity.set", &moved.to_string()).await;
    world.change("nonsense", "no.such.kind", "{}").await;
    let desk = Desk { world: &world, more: "[quantities]\npolicy = \"remote\"\n" };
    let lines = desk.lines(&["run", "--once"]).await;
    let level = |key: &str| {
        let line = lines.iter().find(|line| line["key"] == key && line["outcome"] == "rejected");
        line.unwrap_or_else(|| panic!("{key}: {lines:#?}"))["level"].clone()
    };
    assert_eq!((level("nonsense"), level("policy")), (json!("WARN"), json!("INFO")));
}

/// A change that stays in doubt is logged as in doubt, not as held, because operators look for it there.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_may_have_made_is_said_as_in_doubt() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let ship = "POST /api/Shipments/Create";
    world.post("/_sandbox/faults", &json!([{"Operation": ship, "Drop": "after", "Times": 1}])).await;
    let (sku, ..) = world.shop().await.into_iter().find(|(.., quantity)| *quantity > 9).unwrap();
    let order = world.sandbox.place_order(&[(sku.as_str(), 5)]).await.unwrap();
    world.change("s", "shipment.create", &json!({"order_id": order}).to_string()).await;
    let desk = Desk { world: &world, more: "" };
    let mut lines = desk.lines(&["run", "--once"]).await;
    // The quiet time of a create passes.
    world.sql("UPDATE exchange SET sent_ms = sent_ms - 700000, answered_ms = answered_ms - 700000").await;
    world.sql("UPDATE exchange SET sent_moment = sent_moment - 700000, answered_moment = answered_moment - 700000").await;
    lines.extend(desk.lines(&["run", "--once"]).await);
    assert_eq!(world.fate("s").await.1, "landed_or_another", "{lines:#?}");
    let said: Vec<&Value> = lines.iter().filter(|line| line["key"] == "s").collect();
    let [line] = said[..] else { panic!("{said:#?}") };
    assert_eq!(
        (&line["event"], &line["reason"]),
        (&json!("outbox.in_doubt"), &json!("landed_or_another")),
        "{line}"
    );
    assert!(lines.iter().all(|line| line["event"] != "outbox.held"), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_the_limiter_that_is_unreadable_is_named() {
    let world = World::new().await;
    world.make().await;
    world.sql("INSERT INTO limiter_state VALUES (1, '[]') ON CONFLICT (id) DO UPDATE SET state = excluded.state").await;
    let lines = Desk { world: &world, more: "" }.lines(&["run", "--once"]).await;
    let named = |line: &Value| line["message"].as_str().is_some_and(|said| said.contains("limiter"));
    assert!(lines.iter().any(|line| line["event"] == "daemon.warning" && named(line)), "{lines:#?}");
}
