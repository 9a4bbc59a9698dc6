//! Programs that queue changes at the same time, in transactions that last or are rolled back.

use crate::it::support::cluster::Cluster;
use crate::it::support::outsider::{Outsider, quoted};
use crate::it::support::{UPDATE, World, replayed};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tallyd::model::OrderId;
use tallyd::store::{DatabaseLocation, DatabaseLock, Durability, Store};
use tokio::time::{Instant, sleep};

const PROGRAMS: usize = 8;
/// Changes of a transaction, and its duration between the first and the commit.
const BATCH: usize = 10;
const LONGEST_MS: usize = 50;

type Level = (String, i64, i64);

/// Commits changes in batches; returns their keys with the stock level of each. One batch in ten is rolled back.
async fn queue(
    location: DatabaseLocation,
    program: usize,
    total: usize,
    levels: Vec<Level>,
) -> BTreeMap<String, usize> {
    let mut database = Outsider::at(&location).await;
    let mut committed = BTreeMap::new();
    for batch in 0.. {
        if committed.len() >= total {
            break;
        }
        database.run("BEGIN").await.unwrap();
        let mut keys = BTreeMap::new();
        for n in 0..BATCH {
            let (key, level) = (format!("{program}-{batch}-{n}"), (program * 7 + batch + n) % levels.len());
            let (sku, warehouse, _) = &levels[level];
            let body = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"delta":1}}"#);
            let row = [&key, "quantity.adjust", &body].map(quoted).join(", ");
            database.run(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await.unwrap();
            keys.insert(key, level);
        }
        let pause = (program * 31 + batch * 17) % LONGEST_MS;
        sleep(Duration::from_millis(u64::try_from(pause).unwrap())).await;
        let is_kept = !(program + batch).is_multiple_of(10);
        database.run(if is_kept { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
        if is_kept {
            committed.append(&mut keys);
        }
    }
    committed
}

/// Reads the changes beyond the last one seen, again and again, as the daemon does; returns their keys.
async fn watch(location: DatabaseLocation, is_over: &AtomicBool) -> Vec<String> {
    let mut database = Outsider::at(&location).await;
    let (mut last, mut seen) = (0, Vec::new());
    loop {
        let ends = is_over.load(Ordering::SeqCst);
        let sql = format!("SELECT id, key FROM outbox WHERE id > {last} ORDER BY id");
        for (id, key) in database.rows::<(i64, String)>(&sql).await {
            last = id;
            seen.push(key);
        }
        if ends {
            return seen;
        }
    }
}

/// The daemon and a program that queued a change track one order at the same time.
#[tokio::test]
async fn tracking_an_order_beside_a_program_that_queues_changes_is_no_deadlock() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.make().await;
    let lock = DatabaseLock::acquire(&world.path).unwrap();
    let store = Store::open(&world.location, &lock).await.unwrap();
    let mut program = world.outsider().await;
    let change = "INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{}')";
    for (orders, first, second) in [
        ([11, 12, 13], change, "INSERT INTO tracked_order VALUES (11)"),
        ([21, 22, 23], "INSERT INTO tracked_order VALUES (23)", "INSERT INTO tracked_order VALUES (22)"),
        ([21, 22, 23], "DELETE FROM tracked_order WHERE order_id = 23", "DELETE FROM tracked_order"),
    ] {
        program.run("BEGIN").await.unwrap();
        program.run(first).await.unwrap();
        let store = store.clone();
        let tracking = tokio::spawn(async move {
            let mut write = store.begin_write(Durability::Full).await.unwrap();
            write.tracked_order_add(&orders.map(OrderId)).await.unwrap();
            write.order_read_request_add(&orders.map(OrderId)).await.unwrap();
            write.commit().await.unwrap();
        });
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        world.until("tallyd waits for the program", async |_| cluster.sql(waits) == ["1"]).await;
        program.run(second).await.unwrap();
        program.run("COMMIT").await.unwrap();
        tracking.await.unwrap();
        let named = "SELECT count(*) FROM order_read_request WHERE order_id >=";
        assert_eq!(world.number(&format!("{named} {}", orders[0])).await, 3, "{second}");
    }
}

