//! Requests to the sandbox: any method, path, query and body, several in a row.
//!
//! Invariants: each answer has a status and a body that docs/openapi.yaml describes for its operation (404
//! and 405 where there is no operation), never 500. A refused request changes no stock. After all of them the
//! data are consistent: no negative quantity, each product the sum of its warehouses, no more shipped of a
//! line than was sold.

use super::choices::Choices;
use super::interface::Interface;
use super::shop::{Shop, block_on, known};
use crate::model::Operation;
use axum::body::Bytes;
use axum::http::Response;
use serde_json::{Value, json};
use std::sync::OnceLock;

const REQUESTS_MAX: usize = 5;
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"];
const QUERIES: &[&str] = &[
    "",
    "",
    "",
    "?pageNumber=1&resultsPerPage=2",
    "?pageNumber=0",
    "?resultsPerPage=201",
    "?pageNumber=99999999999",
    "?month=13",
    "?year=2026&month=9",
    "?storefrontId=x",
    "?name=%",
    "?name=A%00",
    "?year=2026&year=2025",
    "?%ff=1",
    "?&&=",
    "?pageNumber=-1",
    "?pageNumber=2147483648&resultsPerPage=200",
    "?month=0",
    "?year=99999",
];
/// Values of ids in paths and bodies, beside those of the account.
const IDS: &[i64] = &[0, 1, -1, i64::MAX, 2_147_483_648];
const WORDS: &[&str] = &[
    "Sku",
    "FUZZ-1",
    "fuzz-1",
    " FUZZ-1 ",
    "NEW",
    "Quantity",
    "WarehouseId",
    "idType",
    "idList",
    "sku",
    "upc",
    "skus",
    "OrderId",
    "LineItems",
    "LineItemId",
    "ShipmentId",
    "TrackingNumber",
    "ShippedDate",
    "2026-10-15",
    "9999-12-31",
    "0001-01-01T00:00:00Z",
    "Name",
    "Type",
    "Kit",
    "Warehouses",
    "QuantityOnHand",
    "Images",
    "Url",
    "https://i.example/9",
    "IsParent",
    "IsVariation",
    "IsActive",
    "Price",
    "Body",
    "ContactInformation",
    "Address",
    "Id",
    "CompanyId",
    "Lines",
    "Components",
    "",
    " ",
    "\u{0}",
    "\u{7f}",
    "ß",
    "O'RING 50%_B",
];

/// Sends the generated requests to an account of their own.
pub(crate) fn check(data: &[u8]) {
    known();
    block_on(async {
        let shop = Shop::open().await;
        let mut choices = Choices::new(data);
        for _ in 0..REQUESTS_MAX {
            if choices.is_spent() {
                break;
            }
            one(&shop, &mut choices).await;
        }
        in_order(&shop).await;
    });
}

async fn one(shop: &Shop, choices: &mut Choices<'_>) {
    match choices.below(8) {
        0 => anything(shop, choices).await,
        1 => happening(shop, choices).await,
        _ => {
            let operation = choices.of(Operation::ALL);
            let target = format!("{}{}", path(operation, choices), choices.of(QUERIES));
            let body = body(operation, choices);
            let before = shop.core.stock_levels().await.unwrap();
            let Some(answer) = shop.call(operation.method(), &target, body.clone()).await else { return };
            let asked = || format!("{operation} {target} {}", String::from_utf8_lossy(&body));
            let wrong = interface(|interface| interface.judge(operation.as_str(), &answer));
            assert!(wrong.is_empty(), "{}: {} {:?}: {wrong:#?}", asked(), answer.status(), answer.body());
            assert_ne!(answer.status(), 500, "{}", asked());
            let changed = shop.core.stock_levels().await.unwrap() != before;
            assert!(answer.status() == 200 || !changed, "refused, and the stock moved: {}", asked());
        }
    }
}

/// Calls the judge of answers; each thread has its own, because the judge caches compiled schemas.
fn interface<T>(judge: impl FnOnce(&Interface) -> T) -> T {
    thread_local! {
        static INTERFACE: OnceLock<Interface> = const { OnceLock::new() };
    }
    INTERFACE.with(|interface| judge(interface.get_or_init(Interface::read)))
}

/// Sends a request that need not name an operation.
async fn anything(shop: &Shop, choices: &mut Choices<'_>) {
    let method = choices.of(&METHODS);
    let operation = choices.of(Operation::ALL);
    let mut target = path(operation, choices).into_bytes();
    for _ in 0..choices.below(3) {
        let at = choices.below(target.len());
        target[at] = choices.byte();
    }
    let Ok(target) = String::from_utf8(target) else { return };
    if target.starts_with("/_sandbox/") {
        return;
    }
    let Some(answer) = shop.call(method, &target, choices.rest().to_vec()).await else { return };
    assert!(
        matches!(answer.status().as_u16(), 200 | 400 | 403 | 404 | 405 | 413),
        "{method} {target}: {answer:?}"
    );
    told(&answer, &format!("{method} {target}"));
}

