//! Kits: an adjust is rejected for one only if the platform confirms it now.

use super::support::Dock;
use super::told::{Rules, data, fail, told};
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::client::PlatformResponse;
use tallyd::model::{JobKind, Operation};

const COMPONENTS: &str = "GET /api/Inventory/{productid}/kitcomponents";
const MINUTE: Duration = Duration::from_secs(60);

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

/// Sells the product by an order whose allocation names another one, as after a person changed the line.
async fn guessed() -> (Dock, Rules, Plain) {
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
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE kit_guess_id IS NOT NULL").await, 1);
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE type = 'Kit'").await, 0, "nobody said so");
    // Its order moved the stock.
    let quantity = dock.level(&plain.sku, plain.warehouse).await;
    (dock, rules, Plain { quantity, ..plain })
}

/// Makes the platform name a component of every product from now on.
fn name_components(rules: &Rules) {
    rules.say(Operation::KitComponents, |_, response| {
        let part = json!({"Id": 1, "Sku": "PART", "Name": "Part", "Type": "Product"});
        let body = json!({"status": "Success", "data": [{"Id": 9, "QuantityForKit": 2, "Product": part}]});
        *response = PlatformResponse {
            status: 200,
            body: body.to_string().into_bytes(),
            ..PlatformResponse::default()
        };
    });
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

#[tokio::test]
async fn an_allocation_of_another_product_refuses_no_movement() {
    let (dock, _, plain) = guessed().await;
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
    assert_eq!(dock.level(&plain.sku, plain.warehouse).await, plain.quantity - 2);
    assert_eq!(dock.calls(COMPONENTS), 1, "the platform was asked, and says that it is no kit");
    adjust(&dock, "next", &plain).await;
    dock.push().await;
    assert_eq!((fate(&dock, "next").await, dock.calls(COMPONENTS)), (is("applied", ""), 1), "and that holds");
    let denied = "SELECT count(*) FROM event WHERE kind = 'kit.denied'";
    assert_eq!(dock.number(denied).await, 1);
}

#[tokio::test]
async fn a_guess_that_the_components_prove_refuses_the_change() {
    let (dock, rules, plain) = guessed().await;
    name_components(&rules);
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("rejected", "kit"));
    assert_eq!(
        dock.number("SELECT count(*) FROM product WHERE kit_guess_id IS NULL AND type = 'Kit'").await,
        1
    );
}

/// A kit that becomes a plain product takes adjusts, and the reverse.
#[tokio::test]
async fn a_kit_that_becomes_a_plain_product_takes_movements_and_back() {
    let (dock, rules, plain) = plain().await;
    let sql = format!("SELECT coalesce(type, '') FROM product WHERE product_id = {}", plain.product);
    let is_kit = async || dock.outsider().await.value::<String>(&sql).await == "Kit";
    name_components(&rules);
    // Only an answer of the platform makes it a kit; the job asks for each product that an allocation
    // suggests.
    let suggest = format!("UPDATE product SET kit_guess_id = 1 WHERE product_id = {}", plain.product);
    dock.done_sql(&suggest).await;
    dock.run(JobKind::KitComponents).await;
    assert!(is_kit().await);
    for (round, key) in ["first", "second", "third"].into_iter().enumerate() {
        rules.clear();
        if round % 2 == 0 {
            name_components(&rules);
        }
        adjust(&dock, key, &plain).await;
        dock.push().await;
        let expected = if round % 2 == 0 { is("rejected", "kit") } else { is("applied", "") };
        assert_eq!(fate(&dock, key).await, expected, "{key}");
        assert_eq!(is_kit().await, round % 2 == 0, "{key}");
        if round == 1 {
            assert_eq!(
                dock.number("SELECT count(*) FROM kit_component WHERE missing_since_ms IS NULL").await,
                0
            );
            dock.done_sql(&suggest).await;
        }
    }
}

/// An adjust is not rejected as a kit's if its SKU names another product by now.
///
/// The SKU of a kit was given to another product, so an answer about the old product proves nothing.
#[tokio::test]
async fn a_sku_that_is_another_product_by_now_is_refused_for_no_kit() {
    let (dock, rules, plain) = plain().await;
    name_components(&rules);
    let suggest = format!("UPDATE product SET kit_guess_id = 1 WHERE product_id = {}", plain.product);
    dock.done_sql(&suggest).await;
    dock.run(JobKind::KitComponents).await;
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE type = 'Kit'").await, 1);
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
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
    assert_eq!(dock.level(&plain.sku, plain.warehouse).await, plain.quantity - 2);
}

