//! The daemon against the sandbox, over real HTTP on loopback, as an operator and another program see it.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::client::{PlatformRequest, PlatformResponse, SendFuture, Transport};
use crate::config::Config;
use crate::daemon::{Daemon, SystemClock, run_job};
use crate::it::support::outsider::quoted;
use crate::it::support::{BALANCES, UPDATE, World};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RunTrigger};
use crate::sandbox::SandboxOptions;
use crate::store::StoreOptions;
use serde_json::json;
use sqlx::Executor;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::time::Duration;

#[tokio::test]
async fn after_one_run_the_mirror_equals_the_shop_stock_level_for_stock_level() {
    let world = World::new().await;
    world.track_all().await;
    let once = world.once().await;
    assert!(once.is_good(), "{once:?}");
    let kits: Vec<String> = {
        let shop = world.shop().await;
        let all = world.sandbox.all_skus().await.unwrap();
        all.into_iter().filter(|sku| !shop.iter().any(|(s, _, _)| s == sku)).collect()
    };
    let mut mirror = world.mirror().await;
    mirror.retain(|(sku, _, _)| !kits.contains(sku));
    assert_eq!(mirror, world.shop().await);
    assert_eq!(world.calls(BALANCES), 1);
    let lines: Vec<(i64, i64)> = world
        .outsider()
        .await
        .rows("SELECT order_id, count(*) FROM order_line GROUP BY order_id ORDER BY order_id")
        .await;
    assert_eq!(
        lines.iter().map(|(order, _)| *order).collect::<Vec<_>>(),
        world.sandbox.order_ids().await.unwrap()
    );
    let bad: Vec<_> =
        world.sandbox.logged_calls().into_iter().filter(|call| call.status != Some(200)).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[tokio::test]
async fn a_second_run_writes_no_stock_level() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let again = world.once().await;
    let balances = again.runs.iter().find(|run| run.kind.as_str() == "balances").unwrap();
    assert!(balances.summary.contains("0 stock levels new or changed"), "{}", balances.summary);
}

/// Returns the first stock level that is no kit's and has at least this quantity.
async fn well_stocked(world: &World, at_least: i64) -> (String, i64, i64) {
    world.shop().await.into_iter().find(|(_, _, quantity)| *quantity >= at_least).unwrap()
}

#[tokio::test]
async fn a_count_is_merged_with_what_was_sold_since() {
    let world = World::with(
        SandboxOptions { skus: 40, calls_per_minute: 0, ..SandboxOptions::default() },
        "[quantities]\nmax_fact_age = \"0s\"\n",
    )
    .await;
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, quantity) = well_stocked(&world, 20).await;
    world
        .change(
            "count",
            "quantity.set",
            &json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity - 3}).to_string(),
        )
        .await;
    world.sandbox.sell_units(&sku, warehouse, 2).await.unwrap();
    world.once().await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 5);
    let (state, _, detail) = world.fate("count").await;
    assert_eq!(state, "applied");
    assert!(detail.contains("2 sold since"), "{detail}");

    world
        .change(
            "moved",
            "quantity.adjust",
            &json!({"sku": sku, "warehouse_id": warehouse, "delta": -3}).to_string(),
        )
        .await;
    world.sandbox.sell_units(&sku, warehouse, 4).await.unwrap();
    world.once().await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 12);
}

#[tokio::test]
async fn changes_of_one_stock_level_settle_with_one_entry() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, _) = well_stocked(&world, 20).await;
    world
        .change(
            "a",
            "quantity.set",
            &json!({"sku": sku, "warehouse_id": warehouse, "quantity": 30}).to_string(),
        )
        .await;
    world
        .change(
            "b",
            "quantity.adjust",
            &json!({"sku": sku, "warehouse_id": warehouse, "delta": 5}).to_string(),
        )
        .await;
    world.once().await;
    assert_eq!(world.shop_level(&sku, warehouse).await, 35);
    assert_eq!(world.calls(UPDATE), 1);
    assert_eq!((world.fate("a").await.0.as_str(), world.fate("b").await.0.as_str()), ("applied", "applied"));
}