/// Carries out an event at the platform: an order, a sale, a kit.
async fn happening(shop: &Shop, choices: &mut Choices<'_>) {
    let quantity = i64::from(choices.byte()) - 8;
    let (target, mut body) = match choices.below(3) {
        0 => ("/_sandbox/orders", json!({"Lines": [{"Sku": "FUZZ-1", "Quantity": quantity}]})),
        1 => {
            let warehouse = known().warehouses[0];
            ("/_sandbox/sales", json!({"Sku": "FUZZ-1", "WarehouseId": warehouse, "Quantity": quantity}))
        }
        _ => {
            let part = json!([{"Sku": "FUZZ-1", "Quantity": quantity}]);
            ("/_sandbox/kits", json!({"Sku": "KIT-9", "Name": "Kit", "Components": part}))
        }
    };
    for _ in 0..choices.below(3) {
        choices.change(&mut body, WORDS);
    }
    let Some(answer) = shop.call("POST", target, body.to_string().into_bytes()).await else { return };
    assert!(matches!(answer.status().as_u16(), 200 | 400 | 404 | 409), "{target} {body}: {answer:?}");
    told(&answer, target);
}

/// Asserts that every answer is JSON and that an error has a message.
fn told(answer: &Response<Bytes>, asked: &str) {
    let body: Value =
        serde_json::from_slice(answer.body()).unwrap_or_else(|cause| panic!("{asked}: {cause}"));
    let message = body["Message"].as_str().unwrap_or_default();
    assert!(answer.status() == 200 || !message.is_empty(), "{asked}: {} without a message", answer.status());
}

/// Returns the operation's path, with ids of the account or others.
fn path(operation: Operation, choices: &mut Choices<'_>) -> String {
    let mut path = operation.path().to_owned();
    while let (Some(open), Some(close)) = (path.find('{'), path.find('}')) {
        path.replace_range(open..=close, &id(choices).to_string());
    }
    path
}

fn id(choices: &mut Choices<'_>) -> i64 {
    let shop = known();
    let product = shop.product["Id"].as_i64().unwrap();
    let ours =
        [shop.storefront, shop.shipment, shop.order, shop.line, shop.item, product, shop.warehouses[0]];
    if choices.below(8) == 7 { choices.of(IDS) } else { choices.of(&ours) }
}

/// Returns raw bytes, any JSON, or a valid body with up to three places changed.
fn body(operation: Operation, choices: &mut Choices<'_>) -> Vec<u8> {
    match choices.below(8) {
        6 => choices.rest().to_vec(),
        7 => choices.json(WORDS).to_string().into_bytes(),
        changes => {
            let mut body = good(operation, choices);
            for _ in 0..changes.min(3) {
                choices.change(&mut body, WORDS);
            }
            if body.is_null() { Vec::new() } else { body.to_string().into_bytes() }
        }
    }
}

fn good(operation: Operation, choices: &mut Choices<'_>) -> Value {
    let (shop, count) = (known(), choices.byte());
    match operation {
        Operation::CreateProduct => {
            json!({"Sku": format!("NEW-{count}"), "Name": "New", "QuantityOnHand": count,
            "Warehouses": [{"WarehouseId": shop.warehouses[0], "QuantityOnHand": count}]})
        }
        Operation::UpdateProduct => shop.product.clone(),
        Operation::UpdateQuantityOnHand => {
            let entry =
                |warehouse: &i64| json!({"Sku": "FUZZ-1", "Quantity": count, "WarehouseId": warehouse});
            shop.warehouses.iter().take(choices.below(3)).map(entry).collect()
        }
        Operation::GetProducts => json!({"idType": "sku", "idList": ["FUZZ-1", "NONE"]}),
        Operation::GetProductBalances => json!({"skus": ["FUZZ-1", "NONE"]}),
        Operation::CreateShipments => {
            json!([{"OrderId": shop.order, "LineItems": [{"LineItemId": shop.line, "Quantity": count}]}])
        }
        Operation::SubmitTracking => json!([{"ShipmentId": shop.shipment, "TrackingNumber": "1Z",
            "ShippedDate": "2026-10-15", "LineItems": [{"LineItemId": shop.item}]}]),
        Operation::GetOrderLineItems => json!({"OrderId": shop.order}),
        Operation::CreateWarehouse => json!({"Name": "Annex", "Type": "Dropship",
            "ContactInformation": {"FullName": "A B", "Address": {"City": "Bath", "IsResidential": true}}}),
        Operation::CreateListingTemplate => json!({"Name": "Large", "Body": "<b>x</b>"}),
        _ => Value::Null,
    }
}

/// Asserts the invariants of every account.
async fn in_order(shop: &Shop) {
    let stock = shop.core.stock_levels().await.unwrap();
    assert!(stock.iter().all(|row| (0..=i64::from(i32::MAX)).contains(&row.quantity)), "{stock:?}");
    let skus = shop.core.all_skus().await.unwrap();
    let balances = shop.ok("POST", "/api/product/getProductBalances", json!({"skus": skus})).await;
    for product in balances.as_array().unwrap() {
        let levels = product["Warehouses"].as_array().unwrap().iter();
        let sum: i64 = levels.map(|level| level["QuantityOnHand"].as_i64().unwrap()).sum();
        assert_eq!(product["QuantityOnHand"], sum, "not the sum of its warehouses: {product}");
    }
    for order in shop.core.order_ids().await.unwrap() {
        let lines = shop.ok("POST", "/api/orders/getOrderLineItems", json!({"OrderId": order})).await;
        for line in lines["data"].as_array().unwrap() {
            let (sold, left) = (line["QuantitySold"].as_f64(), line["QuantityNotTiedToShipment"].as_f64());
            assert!(left.is_some_and(|left| left >= 0.0) && left <= sold, "more shipped than sold: {line}");
        }
    }
}
