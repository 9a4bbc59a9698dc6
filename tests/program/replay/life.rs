//! Random lives: sales, orders, counts, deliveries, lost answers, crashes, lists that shrink.
//!
//! After each, the projection of the journal equals the mirror, table by table; and one row changed by hand
//! is found.

use super::replayed::{assert_replayed, replayed};
use super::shop::Shop;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::model::JobKind;

const UPDATE: &str = "POST /api/inventory/updateQuantityOnHand";
const SHIP: &str = "POST /api/Shipments/Create";
const PRODUCT: &str = "POST /api/Inventory";
const PRODUCT_PUT: &str = "PUT /api/Inventory";
const BALANCES: &str = "POST /api/product/getProductBalances";

/// An event; its numbers choose among the existing records.
#[derive(Clone, Debug)]
enum Act {
    Sell(usize),
    Order(usize),
    Count(usize, i64),
    Move(usize, i64),
    Ship(usize),
    Track(usize),
    Make(usize),
    Rename(usize),
    Push,
    Read(usize),
    Settle,
    Crash,
    Cancel(usize),
    Fault(usize, usize),
    Shrink(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let any = 0..64usize;
    prop_oneof![
        2 => any.clone().prop_map(Act::Sell),
        1 => any.clone().prop_map(Act::Order),
        3 => (any.clone(), 0..90i64).prop_map(|(level, count)| Act::Count(level, count)),
        3 => (any.clone(), -9..9i64).prop_map(|(level, delta)| Act::Move(level, delta)),
        2 => any.clone().prop_map(Act::Ship),
        1 => any.clone().prop_map(Act::Track),
        1 => any.clone().prop_map(Act::Make),
        1 => any.clone().prop_map(Act::Rename),
        5 => Just(Act::Push),
        3 => any.clone().prop_map(Act::Read),
        3 => Just(Act::Settle),
        1 => Just(Act::Crash),
        1 => any.clone().prop_map(Act::Cancel),
        4 => (any.clone(), any.clone()).prop_map(|(operation, fault)| Act::Fault(operation, fault)),
        1 => any.prop_map(Act::Shrink),
    ]
}

fn pick<T: Clone>(of: &[T], number: usize) -> T {
    of[number % of.len()].clone()
}

async fn live(acts: &[Act], seed: u64) -> Shop {
    let mut shop = Shop::open(seed).await;
    let stock = shop.sandbox.stock_levels().await.unwrap();
    let skus = shop.sandbox.all_skus().await.unwrap();
    shop.track_all().await;
    shop.outsider().await.track_skus(&["NEVER-MADE", " never-made"]).await;
    let mut orders = shop.sandbox.order_ids().await.unwrap();
    shop.read_all().await;
    for (n, act) in acts.iter().enumerate() {
        let key = format!("w{n}");
        match act {
            Act::Sell(level) => {
                let level = pick(&stock, *level);
                drop(shop.sandbox.sell_units(&level.sku, level.warehouse_id, 1).await);
            }
            Act::Order(sku) => {
                if let Ok(order) = shop.sandbox.place_order(&[(&pick(&skus, *sku), 2)]).await {
                    orders.push(order);
                    shop.sql(&format!("INSERT INTO tracked_order (order_id) VALUES ({order})")).await;
                }
            }
            Act::Count(level, count) => {
                let level = pick(&stock, *level);
                let body = json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "quantity": count});
                shop.change(&key, "quantity.set", body).await;
            }
            Act::Move(level, delta) => {
                let level = pick(&stock, *level);
                let body = json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "delta": delta});
                shop.change(&key, "quantity.adjust", body).await;
            }
            Act::Ship(order) => {
                shop.change(&key, "shipment.create", json!({"order_id": pick(&orders, *order)})).await;
                let track = json!({"shipment_key": key, "tracking_number": key});
                shop.change(&format!("{key}-t"), "tracking.submit", track).await;
            }
            Act::Track(shipment) => {
                let body = json!({"shipment_id": shipment + 1, "tracking_number": "T"});
                shop.change(&key, "tracking.submit", body).await;
            }
            Act::Make(what) => make(&shop, &key, what % 3).await,
            Act::Rename(product) => rename(&shop, &key, *product).await,
            Act::Push => shop.run(JobKind::Push).await,
            Act::Read(kind) => {
                let kinds: Vec<JobKind> = JobKind::ALL.iter().copied().take(11).collect();
                shop.run(pick(&kinds, *kind)).await;
            }
            Act::Settle => {
                for _ in 0..2 {
                    shop.later(Duration::from_secs(700));
                    shop.run(JobKind::Settle).await;
                }
            }
            Act::Crash => shop.restart().await,
            Act::Cancel(change) => {
                drop(shop.cli(&["outbox", "cancel", &format!("w{}", change % (n + 1))]).await);
            }
            Act::Fault(operation, fault) => {
                let operations = [UPDATE, UPDATE, SHIP, PRODUCT, PRODUCT_PUT, BALANCES];
                shop.fault(pick(&operations, *operation), &pick(&faults(), *fault)).await;
            }
            Act::Shrink(answers) => shop.shrink(*answers),
        }
    }
    shop.later(Duration::from_secs(60));
    shop.read_all().await;
    shop
}