#[tokio::test]
async fn a_backlog_takes_as_few_calls_as_can_be_and_one_bad_sku_spoils_nothing() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let levels = world.shop().await;
    let mut rows = Vec::new();
    for (n, (sku, warehouse, quantity)) in levels.iter().enumerate() {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity + 1}).to_string();
        rows.push(format!("('w{n}', 'quantity.set', {})", quoted(&body)));
    }
    let ghost = json!({"sku": "no such thing", "warehouse_id": levels[0].1, "quantity": 1}).to_string();
    rows.push(format!("('ghost', 'quantity.set', {})", quoted(&ghost)));
    world.sql(&format!("INSERT INTO outbox (key, kind, body) VALUES {}", rows.join(", "))).await;
    world.once().await;
    let expected: Vec<_> = levels.iter().map(|(sku, w, quantity)| (sku.clone(), *w, quantity + 1)).collect();
    assert_eq!(world.shop().await, expected);
    assert_eq!(world.calls(UPDATE), levels.len().div_ceil(25).max(3));
    assert_eq!(
        (world.fate("ghost").await.0.as_str(), world.fate("ghost").await.1.as_str()),
        ("held", "not_shown")
    );
}

#[tokio::test]
async fn nonsense_is_rejected_with_a_reason_and_never_sent() {
    let world = World::new().await;
    world.track_all().await;
    let nonsense = [
        ("quantity.set", "{}"),
        ("quantity.set", "[1]"),
        ("quantity.set", "null"),
        ("quantity.set", r#"{"sku":"A","warehouse_id":1,"quantity":2.5}"#),
        ("quantity.set", r#"{"sku":"A","warehouse_id":123456789012345678901234567890,"quantity":2}"#),
        ("quantity.set", r#"{"sku":"A","warehouse_id":9000000000000001,"quantity":2}"#),
        ("quantity.set", r#"{"sku":"A","warehouse_id":1,"quantity":-1}"#),
        ("quantity.adjust", r#"{"sku":"A","warehouse_id":1,"delta":"3"}"#),
        ("quantity.increase", r#"{"sku":"A","warehouse_id":1,"delta":3}"#),
        ("shipment.create", "{}"),
        ("tracking.submit", r#"{"shipment_id":1}"#),
        ("product.create", "{}"),
        ("warehouse.create", r#"{"Name":""}"#),
    ];
    for (n, (kind, body)) in nonsense.iter().enumerate() {
        world.change(&format!("n{n}"), kind, body).await;
    }
    world.once().await;
    for (n, change) in nonsense.iter().enumerate() {
        let (state, reason, detail) = world.fate(&format!("n{n}")).await;
        assert_eq!(state, "rejected", "{change:?}: {reason} {detail}");
        assert!(!reason.is_empty() && detail.len() > 10, "{change:?}: {reason} {detail}");
    }
    assert!(world.sandbox.logged_calls().iter().all(|call| call.status == Some(200)));
}

#[tokio::test]
async fn text_that_is_no_utf_8_spoils_nothing() {
    let world = World::new().await;
    if world.is_on_server("SQLite takes any bytes as text") {
        return;
    }
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, quantity) = well_stocked(&world, 20).await;
    let mut other = world.outsider().await.into_sqlite();
    for sql in [
        // A lone surrogate, which SQLite accepts as JSON, and Latin-1 in every column that a program can
        // write.
        r#"INSERT INTO outbox (key, kind, body) VALUES ('u', 'quantity.set', '{"sku":"\ud800","warehouse_id":1,"quantity":1}')"#,
        "INSERT INTO outbox (key, kind, body) VALUES ('l', 'quantity.set', \
             '{\"sku\":\"' || CAST(x'47f6dfe5' AS TEXT) || '\",\"warehouse_id\":1,\"quantity\":1}')",
        "INSERT INTO outbox (key, kind, body) VALUES (CAST(x'6bf6' AS TEXT), CAST(x'f6' AS TEXT), '{}')",
        "INSERT INTO tracked_sku (sku) VALUES (CAST(x'47f6dfe5' AS TEXT))",
    ] {
        other.execute(sql).await.unwrap();
    }
    let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}).to_string();
    world.change("good", "quantity.adjust", &body).await;
    assert!(world.once().await.is_good());
    assert_eq!(world.fate("good").await.0, "applied");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity + 1);
    for key in ["u", "l"] {
        assert_eq!(world.fate(key).await.0, "rejected");
    }
    assert_eq!(world.number("SELECT count(*) FROM outbox WHERE state = 'rejected'").await, 3);
}

#[tokio::test]
async fn a_change_of_another_process_wakes_the_daemon() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let working = world.work().await;
    world.until("the first looks are over", async |world| world.calls(BALANCES) >= 1).await;
    let (sku, warehouse, _) = well_stocked(&world, 20).await;
    let began = tokio::time::Instant::now();
    for n in 0..5 {
        let before = world.calls(UPDATE);
        let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}).to_string();
        world.change(&format!("w{n}"), "quantity.adjust", &body).await;
        world.until("it is sent", async |world| world.calls(UPDATE) > before).await;
    }
    // The last check that follows a write comes 8 s later. Five changes that wait for it take longer.
    let all_five = began.elapsed();
    assert!(all_five < Duration::from_secs(8), "{all_five:?}");
    assert!(working.stop().await < Duration::from_secs(10));
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let world = World::new().await;
    let first = world.daemon().await;
    let second =
        crate::daemon::Daemon::start(world.config(), std::sync::Arc::new(crate::daemon::SystemClock)).await;
    let error = second.err().unwrap().to_string();
    assert!(error.contains("another tallyd uses this database"), "{error}");
    assert!(first.run_once().await.unwrap().is_good());
}

#[tokio::test]
async fn a_refused_key_costs_few_calls_and_heals_by_its_file() {
    let world = World::new().await;
    world.track_all().await;
    let key = world.sandbox.integration_key().to_owned();
    world.write_key("not-the-key");
    let working = world.work().await;
    let refusals = "SELECT count(*) FROM exchange WHERE verdict = 'refused'";
    world.until("it is refused", async |world| world.number(refusals).await > 0).await;
    world.change("k", "quantity.adjust", r#"{"sku":"A","warehouse_id":1,"delta":1}"#).await;
    world.write_key(&key);
    world.until("the mirror fills", async |world| world.mirror().await.len() > 10).await;
    // At most the first call of each of the five jobs that a start runs. A refusal of SKUs or order numbers may
    // concern them, so these two jobs probe the key, once.
    let refused = async |lane: &str| {
        let sql = format!(
            "SELECT run_id, count(*) FROM exchange WHERE verdict = 'refused' AND lane = {} GROUP BY run_id",
            quoted(lane)
        );
        world.outsider().await.rows::<(i64, i64)>(&sql).await
    };
    let polls = refused("poll").await;
    assert!(polls.len() <= 5 && polls.iter().all(|(_, calls)| *calls == 1), "{polls:?}");
    let mut probes = refused("probe").await;
    probes.retain(|(run, _)| polls.iter().any(|(polled, _)| polled == run));
    assert!(probes.len() <= 2 && probes.iter().all(|(_, calls)| *calls == 1), "{probes:?}");
    world.until("the change is judged", async |world| world.fate("k").await.0 == "held").await;
    working.stop().await;
}

#[tokio::test]
async fn a_refused_key_stays_refused_while_a_failing_platform_answers_the_probe() {
    const QUEUE: &str = "GET /api/Company/WorkQueue";
    let world = World::new().await;
    world.track_all().await;
    for status in [401, 500] {
        world.post("/_sandbox/faults", &json!([{"Operation": QUEUE, "Status": status, "Times": 1}])).await;
    }
    let daemon = world.daemon().await;
    let store = &daemon.context().store;
    run_job(daemon.context(), JobKind::WorkQueue, RunTrigger::Schedule).await.unwrap();
    assert!(store.key_is_refused().await.unwrap());
    assert!(!daemon.probe_key().await.unwrap());
    assert_eq!(world.number("SELECT count(*) FROM exchange WHERE status = 500").await, 1);
    assert!(store.key_is_refused().await.unwrap(), "an answer of 500 says nothing of the key");
    assert!(daemon.probe_key().await.unwrap());
    assert!(!store.key_is_refused().await.unwrap());
    // This 403 may mean the SKUs, and the probe decides nothing.
    for (operation, status) in [(BALANCES, 403), (QUEUE, 500)] {
        world
            .post("/_sandbox/faults", &json!([{"Operation": operation, "Status": status, "Times": 1}]))
            .await;
    }
    run_job(daemon.context(), JobKind::Balances, RunTrigger::Schedule).await.unwrap();
    assert_eq!(world.number("SELECT count(*) FROM exchange WHERE status = 500").await, 2);
    assert!(!store.key_is_refused().await.unwrap());
}

#[tokio::test]
async fn a_stop_does_not_wait_for_the_next_try_of_a_failed_read() {
    let world = World::new().await;
    world.track_all().await;
    world.post("/_sandbox/faults", &json!([{"Operation": BALANCES, "Status": 500, "Times": 1000}])).await;
    // A single SKU would be given up before.
    for (sku, warehouse, _) in world.shop().await {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}).to_string();
        world.change(&format!("{sku} {warehouse}"), "quantity.adjust", &body).await;
    }
    let working = world.work().await;
    // The delay before the ninth attempt is 5 s.
    let failed = "SELECT count(*) FROM exchange WHERE lane = 'push' AND status = 500";
    world.until("the push has read in vain", async |world| world.number(failed).await == 8).await;
    let took = working.stop().await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    let run = "SELECT outcome FROM run WHERE job = 'push' ORDER BY id DESC LIMIT 1";
    assert_eq!(world.outsider().await.value::<String>(run).await, "interrupted");
}

