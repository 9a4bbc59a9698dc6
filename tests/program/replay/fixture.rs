//! Databases of released versions: each opens with this version, and its journal replays equal.
//!
//! tests/fixtures/README.md names the files. `cargo test --test program -- --ignored write_the_databases`
//! writes those of this version.

use super::replayed::{assert_replayed, replayed};
use super::shop::Shop;
use crate::support::outsider::{Outsider, quoted};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tallyd::client::{PlatformRequest, SendFuture, Transport};
use tallyd::config::Config;
use tallyd::daemon::{Daemon, SystemClock};
use tallyd::model::JobKind;
use tallyd::store::{DatabaseLock, Store, StoreOptions};

const UPDATE: &str = "POST /api/inventory/updateQuantityOnHand";
const SHIP: &str = "POST /api/Shipments/Create";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const QUIET: Duration = Duration::from_secs(700);

/// State and reason of each change in the databases.
const CHANGES: [(&str, &str, &str); 12] = [
    ("count", "applied", ""),
    ("adjust", "applied", ""),
    ("both", "cancelled", "superseded"),
    ("lost", "applied", ""),
    ("lost-shipment", "applied", ""),
    ("shipment", "applied", ""),
    ("tracking", "applied", ""),
    ("product", "applied", ""),
    ("warehouse", "applied", ""),
    ("typo", "rejected", "bad_body"),
    ("too-many", "held", "negative"),
    ("withdrawn", "cancelled", "operator"),
];

/// A platform that is not asked.
struct Offline;

