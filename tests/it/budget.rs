//! The account's quota in use, over real HTTP on loopback: the order of a push's calls, and control requests.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::it::support::{BALANCES, UPDATE, World};
use serde_json::json;
use std::sync::Arc;
use tallyd::daemon::run_job;
use tallyd::daemon::{self, ControlRequest, SystemClock};
use tallyd::exec::KeyStatus;
use tallyd::model::{Clock, JobKind, ProductId, RunTrigger};
use tallyd::reconcile::proof::KeyState;
use tallyd::sandbox::SandboxOptions;
use tallyd::store::{Durability, Store};
use tallyd::sync;

/// Creates an account with slow answers, and a change of each of its stock levels.
async fn slow_backlog(latency_ms: u64) -> (World, Vec<(String, i64, i64)>) {
    let options =
        SandboxOptions { skus: 60, orders: 0, calls_per_minute: 0, latency_ms, ..SandboxOptions::default() };
    let extra = "[quantities]\nmax_fact_age = \"0s\"\n[jobs.balances]\nenabled = false\nskus_per_call = 40\n";
    let world = World::with(options, extra).await;
    world.make().await;
    let levels = world.shop().await;
    for (n, (sku, warehouse, quantity)) in levels.iter().enumerate() {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity + 1}).to_string();
        world.change(&format!("w{n}"), "quantity.set", &body).await;
    }
    (world, levels)
}

#[tokio::test]
async fn the_next_page_is_read_while_calls_fly_and_the_calls_stay_as_few_as_can_be() {
    let (world, levels) = slow_backlog(400).await;
    world.once().await;
    let calls = world.sandbox.logged_calls();
    let of = |operation: &'static str| calls.iter().filter(move |call| call.operation == operation);
    let end = |call: &tallyd::sandbox::LoggedCall| call.started_at_ms + call.duration_ms.unwrap();
    let overlaps = |read: &&tallyd::sandbox::LoggedCall| {
        of(UPDATE).any(|call| call.started_at_ms < end(read) && read.started_at_ms < end(call))
    };
    assert!(of(BALANCES).filter(overlaps).count() >= 1, "{calls:#?}");
    assert_eq!(of(UPDATE).count(), levels.len().div_ceil(25).max(3));
    let expected: Vec<_> = levels.iter().map(|(sku, w, quantity)| (sku.clone(), *w, quantity + 1)).collect();
    assert_eq!(world.shop().await, expected);
}

#[tokio::test]
async fn what_is_asked_beside_a_daemon_is_asked_by_the_daemon() {
    let world = World::new().await;
    world.track_all().await;
    let working = world.work().await;
    world.until("the mirror fills", async |world| world.mirror().await.len() > 10).await;
    let clock = || Arc::new(SystemClock);
    let keys = daemon::send_control_request(world.config(), clock(), &ControlRequest::Keys {}).await;
    let KeyStatus { key, .. } = keys.unwrap();
    assert_eq!(key, KeyState::Works);
    let sku = world.shop().await[0].0.clone();
    let asked = [sku.clone(), "no such thing".to_owned()];
    let request = ControlRequest::FindProducts { by_upc: false, ids: asked.into() };
    let found: Vec<String> = daemon::send_control_request(world.config(), clock(), &request).await.unwrap();
    assert_eq!(found, [sku]);
    let sessions = "SELECT count(*) FROM session";
    assert_eq!(world.number(sessions).await, 1, "nobody else took the lock");
    let asked = "SELECT count(*) FROM exchange WHERE operation = 'POST /api/inventory/getProducts'";
    assert_eq!(world.number(asked).await, 1, "and the call is counted where all are");
    assert_eq!(world.number("SELECT count(*) FROM request").await, 0, "answers are taken away");
    let refused = daemon::send_control_request::<ProductId>(
        world.config(),
        clock(),
        &ControlRequest::Components { sku: "none".into() },
    )
    .await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("no product with the SKU `none`"), "{why}");
    working.stop().await;
}

#[tokio::test]
async fn a_question_nobody_waits_for_any_more_costs_no_call() {
    let world = World::new().await;
    world.make().await;
    let store = Store::open_beside(&world.location).await.unwrap();
    let mut write = store.begin_write(Durability::Normal).await.unwrap();
    let long_ago = tallyd::model::Timestamp(1_000_000_000_000);
    write.request_add("keys", "{}", long_ago).await.unwrap();
    let strange = write.request_add("verify", "[]", SystemClock.now()).await.unwrap();
    write.commit().await.unwrap();
    let working = world.work().await;
    world.until("both are answered", async |_| store.request_answer(strange).await.unwrap().is_some()).await;
    let probes = "SELECT count(*) FROM exchange WHERE lane = 'probe'";
    assert_eq!(world.number(probes).await, 0);
    working.stop().await;
}

