//! Kits: a product is a kit by the platform's word alone.

use super::support::Dock;
use super::told::{Rules, data, told};
use serde_json::{Value, json};
use tallyd::model::{JobKind, Operation};

const COMPONENTS: &str = "GET /api/Inventory/{productid}/kitcomponents";

/// A plain product: SKU, product id, and a warehouse with enough stock.
struct Plain {
    sku: String,
    product: i64,
    warehouse: i64,
    quantity: i64,
}

/// Reads all SKUs; returns the first that is no kit.
async fn plain() -> (Dock, Rules, Plain) {
    let (dock, rules) = told().await;
    dock.track_all_skus().await;
    dock.run(JobKind::Balances).await;
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 20);
    let row = stock.remove(0);
    let product = dock.number(&format!("SELECT product_id FROM product WHERE sku = '{}'", row.sku)).await;
    let plain = Plain { sku: row.sku, product, warehouse: row.warehouse_id, quantity: row.quantity };
    (dock, rules, plain)
}

/// Makes a product one that an earlier answer named a kit.
async fn named_kit(dock: &Dock, plain: &Plain) {
    dock.done_sql(&format!("UPDATE product SET type = 'Kit' WHERE product_id = {}", plain.product)).await;
}

async fn adjust(dock: &Dock, key: &str, plain: &Plain) {
    let body = json!({"sku": plain.sku, "warehouse_id": plain.warehouse, "delta": -2});
    dock.change(key, "quantity.adjust", body).await;
}

async fn fate(dock: &Dock, key: &str) -> (String, String) {
    (dock.state(key).await, dock.reason(key).await)
}

fn is(state: &str, reason: &str) -> (String, String) {
    (state.to_owned(), reason.to_owned())
}

/// An order's allocation may name another product, as after a person changed the line.
#[tokio::test]
async fn an_allocation_of_another_product_refuses_no_movement() {
    let (dock, rules, plain) = plain().await;
    let (order, _) = dock.order(&[(&plain.sku, 1)]).await;
    dock.done(&["order", "track", &order.to_string()]).await;
    rules.say(Operation::WarehouseAllocation, |_, response| {
        data(response, |taken| {
            taken[0]["SkuNumber"] = json!("SUBSTITUTE");
            taken[0]["ProductId"] = json!(4711);
        });
    });
    dock.run(JobKind::OrderLines).await;
    // Its order moved the stock.
    let quantity = dock.level(&plain.sku, plain.warehouse).await;
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
    assert_eq!(dock.level(&plain.sku, plain.warehouse).await, quantity - 2);
    assert_eq!(dock.calls(COMPONENTS), 0);
}

/// A change is not rejected as a kit's if its SKU names another product by now.
///
/// The SKU of a kit was given to another product, so an answer about the old product proves nothing.
#[tokio::test]
async fn a_sku_that_is_another_product_by_now_is_refused_for_no_kit() {
    let (dock, rules, plain) = plain().await;
    named_kit(&dock, &plain).await;
    adjust(&dock, "kit", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "kit").await, is("rejected", "kit"));
    let sku = plain.sku.clone();
    rules.say(Operation::GetProductBalances, move |_, response| {
        let mut products: Value = serde_json::from_slice(&response.body).unwrap();
        let products_of = products.as_array_mut().unwrap().iter_mut();
        products_of.filter(|product| product["Sku"] == json!(sku)).for_each(|product| {
            product["Id"] = json!(4711);
            let levels = product["Warehouses"].as_array_mut().unwrap();
            levels.iter_mut().for_each(|level| level["ProductId"] = json!(4711));
        });
        response.body = products.to_string().into_bytes();
    });
    dock.later(std::time::Duration::from_secs(60));
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
    assert_eq!(dock.level(&plain.sku, plain.warehouse).await, plain.quantity - 2);
}

/// A product's own record states its type, also as the component of another product.
#[tokio::test]
async fn an_answer_that_says_product_is_the_platforms_word_too() {
    let (dock, _, plain) = plain().await;
    let kit = json!({"Sku": "KIT-OF-TWO", "Name": "Two", "Components": [{"Sku": plain.sku, "Quantity": 2}]});
    let kit = dock.request("POST", "/_sandbox/kits", &kit.to_string()).await["ProductId"].as_i64().unwrap();
    dock.track_skus(&["KIT-OF-TWO"]).await;
    dock.run(JobKind::Balances).await;
    named_kit(&dock, &plain).await;
    dock.done_sql(&format!("UPDATE product SET type = 'Kit' WHERE product_id = {kit}")).await;
    // The one that is no kit has no components.
    let said = dock.run(JobKind::KitComponents).await;
    assert!(said.contains("1 kit read"), "{said}");
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
}