async fn make(shop: &Shop, key: &str, what: usize) {
    let kinds = [
        ("product.create", json!({"Sku": format!("NEW-{key}"), "Name": "New"})),
        ("warehouse.create", json!({"Name": format!("House {key}")})),
        ("product.create", json!({"Sku": "ALWAYS-THE-SAME", "Name": "New"})),
    ];
    let (kind, body) = kinds[what].clone();
    shop.change(key, kind, body).await;
}

/// Inserts a full update, built from the mirror's record of a product.
async fn rename(shop: &Shop, key: &str, number: usize) {
    let mut other = shop.outsider().await;
    let sql = "SELECT id, product_id, sku, upc FROM product WHERE product_id IS NOT NULL ORDER BY id LIMIT 1";
    let found: Vec<(i64, i64, String, Option<String>)> =
        other.rows(&format!("{sql} OFFSET {}", number % 8)).await;
    let Some((id, product, sku, upc)) = found.into_iter().next() else { return };
    let sql =
        format!("SELECT warehouse_id FROM balance WHERE product = {id} AND unlinked_ms IS NULL ORDER BY 1");
    let link = |(id,): (i64,)| json!({"ProductId": product, "WarehouseId": id});
    let links: Vec<Value> = other.rows(&sql).await.into_iter().map(link).collect();
    let body = json!({
        "Id": product, "CompanyId": 1, "Sku": sku, "Name": format!("Renamed {key}"), "Warehouses": links,
        "Identifiers": {"ProductId": product, "UPC": upc},
    });
    shop.change(key, "product.update", body).await;
}

fn faults() -> [Value; 7] {
    [
        json!({"Drop": "after"}),
        json!({"Drop": "before"}),
        json!({"Status": 500, "Drop": "after"}),
        json!({"Truncate": true}),
        json!({"Status": 429}),
        json!({"Status": 400}),
        json!({"Status": 500}),
    ]
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn the_mirror_is_the_fold_of_its_journal(acts in prop::collection::vec(act(), 25..45), seed in 1..9u64) {
        block_on(async {
            let shop = live(&acts, seed).await;
            assert_replayed(&shop.database).await;
        });
    }
}

#[tokio::test]
async fn one_row_changed_by_hand_is_found_and_named() {
    let mut shop = live(&[Act::Count(0, 7), Act::Push, Act::Ship(0), Act::Push], 3).await;
    shop.end();
    let changes = [
        ("balance", "UPDATE balance SET quantity = quantity + 1 WHERE rowid_of = 0"),
        ("supplier", "UPDATE supplier SET name = 'x' WHERE id = (SELECT min(id) FROM supplier)"),
        ("sales_order", "DELETE FROM sales_order WHERE id = (SELECT min(id) FROM sales_order)"),
        ("discovered_sku", "INSERT INTO discovered_sku VALUES ('planted', 1)"),
    ];
    for (table, change) in changes {
        let change = change.replace(
            "WHERE rowid_of = 0",
            "WHERE (product, warehouse_id) = (SELECT product, warehouse_id FROM balance LIMIT 1)",
        );
        shop.sql(&change).await;
        let replayed = replayed(&shop.database).await;
        let found = replayed.tables.iter().find(|compared| compared.table == table).unwrap();
        assert_eq!(found.differences.len(), 1, "{table}: {found:?}");
        assert!(!found.is_equal(), "{table}");
    }
}