impl Transport for Offline {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        panic!("a call to {} while a database is opened", request.operation)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

async fn connect(database: &Path) -> Outsider {
    Outsider::at(&database.into()).await
}

async fn number(database: &Path, sql: &'static str) -> i64 {
    connect(database).await.value(sql).await
}

/// Opens the database as the holder of the lock, which migrates it.
async fn migrate(database: &Path) {
    let lock = DatabaseLock::acquire(database).unwrap();
    Store::open(database, &lock).await.unwrap().close().await.unwrap();
}

/// Starts a daemon of this version on the database, which upgrades the projection, and ends it.
pub async fn start(database: &Path) {
    let sql = "SELECT base_url FROM account_binding";
    let base_url: String = connect(database).await.value(sql).await;
    let toml = format!(
        "[service]\nbase_url = \"{base_url}\"\nintegration_key_file = \"/i\"\ngateway_key_file = \"/g\"\n\
         [database]\npath = {database:?}\n"
    );
    let config = Config::from_toml(&toml).unwrap();
    let (clock, transport, options) = (Arc::new(SystemClock), Arc::new(Offline), StoreOptions::default());
    let started = Daemon::start_with_transport(config, clock, transport, None, options);
    drop(started.await.unwrap());
}

/// Asserts the rows that the databases are known to have, through the columns of docs/database.md.
async fn assert_known_rows(database: &Path) {
    let mut other = connect(database).await;
    for (key, state, reason) in CHANGES {
        let sql = "SELECT state, coalesce(reason, '') FROM outbox WHERE key =";
        let row: (String, String) = other.row(&format!("{sql} {}", quoted(key))).await;
        assert_eq!((row.0.as_str(), row.1.as_str()), (state, reason), "{key} in {database:?}");
    }
    let known = [
        ("SELECT quantity FROM stock JOIN outbox USING (sku, warehouse_id) WHERE key = 'count'", 41),
        ("SELECT count(*) FROM tracked_sku WHERE sku = 'FIXTURE-1'", 1),
        ("SELECT count(*) FROM shipment_item WHERE tracking_number = '1Z1'", 1),
        ("SELECT count(*) FROM outbox WHERE state = 'applied' AND written IS NOT NULL", 3),
    ];
    for (sql, expected) in known {
        assert_eq!(number(database, sql).await, expected, "{sql} in {database:?}");
    }
}

#[tokio::test]
async fn a_database_of_each_version_opens_and_its_journal_replays_equal() {
    let packed = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let packed: Vec<PathBuf> =
        packed.filter(|path| path.extension().is_some_and(|end| end == "zst")).collect();
    assert!(packed.len() >= 2, "{packed:?}");
    for packed in packed {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("tallyd.db");
        let bytes = zstd::decode_all(std::fs::File::open(&packed).unwrap()).unwrap();
        std::fs::write(&database, bytes).unwrap();
        migrate(&database).await;
        assert_known_rows(&database).await;
        start(&database).await;
        assert_replayed(&database).await;

        let planted = "UPDATE balance SET quantity = quantity + 1 WHERE (product, warehouse_id) = \
                       (SELECT product, warehouse_id FROM balance WHERE quantity > 0 LIMIT 1)";
        connect(&database).await.run(planted).await.unwrap();
        let report = replayed(&database).await;
        let differing: Vec<_> = report.tables.iter().filter(|table| !table.is_equal()).collect();
        let found: Vec<_> = differing.iter().map(|table| (table.table, table.differences.len())).collect();
        // A trigger adds the planted quantity to the history.
        let expected = [("balance", 1), ("balance_history", 1)];
        assert_eq!(found, expected, "the planted change of one row in {packed:?}");
    }
}

/// Writes the databases of this version: before a pruning, and behind the snapshot of one.
#[tokio::test]
#[ignore = "writes the fixtures of this version into tests/fixtures"]
async fn write_the_databases_of_this_version() {
    let mut shop = Shop::open(7).await;
    shop.track_all().await;
    shop.read_all().await;
    insert_changes(&shop).await;
    shop.run(JobKind::Push).await;
    shop.run(JobKind::Settle).await;
    lose_answers(&shop).await;
    shop.restart().await;
    shop.read_all().await;
    store(&shop, "").await;
    shop.later(15 * DAY);
    shop.run(JobKind::Prune).await;
    shop.read_all().await;
    store(&shop, "-pruned").await;
}

/// Inserts a change of each kind, and changes that are rejected, held and cancelled.
async fn insert_changes(shop: &Shop) {
    let stock = shop.sandbox.stock_levels().await.unwrap();
    let mut levels = stock.iter().filter(|row| row.quantity > 10);
    let mut body = |name: &str, units: i64| {
        let row = levels.next().unwrap();
        json!({"sku": row.sku, "warehouse_id": row.warehouse_id, name: units})
    };
    let (count, adjust) = (body("quantity", 41), body("delta", -3));
    let order = place_order(shop).await;
    for (key, kind, body) in [
        (
            "both",
            "quantity.adjust",
            json!({"sku": count["sku"], "warehouse_id": count["warehouse_id"], "delta": 2}),
        ),
        ("count", "quantity.set", count),
        ("adjust", "quantity.adjust", adjust),
        ("too-many", "quantity.adjust", body("delta", -100_000)),
        ("withdrawn", "quantity.adjust", body("delta", 1)),
        ("typo", "quantity.set", json!({"sku": "TYPO", "warehouse": 1})),
        ("shipment", "shipment.create", json!({"order_id": order})),
        ("tracking", "tracking.submit", json!({"shipment_key": "shipment", "tracking_number": "1Z1"})),
        ("product", "product.create", json!({"Sku": "FIXTURE-1", "Name": "A product"})),
        ("warehouse", "warehouse.create", json!({"Name": "A warehouse"})),
    ] {
        shop.change(key, kind, body).await;
    }
    let cancelled = shop.cli(&["outbox", "cancel", "withdrawn"]).await;
    assert!(cancelled.status.success(), "{cancelled:?}");
}

/// Loses the answers of a quantity and of a shipment behind their effect, and settles both.
async fn lose_answers(shop: &Shop) {
    let level = shop.sandbox.stock_levels().await.unwrap().pop().unwrap();
    let body = json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "delta": 5});
    shop.change("lost", "quantity.adjust", body).await;
    let order = place_order(shop).await;
    shop.change("lost-shipment", "shipment.create", json!({"order_id": order})).await;
    for operation in [UPDATE, SHIP] {
        shop.fault(operation, &json!({"Drop": "after"})).await;
    }
    shop.run(JobKind::Push).await;
    assert_eq!(states(shop, "state = 'in_doubt'").await.len(), 2, "{:?}", states(shop, "true").await);
    for _ in 0..3 {
        shop.later(QUIET);
        shop.run(JobKind::Settle).await;
    }
    let sql = "SELECT 1 + created_id FROM delivery JOIN outbox ON id = change_id WHERE key = 'shipment'";
    let made = shop.number(sql).await.to_string();
    let resolved = shop.cli(&["outbox", "resolve", "lost-shipment", "--shipment", &made]).await;
    assert!(resolved.status.success(), "{resolved:?}");
    for _ in 0..3 {
        shop.later(QUIET);
        shop.run(JobKind::Settle).await;
    }
}

/// Places an order of two units and tracks it; returns its id.
async fn place_order(shop: &Shop) -> i64 {
    let stock = shop.sandbox.stock_levels().await.unwrap();
    let sku = &stock.iter().rfind(|row| row.quantity > 10).unwrap().sku;
    let order = shop.sandbox.place_order(&[(sku, 2)]).await.unwrap();
    shop.sql(&format!("INSERT INTO tracked_order (order_id) VALUES ({order})")).await;
    order
}

/// Returns key, state and detail of the changes on which the condition holds.
async fn states(shop: &Shop, condition: &str) -> Vec<String> {
    let sql = format!("SELECT concat_ws(' ', key, state, reason, detail) FROM outbox WHERE {condition}");
    shop.outsider().await.rows(&sql).await.into_iter().map(|(change,): (String,)| change).collect()
}

/// Stores a copy of the database among the fixtures.
async fn store(shop: &Shop, suffix: &str) {
    assert_known_rows(shop.database.path()).await;
    let copy = shop.path(&format!("copy{suffix}.db"));
    shop.sql(&format!("VACUUM INTO '{}'", copy.display())).await;
    let packed = zstd::encode_all(std::fs::File::open(&copy).unwrap(), 19).unwrap();
    let name = format!("{}{suffix}.db.zst", env!("CARGO_PKG_VERSION"));
    std::fs::write(folder().join(name), packed).unwrap();
}
