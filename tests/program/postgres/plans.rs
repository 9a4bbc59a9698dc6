//! Plans of the server: the work of a statement stays that of its rows while the tables grow.
//!
//! A connection keeps the plan of a statement, and the first ones are made while the tables are small.

use crate::support::World;
use crate::support::cluster::Cluster;
use tallyd::model::Position;
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

/// Returns the number of index entries of products that all connections read, those that ended included.
async fn entries_read(world: &World) -> i64 {
    world
        .number(
            "SELECT CAST(sum(idx_tup_read) AS BIGINT) FROM pg_stat_user_indexes \
             WHERE schemaname = current_schema() AND relname = 'product'",
        )
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
    let before = entries_read(&world).await;
    let mut progress = StalestProgress::default();
    let never_read = store.tracked_sku_stalest(RUN_BEGAN, &mut progress, 100).await.unwrap();
    assert_eq!((never_read.len(), never_read[0].as_str()), (100, "S-0019001"));
    let next = store.tracked_sku_stalest(RUN_BEGAN, &mut progress, 100).await.unwrap();
    assert_eq!(next[0], "S-0019101");
    let filter = StockFilter { after: "S-0010000".into(), ..StockFilter::default() };
    assert_eq!(store.stock_page(&filter).await.unwrap().rows[0].sku.to_string(), "S-0010001");
    // The end of a connection reports its counts.
    store.close().await.unwrap();
    world.until("the counts are reported", async |world| entries_read(world).await > before).await;
    // The first page looks at every SKU that was read, the others at their own.
    let read = entries_read(&world).await - before;
    assert!(read < READ_SKUS + 1_000, "{read} index entries");
}
