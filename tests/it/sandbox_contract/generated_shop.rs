//! The generated account: its fixed properties, and one account for each seed.

use std::collections::HashSet;

use crate::sandbox::SandboxOptions;
use serde_json::{Value, json};

use super::support::{BALANCES, ORDER_LINES, Shop, options};

#[tokio::test]
async fn one_seed_is_one_shop_and_another_seed_another() {
    let shop = async |seed| {
        let options = SandboxOptions { seed, integration_key: None, gateway_key: None, ..options() };
        let shop = Shop::with(options).await;
        let keys = (shop.sandbox.integration_key().to_owned(), shop.sandbox.gateway_key().to_owned());
        let stock = shop.sandbox.stock_levels().await.expect("stock");
        (
            keys,
            stock,
            shop.sandbox.all_skus().await.expect("skus"),
            shop.sandbox.order_ids().await.expect("orders"),
        )
    };
    let first = shop(7).await;
    assert_eq!(first, shop(7).await);
    assert_ne!(first.1, shop(8).await.1);
    assert_ne!(first.0, shop(8).await.0);
    assert_eq!(first.2.len(), 20);
    assert_eq!(first.1.len(), (20 - 2) * 3, "two of the twenty are kits");
}

#[tokio::test]
async fn upcs_have_valid_check_digits_and_are_unique() {
    let shop = Shop::open().await;
    let skus = shop.sandbox.all_skus().await.expect("skus");
    let balances = shop.post(BALANCES, &json!({ "skus": skus })).await.ok();
    let upcs =
        balances.as_array().expect("balances").iter().map(|balance| balance["UPC"].as_str().expect("text"));
    let upcs: Vec<&str> = upcs.filter(|upc| !upc.is_empty()).collect();
    assert_eq!(upcs.len(), 18, "all but the kits");
    assert_eq!(upcs.iter().collect::<HashSet<_>>().len(), 18);
    for upc in upcs {
        let weighted = upc
            .bytes()
            .enumerate()
            .map(|(at, digit)| u32::from(digit - b'0') * if at % 2 == 0 { 3 } else { 1 });
        assert_eq!((upc.len(), weighted.sum::<u32>() % 10), (12, 0), "{upc}");
    }
}

#[tokio::test]
async fn orders_are_in_several_states_and_some_have_shipments() {
    let shop = Shop::with(SandboxOptions { calls_per_minute: 0, orders: 24, ..options() }).await;
    let queue = shop.get("/api/Company/WorkQueue").await.ok();
    for count in [
        "AwaitingPaymentSalesOrders",
        "PaidInProcessSalesOrders",
        "CancelledSalesOrders",
        "PaidReadyToShipSalesOrders",
    ] {
        assert!(queue[count].as_i64() > Some(0), "{count}");
    }
    let mut left = HashSet::new();
    for order_id in shop.sandbox.order_ids().await.expect("orders") {
        let lines = shop.post(ORDER_LINES, &json!({ "OrderId": order_id })).await.data();
        let lines = lines.as_array().expect("lines");
        assert!(!lines.is_empty());
        let open = |line: &Value| line["QuantityNotTiedToShipment"] != json!(0);
        left.insert(lines.iter().all(open));
    }
    assert_eq!(left.len(), 2, "orders with and without a shipment");
}

#[tokio::test]
async fn a_large_shop_holds_what_was_asked_for() {
    let shop = Shop::with(SandboxOptions { skus: 3_000, orders: 5, warehouses: 6, ..options() }).await;
    assert_eq!(shop.sandbox.all_skus().await.expect("skus").len(), 3_000);
    assert_eq!(shop.sandbox.stock_levels().await.expect("stock").len(), (3_000 - 150) * 6);
    assert_eq!(shop.get("/api/Warehouses").await.data().as_array().expect("warehouses").len(), 6);
}

#[tokio::test]
async fn many_orders_of_few_products_all_find_their_goods() {
    let shop = Shop::with(SandboxOptions { skus: 10, orders: 200, ..options() }).await;
    assert!(shop.sandbox.order_ids().await.expect("orders").len() >= 190);
}
