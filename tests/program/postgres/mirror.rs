//! The store on PostgreSQL: pages of balances and changes, read back as on SQLite.

use crate::support::cluster::Cluster;
use tallyd::journal::{ExchangeBegin, ExchangeEnd, ExchangeOutcome};
use tallyd::model::{
    JobKind, Lane, Moment, Operation, Position, Quantity, RunTrigger, Sku, StockLevel, Timestamp, WarehouseId,
};
use tallyd::outbox::ChangeState;
use tallyd::store::{
    BalanceFact, BalancePage, DatabaseLock, Durability, OutboxFilter, PostgresDatabase, StockLevelFact,
    Store, StoreOptions,
};

const T0: i64 = 1_800_000_000_000;

/// A store in a schema of its own.
struct Mirror {
    store: Store,
    now: i64,
    _lock: DatabaseLock,
    _dir: tempfile::TempDir,
}

impl Mirror {
    async fn open(cluster: &Cluster, schema: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("north");
        let lock = DatabaseLock::acquire(&path).unwrap();
        let database = PostgresDatabase { url: cluster.url(), schema: schema.into() };
        let store = Store::open_postgres(&database, &path, &lock, StoreOptions::default()).await.unwrap();
        Self { store, now: T0, _lock: lock, _dir: dir }
    }

    /// Records an answer with the quantities of some SKUs in one warehouse; returns the number of changed
    /// stock levels.
    async fn read(&mut self, quantities: &[(&str, i64)]) -> u64 {
        self.now += 1000;
        let (sent_at, moment) = (Timestamp(self.now), Moment(self.now - T0));
        let mut write = self.store.begin_write(Durability::Full).await.unwrap();
        let session = write.session_begin("boot", "test", sent_at, moment).await.unwrap().session_id;
        let run_id = write.run_begin(session, JobKind::Balances, RunTrigger::Once, sent_at).await.unwrap();
        let begun = ExchangeBegin {
            run_id,
            operation: Operation::GetProductBalances,
            target: "/api/product/getProductBalances".into(),
            lane: Lane::Poll,
            body: Some(b"{}"),
            sent_at,
            sent_moment: moment,
        };
        let exchange_id = write.exchange_begin(session, &begun).await.unwrap();
        write.commit().await.unwrap();
        let ended = ExchangeEnd {
            outcome: ExchangeOutcome::Accepted,
            status: Some(200),
            body: Some(b"[]".as_slice().into()),
            message: None,
            answered_at: sent_at,
            answered_moment: moment,
        };
        let requested: Vec<Sku> = quantities.iter().map(|(sku, _)| Sku::new(*sku).unwrap()).collect();
        let products: Vec<BalanceFact<'_>> =
            quantities.iter().map(|(sku, quantity)| product(sku, *quantity)).collect();
        let page = BalancePage {
            exchange_id,
            observed_at: sent_at,
            moment: Some(moment),
            requested: &requested,
            products: &products,
            unreadable: &[],
            has_unnamed_record: false,
            is_whole: true,
        };
        let mut write = self.store.begin_write(Durability::Normal).await.unwrap();
        write.exchange_end(exchange_id, &ended).await.unwrap();
        let recorded = write.mirror_balances(&page).await.unwrap();
        write.commit().await.unwrap();
        recorded.stock_levels_changed
    }

    async fn quantity(&self, sku: &str) -> i64 {
        let rows = self.store.stock_list(&[sku.into()]).await.unwrap();
        assert_eq!(rows.len(), 1, "{sku}");
        rows[0].quantity
    }
}

fn product(sku: &str, quantity: i64) -> BalanceFact<'static> {
    let level = StockLevelFact {
        warehouse_id: WarehouseId(1),
        quantity: Quantity(quantity),
        warehouse_sku: Some(sku.to_owned().into()),
        is_active: Some(true),
        include_in_sync: None,
    };
    BalanceFact {
        sku: Sku::new(sku).unwrap(),
        product_id: Some(sku.bytes().fold(7, |id: i64, byte| (id * 31 + i64::from(byte)) % 1_000_003)),
        upc: None,
        total: Some(quantity),
        stock_levels: vec![level],
        is_whole: true,
    }
}

#[tokio::test]
async fn pages_and_changes_are_read_back_as_they_were_written() {
    let Some(cluster) = Cluster::start() else { return };
    let mut north = Mirror::open(&cluster, "north").await;
    let many: Vec<String> = (0..1277).map(|n| format!("SKU-{n:04}")).collect();
    let page: Vec<(&str, i64)> = many.iter().map(|sku| (sku.as_str(), 5)).collect();
    assert_eq!(north.read(&page).await, 1277);
    assert_eq!(north.read(&page).await, 0, "a page that changes nothing");
    assert_eq!(north.read(&[("SKU-0003", 7), ("Ä/\"1'", -2)]).await, 2);
    assert_eq!((north.quantity("SKU-0003").await, north.quantity("Ä/\"1'").await), (7, -2));
    assert_eq!(north.quantity("SKU-1276").await, 5);
    let level = StockLevel { sku: Sku::new("sku-0003").unwrap(), warehouse_id: WarehouseId(1) };
    let row = &north.store.stock_level_rows(&[level]).await.unwrap()[0];
    assert_eq!((row.sku.clone(), row.quantity), (Some(Sku::new("SKU-0003").unwrap()), Some(Quantity(7))));

    let body = r#"{"sku":"SKU-0003","warehouse_id":1,"delta":-3}"#;
    let mut write = north.store.begin_write(Durability::Full).await.unwrap();
    write.outbox_insert("k", "quantity.adjust", body, 0).await.unwrap();
    write.commit().await.unwrap();
    let mut write = north.store.begin_write(Durability::Full).await.unwrap();
    write.outbox_insert("k", "quantity.adjust", body, 0).await.unwrap();
    let other = r#"{"sku":"SKU-0003","warehouse_id":1,"delta":-4}"#;
    let refused = write.outbox_insert("k", "quantity.adjust", other, 0).await.unwrap_err();
    assert!(refused.to_string().contains("already names another change"), "{refused}");
    drop(write);
    let all = OutboxFilter { limit: 9, ..OutboxFilter::default() };
    let changes = north.store.outbox_list(&all).await.unwrap();
    assert_eq!(changes.iter().map(|change| change.state).collect::<Vec<_>>(), [ChangeState::Pending]);

    // Another account in the same database has nothing of it, and what was dropped is rolled back.
    let south = Mirror::open(&cluster, "south").await;
    assert!(south.store.outbox_list(&all).await.unwrap().is_empty());
    let mut write = south.store.begin_write(Durability::Full).await.unwrap();
    write.position_next().await.unwrap();
    drop(write);
    let mut write = south.store.begin_write(Durability::Full).await.unwrap();
    assert_eq!(write.position_next().await.unwrap(), Position(1));
    write.commit().await.unwrap();
    assert_eq!(south.store.journal_position().await.unwrap(), Position(1));
    let again = Mirror::open(&cluster, "south").await;
    assert_eq!(again.store.journal_position().await.unwrap(), Position(1), "opened once more");
}