#[allow(clippy::print_stdout, reason = "the long form is measured by it")]
async fn eight_programs(total: usize) {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.track_all().await;
    assert!(world.once().await.is_good());
    let levels: Vec<Level> = world.shop().await;
    let working = world.work().await;
    let begun = Instant::now();
    let is_over = AtomicBool::new(false);
    let queue_all = async {
        let queues = (0..PROGRAMS).map(|program| {
            tokio::spawn(queue(world.location.clone(), program, total / PROGRAMS, levels.clone()))
        });
        let mut committed = BTreeMap::new();
        for queue in Vec::from_iter(queues) {
            committed.append(&mut queue.await.unwrap());
        }
        is_over.store(true, Ordering::SeqCst);
        committed
    };
    let (committed, mut seen) = tokio::join!(queue_all, watch(world.location.clone(), &is_over));
    let queued = begun.elapsed();
    seen.sort_unstable();
    assert_eq!(seen, Vec::from_iter(committed.keys().cloned()), "each is seen once by its id");
    let open = "SELECT count(*) FROM outbox WHERE state <> 'applied'";
    while world.number(open).await > 0 {
        assert!(begun.elapsed() < queued + Duration::from_secs(300), "{} are open", world.number(open).await);
        sleep(Duration::from_millis(20)).await;
    }
    println!("{} changes queued in {queued:?}, applied after {:?}", committed.len(), begun.elapsed());
    working.stop().await;
    let mut expected: BTreeMap<(String, i64), i64> =
        levels.iter().map(|l| ((l.0.clone(), l.1), l.2)).collect();
    for level in committed.values() {
        *expected.get_mut(&(levels[*level].0.clone(), levels[*level].1)).unwrap() += 1;
    }
    let shop: BTreeMap<(String, i64), i64> =
        world.shop().await.into_iter().map(|l| ((l.0, l.1), l.2)).collect();
    assert_eq!(shop, expected, "each is applied once");
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_programs_queue_changes_and_each_is_seen_and_applied_once() {
    eight_programs(800).await;
}

/// Ignored by default: `cargo test --release --test program -- --ignored eight_programs --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn eight_programs_queue_twenty_thousand_changes_and_each_is_seen_and_applied_once() {
    eight_programs(20_000).await;
}

/// Prints the times from an insertion to the arrival of its update at the platform, read of the fact included.
/// Ignored by default: `cargo test --release --test program -- --ignored a_change_is_on_the_wire --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: on a machine with other work it shows that work"]
#[allow(clippy::print_stdout, reason = "a measurement prints its figures")]
async fn a_change_is_on_the_wire_within_300_ms() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.track_all().await;
    assert!(world.once().await.is_good());
    let levels: Vec<Level> = world.shop().await;
    let working = world.work().await;
    let mut program = world.outsider().await;
    let mut waits = Vec::new();
    for n in 0..50 {
        let (sku, warehouse, _) = &levels[n * 7 % levels.len()];
        let body = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"delta":1}}"#);
        let row = [&n.to_string(), "quantity.adjust", &body].map(quoted).join(", ");
        let (updates, inserted_ms) = (world.calls(UPDATE), world.sandbox.core().clock().now_ms());
        program.run(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await.unwrap();
        let applied = format!("SELECT count(*) FROM outbox WHERE state = 'applied' AND key = '{n}'");
        world.until("the change is applied", async |world| world.number(&applied).await == 1).await;
        let calls = world.sandbox.logged_calls();
        let update = calls.iter().filter(|call| call.operation == UPDATE).nth(updates).unwrap();
        waits.push(update.started_at_ms - inserted_ms);
    }
    working.stop().await;
    waits.sort_unstable();
    println!("from the insertion to the wire: median {} ms, longest {} ms", waits[25], waits[49]);
    assert!(waits[49] <= 300, "{waits:?}");
}