#[tokio::test]
async fn a_page_too_large_is_halved_until_it_passes() {
    let world = World::new().await;
    world.track_all().await;
    world.post("/_sandbox/faults", &json!([{"Operation": BALANCES, "Status": 500, "Times": 2}])).await;
    let once = world.once().await;
    assert!(once.is_good(), "{once:?}");
    assert!(world.calls(BALANCES) >= 3);
    assert_eq!(world.mirror().await.len() / 3, world.sandbox.all_skus().await.unwrap().len());
}

#[tokio::test]
async fn a_page_of_texts_that_are_no_skus_does_not_end_the_run() {
    let world = World::new().await;
    world.track_all().await;
    world.sql("INSERT INTO tracked_sku (sku) WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 300) SELECT '\t' || v FROM n").await;
    assert!(world.once().await.is_good());
    assert_eq!(world.mirror().await.len() / 3, world.sandbox.all_skus().await.unwrap().len());
}

#[tokio::test]
async fn a_sku_that_never_was_is_missing_by_two_passes_and_an_emptied_answer_is_a_failure() {
    let world = World::new().await;
    world.track_all().await;
    world.sql("INSERT INTO tracked_sku (sku) VALUES ('never was')").await;
    let missing = "SELECT count(*) FROM product WHERE missing_since_ms IS NOT NULL";
    for passes in 1..=2 {
        world.once().await;
        assert_eq!(world.calls(BALANCES), passes, "no call is made twice");
        assert_eq!(world.number(missing).await, i64::from(passes == 2));
    }

    world.make_strangers_of_all_skus().await;
    let once = world.once().await;
    let balances = once.runs.iter().find(|run| run.kind.as_str() == "balances").unwrap();
    assert_eq!(balances.outcome, RunOutcome::Failed);
    assert!(balances.summary.contains("returned none of 40 known SKUs"), "{}", balances.summary);
    assert_eq!(world.number(missing).await, 1);
}

