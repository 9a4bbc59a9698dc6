//! Plans of the server: the work of a statement stays that of its rows while the tables grow.
//!
//! A connection keeps the plan of a statement, and the first ones are made while the tables are small.

use crate::it::support::World;
use crate::it::support::cluster::Cluster;
use tallyd::model::{Moment, Position, Sku, StockLevel, WarehouseId};
use tallyd::store::{StalestProgress, StockFilter, Store};

/// Runs after which the server keeps a statement's plan.
const KEPT_AFTER: usize = 6;
const RUN_BEGAN: Position = Position(9);
const SKUS: i64 = 20_000;
const READ_SKUS: i64 = 19_000;

/// Tracks SKUs, of which the first were read.
async fn grow(world: &World) {
    world
        .sql(&format!(
            "INSERT INTO tracked_sku (sku) SELECT 'S-' || lpad(i::TEXT, 7, '0') FROM generate_series(1, {SKUS}) i"
        ))
        .await;
    world
        .sql(&format!(
            "INSERT INTO product (id, sku, case_key, product_id, read_batch_id) \
             SELECT i, 'S-' || lpad(i::TEXT, 7, '0'), 's-' || lpad(i::TEXT, 7, '0'), i, 1 \
             FROM generate_series(1, {READ_SKUS}) i"
        ))
        .await;
}

/// Returns the number of rows and index entries of a table that all connections read, those that ended included.
async fn entries_read(world: &World, table: &str) -> i64 {
    world
        .number(&format!(
            "SELECT CAST(t.seq_tup_read + (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i \
                                           WHERE i.relid = t.relid) AS BIGINT) \
             FROM pg_stat_user_tables t WHERE schemaname = current_schema() AND relname = '{table}'"
        ))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_many_skus_costs_what_it_holds() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.make().await;
    world.sql("INSERT INTO tracked_sku (sku) VALUES ('S-0000000')").await;
    world.sql("INSERT INTO product (id, sku, case_key, product_id, read_batch_id) VALUES (0, 'S-0000000', 's-0000000', 0, 1)").await;
    let store = Store::open_beside(world.location.clone()).await.unwrap();
    for _ in 0..KEPT_AFTER {
        store.tracked_sku_stalest(RUN_BEGAN, &mut StalestProgress::default(), 100).await.unwrap();
        store.stock_page(&StockFilter::default()).await.unwrap();
    }
    grow(&world).await;
    let before = entries_read(&world, "product").await;
    let mut progress = StalestProgress::default();
    let never_read = store.tracked_sku_stalest(RUN_BEGAN, &mut progress, 100).await.unwrap();
    assert_eq!((never_read.len(), never_read[0].as_str()), (100, "S-0019001"));
    let next = store.tracked_sku_stalest(RUN_BEGAN, &mut progress, 100).await.unwrap();
    assert_eq!(next[0], "S-0019101");
    let filter = StockFilter { after: "S-0010000".into(), ..StockFilter::default() };
    assert_eq!(store.stock_page(&filter).await.unwrap().rows[0].sku.to_string(), "S-0010001");
    // The end of a connection reports its counts.
    store.close().await.unwrap();
    world.until("the counts are reported", async |world| entries_read(world, "product").await > before).await;
    // The first page looks at every SKU that was read, the others at their own.
    let read = entries_read(&world, "product").await - before;
    assert!(read < READ_SKUS + 1_000, "{read} entries");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stock_level_of_a_push_costs_the_same_whatever_the_size_of_the_journal() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.make().await;
    world.sql("INSERT INTO session (boot_id, version, started_ms) VALUES ('boot', 'test', 0)").await;
    world
        .sql(
            "INSERT INTO run (session_id, job, trigger, started_ms) \
             SELECT max(id), 'push', 'schedule', 0 FROM session",
        )
        .await;
    let calls = "INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, sent_moment) \
        SELECT i, (SELECT max(id) FROM run), (SELECT max(id) FROM session), 'x', '/', 'push', 0, 0";
    world.sql(&format!("{calls} FROM generate_series(100001, 100010) i")).await;
    world.sql("INSERT INTO read_batch (id, exchange_id, observed_ms) VALUES (1, 100001, 0)").await;
    world
        .sql("INSERT INTO product (id, sku, case_key, product_id, read_batch_id) VALUES (1, 'S-1', 's-1', 1, 1)")
        .await;
    let level = StockLevel { sku: Sku::new("S-1").unwrap(), warehouse_id: WarehouseId(1) };
    let store = Store::open_beside(world.location.clone()).await.unwrap();
    for _ in 0..KEPT_AFTER {
        store.stock_level_rows(std::slice::from_ref(&level)).await.unwrap();
    }
    world.sql(&format!("{calls} FROM generate_series(100011, 120000) i")).await;
    let before = entries_read(&world, "session").await;
    let calls_before = entries_read(&world, "exchange").await;
    let rows = store.stock_level_rows(&[level]).await.unwrap();
    assert_eq!((rows.len(), rows[0].spelling.as_str()), (1, "S-1"));
    assert_eq!(rows[0].requested_moment, Some(Moment(0)));
    // The end of a connection reports its counts.
    store.close().await.unwrap();
    world.until("the counts are reported", async |world| entries_read(world, "session").await > before).await;
    let read = entries_read(&world, "exchange").await - calls_before;
    assert!(read < 1_000, "{read} entries");
}