/// While the platform fails for this one product, its changes wait, visible and within bounds, and others go
/// on.
#[tokio::test]
async fn while_the_service_does_not_say_the_change_waits_and_goes_on_by_itself() {
    let (dock, rules, plain) = guessed().await;
    rules.clear();
    rules.say(Operation::KitComponents, |_, response| fail(response, 500));
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 20 && row.sku != plain.sku);
    adjust(&dock, "sale", &plain).await;
    let other = json!({"sku": stock[0].sku, "warehouse_id": stock[0].warehouse_id, "delta": -1});
    dock.change("other", "quantity.adjust", other).await;
    let said = dock.push().await;
    assert_eq!(fate(&dock, "other").await, is("applied", ""));
    let (state, reason, detail) = dock.fate("sale").await;
    assert_eq!((state, reason), is("pending", "awaits_kit"));
    assert!(detail.contains("may be a kit") && said.contains("may be a kit"), "{detail}; {said}");
    let before = dock.calls(COMPONENTS);
    for _ in 0..60 {
        dock.later(MINUTE);
        dock.push().await;
    }
    let spent = dock.calls(COMPONENTS) - before;
    assert!((4..=30).contains(&spent), "{spent} calls in an hour");
    rules.clear();
    dock.later(MINUTE * 31);
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
    assert_eq!(dock.number("SELECT count(*) FROM quarantine").await, 0);
}

/// A 403 proves nothing about the product while the key is not proved, because it may mean the key.
#[tokio::test]
async fn a_refusal_with_a_key_that_is_not_known_to_work_proves_nothing() {
    let (dock, rules, plain) = guessed().await;
    rules.clear();
    rules.say(Operation::WorkQueue, |_, response| fail(response, 500));
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("pending", "awaits_kit"));
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE kit_guess_id IS NOT NULL").await, 1);
    rules.clear();
    dock.later(MINUTE * 2);
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
}

#[tokio::test]
async fn an_empty_list_of_components_is_believed_minutes_later() {
    let (dock, rules, plain) = guessed().await;
    rules.clear();
    rules.say(Operation::KitComponents, |_, response| {
        let body = br#"{"status":"Success","data":[]}"#.to_vec();
        *response = PlatformResponse { status: 200, body, ..PlatformResponse::default() };
    });
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("pending", "awaits_kit"));
    dock.later(MINUTE);
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("pending", "awaits_kit"), "a minute is no proof");
    dock.later(MINUTE * 2);
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
}

/// A product's own record states its type, also as the component of another product.
#[tokio::test]
async fn an_answer_that_says_product_takes_the_guess_away() {
    let (dock, _, plain) = guessed().await;
    let kit = json!({"Sku": "KIT-OF-TWO", "Name": "Two", "Components": [{"Sku": plain.sku, "Quantity": 2}]});
    let kit = dock.request("POST", "/_sandbox/kits", &kit.to_string()).await["ProductId"].as_i64().unwrap();
    let order = dock.sandbox.place_order(&[("KIT-OF-TWO", 1)]).await.unwrap();
    dock.done(&["order", "track", &order.to_string()]).await;
    dock.run(JobKind::OrderLines).await;
    let of_kit = format!("SELECT count(*) FROM exchange WHERE target = '/api/Inventory/{kit}/kitcomponents'");
    dock.run(JobKind::KitComponents).await;
    assert_eq!(dock.number(&of_kit).await, 1);
    let left =
        format!("SELECT count(*) FROM product WHERE kit_guess_id IS NOT NULL AND sku = '{}'", plain.sku);
    assert_eq!(dock.number(&left).await, 0);
    adjust(&dock, "sale", &plain).await;
    dock.push().await;
    assert_eq!(fate(&dock, "sale").await, is("applied", ""));
}

/// The daily run asks too, and a product that is no kit loses the mark without a change.
#[tokio::test]
async fn the_job_takes_the_mark_away_from_what_is_no_kit() {
    let (dock, _, _) = guessed().await;
    let said = dock.run(JobKind::KitComponents).await;
    assert!(!said.contains("not read"), "{said}");
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE kit_guess_id IS NOT NULL").await, 0);
    assert_eq!(dock.run(JobKind::KitComponents).await, "0 kits read, 0 components new or changed");
}