#[tokio::test]
async fn a_feed_that_zeroes_the_shop_is_held_released_once_and_then_done() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let before = world.shop().await;
    for (n, (sku, warehouse, _)) in before.iter().enumerate() {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 0}).to_string();
        world.change(&format!("z{n}"), "quantity.set", &body).await;
    }
    world.once().await;
    assert_eq!(world.shop().await, before, "nothing was zeroed");
    let (state, reason, detail) = world.fate("z0").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "brake"), "{detail}");
    assert!(detail.contains("stock levels would become 0"), "{detail}");

    let store = crate::store::Store::open_beside(&world.location).await.unwrap();
    let mut write = store.begin_write(crate::store::Durability::Full).await.unwrap();
    let non_zero = before.iter().filter(|(_, _, quantity)| *quantity > 0).count() as u64;
    // The calendar may have been set back since the trip.
    assert_eq!(write.brake_release(&[], crate::model::Timestamp(1)).await.unwrap(), non_zero);
    write.commit().await.unwrap();
    drop(store);
    world.once().await;
    assert!(world.shop().await.iter().all(|(_, _, quantity)| *quantity == 0));
    assert_eq!(world.number("SELECT count(*) FROM event WHERE kind = 'brake.released'").await, 1);
}

#[tokio::test]
async fn a_lost_answer_leaves_the_change_in_doubt_and_the_stock_level_waits() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let (sku, warehouse, quantity) = well_stocked(&world, 20).await;
    world.post("/_sandbox/faults", &json!([{"Operation": UPDATE, "Drop": "after", "Times": 1}])).await;
    let body = |delta: i64| json!({"sku": sku, "warehouse_id": warehouse, "delta": delta}).to_string();
    world.change("lost", "quantity.adjust", &body(-3)).await;
    world.once().await;
    assert_eq!(world.fate("lost").await.0, "in_doubt");
    world.change("next", "quantity.adjust", &body(-1)).await;
    world.once().await;
    assert_eq!(world.fate("next").await.0, "pending", "nothing is decided on a stock level in doubt");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 3);
}