#[tokio::test]
async fn orders_are_read_as_soon_as_the_work_queues_counts_move() {
    let options = SandboxOptions { skus: 40, orders: 6, calls_per_minute: 0, ..SandboxOptions::default() };
    let world = World::with(options, "[jobs.work_queue]\nschedule = \"* * * * * *\"\n").await;
    world.track_all().await;
    let working = world.work().await;
    let looks = "SELECT count(*) FROM work_queue";
    world.until("the counts are known", async |world| world.number(looks).await > 0).await;
    let brought_forward = "SELECT count(*) FROM run WHERE job = 'order_lines' AND trigger = 'outbox'";
    assert_eq!(world.number(brought_forward).await, 0);
    let sku = world.shop().await[0].0.clone();
    world.sandbox.place_order(&[(&sku, 1)]).await.unwrap();
    world.until("they are read", async |world| world.number(brought_forward).await > 0).await;
    working.stop().await;
}

#[tokio::test]
async fn a_page_size_that_was_proved_serves_the_next_run() {
    let options = SandboxOptions { skus: 60, orders: 0, calls_per_minute: 0, ..SandboxOptions::default() };
    let world = World::with(options, "[jobs.balances]\nskus_per_call = 20\n").await;
    world.track_all().await;
    let daemon = world.daemon().await;
    read_all(&daemon).await;
    let first = world.calls(BALANCES);
    read_all(&daemon).await;
    assert_eq!(
        (first, world.calls(BALANCES) - first),
        (2, 1),
        "20 and 40 were full and worked, so all 60 fit"
    );
}

/// Runs the job as its schedule starts it.
async fn read_all(daemon: &daemon::Daemon) {
    let finished = run_job(daemon.context(), JobKind::Balances, RunTrigger::Schedule).await.unwrap();
    assert_eq!(finished.outcome, tallyd::journal::RunOutcome::Ok, "{}", finished.summary);
}

/// Creates a mirror ten minutes old. Nothing is scheduled, and a page holds five SKUs.
async fn quiet_shop() -> World {
    let jobs = ["order_lines", "warehouses", "storefronts", "work_queue"];
    let jobs = jobs.map(|job| format!("[jobs.{job}]\nenabled = false\n")).concat();
    let jobs = format!("[jobs.balances]\nenabled = false\nskus_per_call = 5\n{jobs}");
    let options = SandboxOptions { skus: 40, orders: 0, calls_per_minute: 0, ..SandboxOptions::default() };
    let world = World::with(options, &jobs).await;
    world.track_all().await;
    let daemon = world.daemon().await;
    run_job(daemon.context(), JobKind::Balances, RunTrigger::Once).await.unwrap();
    drop(daemon);
    world.sql("UPDATE read_batch SET observed_ms = observed_ms - 600000").await;
    world
}

#[tokio::test]
async fn the_stalest_skus_are_read_before_their_turn_whatever_schedules_are_configured() {
    let world = quiet_shop().await;
    let (good, calls) = ("SELECT last_good_ms FROM job_state WHERE job = 'balances'", world.calls(BALANCES));
    let good_before = world.number(good).await;
    let old = "SELECT count(*) FROM product p JOIN read_batch r ON r.id = p.read_batch_id WHERE r.observed_ms < \
               (SELECT started_ms FROM session ORDER BY id DESC LIMIT 1) - 300000";
    let working = world.work().await;
    let read = "SELECT count(*) FROM run WHERE job = 'balances' AND trigger = 'outbox' AND outcome = 'ok'";
    world.until("they are read", async |world| world.number(read).await > 0).await;
    assert_eq!((world.number(old).await, world.calls(BALANCES) - calls), (20, 3), "pages of 5, 10 and 5 are");
    assert_eq!(world.number(good).await, good_before, "and it is no pass");
    working.stop().await;
}

#[tokio::test]
async fn nothing_is_read_before_its_turn_while_half_of_the_quota_is_used() {
    let world = quiet_shop().await;
    let few = tallyd::config::Config::from_toml(&world.toml("[limits]\ncalls_per_minute = 8\n")).unwrap();
    let calls = world.calls(BALANCES);
    let daemon = daemon::Daemon::start(few, Arc::new(SystemClock)).await.unwrap();
    assert!(sync::prefetch_balances(daemon.context()).await.unwrap().is_none());
    assert_eq!(world.calls(BALANCES), calls);
    assert_eq!(world.number("SELECT count(*) FROM run").await, 1, "and nothing is journalled");
}

#[tokio::test]
async fn a_page_that_is_too_much_is_halved_and_what_worked_is_remembered() {
    for status in [413, 500] {
        let options =
            SandboxOptions { skus: 60, orders: 0, calls_per_minute: 0, ..SandboxOptions::default() };
        let world = World::with(options, "[jobs.balances]\nskus_per_call = 60\n").await;
        world.track_all().await;
        world.post("/_sandbox/faults", &json!([{"Operation": BALANCES, "Status": status, "Times": 1}])).await;
        let daemon = world.daemon().await;
        read_all(&daemon).await;
        assert_eq!(world.calls(BALANCES), 3, "60 failed with {status}, 30 and 30 did not");
        read_all(&daemon).await;
        assert_eq!(world.calls(BALANCES), 5, "the next begins with 30");
    }
}
