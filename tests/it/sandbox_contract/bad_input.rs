//! "Conventions that hold for every operation" and "Errors".
//!
//! Any invalid input gets a 4xx with a `Message`, and the sandbox goes on.

use crate::sandbox::SandboxOptions;
use serde_json::json;

use super::support::{
    BALANCES, CREATE_SHIPMENTS, INVENTORY, ORDER_LINES, PRODUCTS, Shop, TRACKING, UPDATE, WAREHOUSES,
    WORK_QUEUE, keys, options,
};

const BODIES: [(&str, &str); 9] = [
    ("POST", BALANCES),
    ("POST", PRODUCTS),
    ("POST", UPDATE),
    ("POST", INVENTORY),
    ("PUT", INVENTORY),
    ("POST", ORDER_LINES),
    ("POST", CREATE_SHIPMENTS),
    ("POST", TRACKING),
    ("POST", WAREHOUSES),
];

async fn unthrottled() -> Shop {
    Shop::with(SandboxOptions { calls_per_minute: 0, bad_requests_per_day: 0, ..options() }).await
}

#[tokio::test]
async fn paths_match_only_in_the_listed_spelling() {
    let shop = unthrottled().await;
    for path in [
        "/api/warehouses",
        "/API/Warehouses",
        "/api/Warehouses/",
        "/api/%57arehouses",
        "/api//Warehouses",
        "/api/Storefronts",
        "/api/company/WorkQueue",
        "/api/Company/Workqueue",
        "/api/inventory/TopSelling",
        "/api/Orders/1/lineitems/1/warehouseallocation",
        "/api/Inventory/1/KitComponents",
        "/api/shipments/1/LineItems",
        "/",
        "/favicon.ico",
    ] {
        shop.get(path).await.message(404);
    }
    for path in
        ["/api/Product/getProductBalances", "/api/Inventory/updateQuantityOnHand", "/api/shipments/create"]
    {
        shop.post(path, &json!([])).await.message(404);
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_which_are_right() {
    let shop = unthrottled().await;
    for (method, path, right) in [
        ("GET", INVENTORY, "POST, PUT"),
        ("DELETE", WAREHOUSES, "POST, GET"),
        ("POST", WORK_QUEUE, "GET"),
        ("PATCH", BALANCES, "POST"),
        ("OPTIONS", TRACKING, "POST"),
    ] {
        let reply = shop.send(method, path, &keys(), b"").await;
        assert!(reply.message(405).contains(right), "{method} {path}");
        assert_eq!(reply.header("Allow"), Some(right));
    }
    let reply = shop.send("HEAD", WAREHOUSES, &keys(), b"").await;
    assert_eq!((reply.status, reply.body.len()), (405, 0), "an answer to HEAD has no body");
}

#[tokio::test]
async fn a_body_that_is_no_json_of_the_right_shape_is_a_400() {
    let shop = unthrottled().await;
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_object = format!("{}1{}", "{\"skus\":".repeat(10_000), "}".repeat(10_000));
    let bodies: [&[u8]; 11] = [
        b"{",
        b"null",
        b"1",
        b"\"text\"",
        b"<xml/>",
        b"\xff\xfe\x00",
        b"{\"skus\":[\"\xc3\x28\"]}",
        b"{\"skus\":[\"\\ud800\"]}",
        b"[1e999]",
        deep.as_bytes(),
        deep_object.as_bytes(),
    ];
    for (method, path) in BODIES {
        for body in bodies {
            let message = shop.send(method, path, &keys(), body).await.message(400);
            assert!(!message.contains("panick"), "{message}");
        }
        shop.send(method, path, &keys(), b"").await.message(400);
    }
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200);
}

#[tokio::test]
async fn a_body_of_50_mb_is_a_413_that_the_caller_gets_to_read() {
    let shop = unthrottled().await;
    let body = vec![b' '; 50 * 1024 * 1024];
    shop.send("POST", BALANCES, &keys(), &body).await.message(413);
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200);
}

#[tokio::test]
async fn a_body_that_nobody_asked_for_counts_for_nothing() {
    let shop = unthrottled().await;
    let large = vec![b' '; 9 * 1024 * 1024];
    for body in [b"garbage".as_slice(), &large] {
        assert_eq!(shop.send("GET", WORK_QUEUE, &keys(), body).await.status, 200);
    }
}