#[tokio::test]
async fn the_budget_is_remembered_over_a_restart() {
    let world = World::with(
        SandboxOptions { skus: 40, orders: 0, calls_per_minute: 240, ..SandboxOptions::default() },
        "[limits]\ncalls_per_minute = 240\n",
    )
    .await;
    world.track_all().await;
    for _ in 0..3 {
        let once = world.daemon().await;
        let budget = once.context().limiter.quota_usage();
        assert_eq!(usize::try_from(budget.held).unwrap(), world.sandbox.logged_calls().len());
        assert!(once.run_once().await.unwrap().runs.iter().all(|run| run.outcome == RunOutcome::Ok));
    }
}

/// On another host, the last calls count as just answered, even within their minute.
///
/// The monotonic times of the other host mean nothing here, however small they are.
#[tokio::test]
async fn on_another_host_the_last_calls_hold_their_places_anew() {
    let world = World::with(
        SandboxOptions { skus: 40, orders: 0, calls_per_minute: 240, ..SandboxOptions::default() },
        "[limits]\ncalls_per_minute = 240\n",
    )
    .await;
    world.track_all().await;
    world.once().await;
    let used = world.sandbox.logged_calls().len();
    world
        .sql("UPDATE session SET boot_id = 'of another host'; UPDATE exchange SET answered_moment = 0")
        .await;
    let budget = world.daemon().await.context().limiter.quota_usage();
    assert_eq!(usize::try_from(budget.held).unwrap(), used);
}

/// A platform whose list of warehouses has no last page.
#[derive(Default)]
struct Endless(AtomicI64);

impl Transport for Endless {
    fn send(&self, _: PlatformRequest) -> SendFuture<'_> {
        let page = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        let pages =
            json!({"CurrentPage": page, "TotalNumberOfEntries": page + 1, "TotalNumberOfPages": page + 1});
        let data = json!([{"Id": 900_000 + page}]);
        let body =
            json!({"status": "Success", "messages": [], "pagination": pages, "data": data}).to_string();
        let answer = PlatformResponse { status: 200, body: body.into_bytes(), ..PlatformResponse::default() };
        Box::pin(async { Ok(answer) })
    }
}

#[tokio::test]
async fn an_account_check_ends_although_the_list_of_warehouses_does_not() {
    let world = World::new().await;
    world.once().await;
    let address = format!("http://{}", world.sandbox.local_addr());
    let text = world.toml("").replace(&address, "http://127.0.0.1:9").replace("= 6000", "= 1000000");
    let (config, platform) = (Config::from_toml(&text).unwrap(), Arc::new(Endless::default()));
    let (clock, transport) = (Arc::new(SystemClock), Arc::<Endless>::clone(&platform));
    let start = Daemon::start_with_transport(config, clock, transport, None, StoreOptions::default());
    let daemon = tokio::time::timeout(Duration::from_secs(60), start).await.expect("the check ends").unwrap();
    assert!(daemon.context().limiter.is_refused(), "only probes are sent");
    assert_eq!(platform.0.load(Ordering::SeqCst), 500);
}