#[tokio::test]
async fn wrong_types_and_missing_fields_are_a_400() {
    let shop = unthrottled().await;
    for (path, body) in [
        (BALANCES, json!({})),
        (BALANCES, json!({ "skus": null })),
        (BALANCES, json!({ "skus": "A" })),
        (BALANCES, json!({ "skus": [1] })),
        (BALANCES, json!({ "Skus": ["A"] })),
        (PRODUCTS, json!({ "idType": "sku" })),
        (PRODUCTS, json!({ "idList": ["A"] })),
        (UPDATE, json!({ "Sku": "A" })),
        (UPDATE, json!([{ "Sku": 7, "Quantity": 1, "WarehouseId": 1 }])),
        (UPDATE, json!([{ "Sku": "A", "Quantity": "1", "WarehouseId": 1 }])),
        (UPDATE, json!([1])),
        (ORDER_LINES, json!({})),
        (ORDER_LINES, json!({ "OrderId": "1" })),
        (ORDER_LINES, json!({ "OrderId": 1.5 })),
        (CREATE_SHIPMENTS, json!({ "OrderId": 1 })),
        (TRACKING, json!({ "ShipmentId": 1 })),
    ] {
        shop.post(path, &body).await.message(400);
    }
}

#[tokio::test]
async fn whole_numbers_may_have_a_point() {
    let shop = unthrottled().await;
    let order_id = shop.sandbox.order_ids().await.expect("orders")[0];
    let body = format!("{{\"OrderId\":{order_id}.0}}");
    let reply = shop.send("POST", ORDER_LINES, &keys(), body.as_bytes()).await;
    assert!(!reply.data().as_array().expect("lines").is_empty());
}

#[tokio::test]
async fn a_media_type_other_than_json_is_a_415() {
    let shop = unthrottled().await;
    let headers = [keys(), vec![("Content-Type", "text/plain")]].concat();
    shop.send("POST", BALANCES, &headers, b"").await.message(415);
}

#[tokio::test]
async fn nothing_in_a_string_is_understood_by_the_database() {
    let shop = unthrottled().await;
    let awkward =
        ["%", "_", "O'RING 50%__", "'; DROP TABLE product; --", "\" OR 1=1", "*", "?", "\u{0}", "\u{1F600}"];
    assert_eq!(shop.post(BALANCES, &json!({ "skus": awkward })).await.ok(), json!([]));
    let first = &shop.sandbox.all_skus().await.expect("skus")[0];
    let prefix = format!("{}%", &first[..3]);
    assert_eq!(shop.post(PRODUCTS, &json!({ "idType": "sku", "idList": [prefix] })).await.data(), json!([]));
    for sku in awkward {
        let created = shop.post(INVENTORY, &json!({ "Sku": sku, "Name": sku })).await.data();
        assert_eq!(created["Product"]["Sku"], *sku);
        let found = shop.post(BALANCES, &json!({ "skus": [sku] })).await.ok();
        assert_eq!(found.as_array().expect("balances").len(), 1, "{sku:?}");
        assert_eq!(found[0]["Sku"], *sku);
    }
}

#[tokio::test]
async fn paging_nonsense_is_no_failure_of_the_service() {
    let shop = unthrottled().await;
    for (query, status) in [
        ("pageNumber=-1", 400),
        ("pageNumber=0", 400),
        ("pageNumber=abc", 400),
        ("pageNumber=1.5", 400),
        ("resultsPerPage=0", 400),
        ("resultsPerPage=-5", 400),
        ("pageNumber=999999999999999999999999", 200),
        ("resultsPerPage=100000", 200),
        ("pageNumber=2147483647&resultsPerPage=200", 200),
        ("pageNumber=", 200),
        ("pageNumber=%FF", 400),
        ("=&&&", 200),
        ("pageNumber=1&pageNumber=2", 200),
    ] {
        let reply = shop.get(&format!("{WAREHOUSES}?{query}")).await;
        assert_eq!(reply.status, status, "{query}");
        if status == 400 {
            reply.message(400);
        }
    }
}
