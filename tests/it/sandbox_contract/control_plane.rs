//! The control plane: its effects on the account, and its separation from the platform's interface.

use serde_json::json;

use super::support::{BALANCES, INVENTORY, Shop, WAREHOUSES, WORK_QUEUE, id};

#[tokio::test]
async fn an_order_that_is_short_is_refused_and_nothing_has_moved() {
    let shop = Shop::open().await;
    let before = shop.sandbox.stock_levels().await.expect("stock");
    let orders = shop.sandbox.order_ids().await.expect("orders");
    let (first, second) = (shop.product(0).await, shop.product(1).await);
    let too_many = id(&second, "QuantityOnHand") + 1;
    let lines =
        json!([{ "Sku": first["Sku"], "Quantity": 1 }, { "Sku": second["Sku"], "Quantity": too_many }]);
    let body = json!({ "Lines": lines }).to_string();
    shop.send("POST", "/_sandbox/orders", &[], body.as_bytes()).await.message(409);
    assert_eq!(shop.sandbox.stock_levels().await.expect("stock"), before);
    assert_eq!(shop.sandbox.order_ids().await.expect("orders"), orders);
}

#[tokio::test]
async fn a_sale_lowers_one_stock_level() {
    let shop = Shop::open().await;
    let product = shop.product(0).await;
    let level = &product["Warehouses"][0];
    let there = id(level, "QuantityOnHand");
    let sale = |quantity| json!({ "Sku": product["Sku"], "WarehouseId": level["WarehouseId"], "Quantity": quantity });
    let answer = shop.control("/_sandbox/sales", &sale(there)).await;
    assert_eq!(answer["QuantityOnHand"], 0);
    assert_eq!(id(&shop.product(0).await["Warehouses"][0], "QuantityOnHand"), 0);
    let refused = sale(1).to_string();
    shop.send("POST", "/_sandbox/sales", &[], refused.as_bytes()).await.message(409);
}

#[tokio::test]
async fn companies_are_isolated_and_their_ids_unique() {
    let shop = Shop::open().await;
    let fields = json!({ "Name": "A", "Subscribed": true, "MultiWarehousing": true });
    let answer = shop.control("/_sandbox/companies", &fields).await;
    let key = answer["IntegrationKey"].as_str().expect("a key");
    let again = shop.control("/_sandbox/companies", &json!({ "Name": "A", "Subscribed": true })).await;
    assert_ne!(answer["CompanyId"], again["CompanyId"]);
    assert_ne!(answer["IntegrationKey"], again["IntegrationKey"]);
    let warehouses = shop.get_as(key, WAREHOUSES).await.data();
    assert_eq!(warehouses.as_array().expect("warehouses").len(), 2);
    let link = json!([{ "WarehouseId": warehouses[0]["Id"], "QuantityOnHand": 4 }]);
    let body = json!({ "Sku": "THEIRS", "Name": "n", "Warehouses": link });
    let product = shop.post_as(key, INVENTORY, &body).await.data()["Product"].clone();
    assert_eq!(product["CompanyId"], answer["CompanyId"]);
    let order = json!({ "Lines": [{ "Sku": "THEIRS", "Quantity": 1 }], "IntegrationKey": key });
    shop.control("/_sandbox/orders", &order).await;
    assert_eq!(
        shop.post_as(key, BALANCES, &json!({ "skus": ["THEIRS"] })).await.ok()[0]["QuantityOnHand"],
        3
    );
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_message() {
    let shop = Shop::open().await;
    let sku = shop.product(0).await["Sku"].clone();
    for (path, body, status) in [
        ("companies", json!({}), 400),
        ("companies", json!({ "Name": "", "Subscribed": true }), 400),
        ("companies", json!([]), 400),
        ("orders", json!({ "Lines": [] }), 400),
        ("orders", json!({ "Lines": [{ "Sku": sku, "Quantity": 0 }] }), 400),
        ("orders", json!({ "Lines": [{ "Sku": "nobody's", "Quantity": 1 }] }), 404),
        ("orders", json!({ "Lines": [{ "Sku": sku, "Quantity": 1 }], "IntegrationKey": "x" }), 400),
        ("sales", json!({ "Sku": sku, "WarehouseId": 1, "Quantity": 1 }), 404),
        ("sales", json!({ "Sku": "KIT-0001", "WarehouseId": 1, "Quantity": 1 }), 400),
        ("kits", json!({ "Sku": "K", "Name": "K", "Components": [] }), 400),
        (
            "kits",
            json!({ "Sku": "K", "Name": "K", "Components": [{ "Sku": "KIT-0001", "Quantity": 1 }] }),
            400,
        ),
        ("kits", json!({ "Sku": sku, "Name": "K", "Components": [{ "Sku": sku, "Quantity": 1 }] }), 409),
        ("faults", json!([{ "Operation": "GET /api/Nothing", "Status": 500 }]), 400),
        ("faults", json!(7), 400),
        ("clock", json!({ "AdvanceSeconds": -1 }), 400),
        ("clock", json!({ "AdvanceSeconds": 1e12 }), 400),
        ("nothing", json!({}), 404),
        ("calls", json!({}), 405),
    ] {
        shop.send("POST", &format!("/_sandbox/{path}"), &[], body.to_string().as_bytes())
            .await
            .message(status);
    }
    shop.send("GET", "/_sandbox/orders", &[], b"").await.message(405);
}

#[tokio::test]
async fn it_needs_no_key_and_is_neither_counted_nor_delayed() {
    let options = crate::sandbox::SandboxOptions {
        calls_per_minute: 1,
        latency_ms: 5_000,
        ..super::support::options()
    };
    let shop = Shop::with(options).await;
    for _ in 0..5 {
        shop.control("/_sandbox/clock", &json!({ "AdvanceSeconds": 0 })).await;
        assert_eq!(shop.send("GET", "/_sandbox/calls", &[], b"").await.ok(), json!([]));
    }
}

#[tokio::test]
async fn the_calls_are_listed_in_order_with_what_became_of_them() {
    let shop = Shop::open().await;
    shop.get(WORK_QUEUE).await;
    shop.get_as("unknown", WAREHOUSES).await;
    shop.get("/api/Shipments/5/LineItems").await;
    shop.get("/api/nothing").await;
    let calls = shop.send("GET", "/_sandbox/calls", &[], b"").await.ok();
    let answer: Vec<_> =
        calls.as_array().expect("calls").iter().map(|call| (&call["Operation"], &call["Status"])).collect();
    assert_eq!(
        json!(answer),
        json!([
            ["GET /api/Company/WorkQueue", 200],
            ["GET /api/Warehouses", 403],
            ["GET /api/Shipments/{shipmentid}/LineItems", 200],
        ])
    );
    for call in calls.as_array().expect("calls") {
        assert!(call["StartedAt"].as_str().expect("a time").ends_with('Z'));
        assert!(call["DurationMs"].is_i64() && call["ArrivedAtMs"].is_i64());
    }
}

#[tokio::test]
async fn the_clock_moves_the_dates_of_the_service() {
    let shop = Shop::open().await;
    let before = shop.send("GET", "/_sandbox/clock", &[], b"").await.ok();
    let after = shop.control("/_sandbox/clock", &json!({ "AdvanceSeconds": 86_400 * 40 })).await;
    assert!(after["Now"].as_str() > before["Now"].as_str());
    let best = shop.get("/api/Inventory/TopSelling").await.data();
    assert!(best.as_array().expect("sellers").len() <= 10);
    shop.get(WORK_QUEUE).await.ok();
    let calls = shop.send("GET", "/_sandbox/calls", &[], b"").await.ok();
    assert!(calls[1]["StartedAt"].as_str() >= after["Now"].as_str());
}

/// A web page open in a developer's browser must not sell the stock out.
#[tokio::test]
async fn a_web_page_of_another_origin_is_refused_and_nothing_is_done() {
    let shop = Shop::open().await;
    let product = shop.product(0).await;
    let level = &product["Warehouses"][0];
    let sale =
        json!({ "Sku": product["Sku"], "WarehouseId": level["WarehouseId"], "Quantity": 1 }).to_string();
    let before = shop.sandbox.stock_levels().await.expect("stock");
    let listed = format!("http://{}", shop.sandbox.local_addr());
    for headers in [
        [("Origin", "https://evil.example"), ("Content-Type", "text/plain")],
        [("Sec-Fetch-Site", "cross-site"), ("Content-Type", "text/plain")],
        [("Origin", "null"), ("Sec-Fetch-Site", "cross-site")],
        [("Origin", "http://localhost:3000"), ("Sec-Fetch-Site", "same-site")],
        // Another name of this machine is another origin.
        [("Origin", listed.as_str()), ("X", "y")],
    ] {
        for path in ["sales", "clock", "faults", "orders", "companies", "kits"] {
            let path = format!("/_sandbox/{path}");
            let refused = shop.send("POST", &path, &headers, sale.as_bytes()).await.message(403);
            assert!(refused.contains("web page"), "{refused}");
        }
        shop.send("GET", "/_sandbox/calls", &headers, b"").await.message(403);
        shop.send("DELETE", "/_sandbox/faults", &headers, b"").await.message(403);
        let key = ("svc-subscription-key", shop.sandbox.integration_key());
        let gateway = ("gateway-subscription-key", shop.sandbox.gateway_key());
        let with_keys = [&headers[..], &[key, gateway]].concat();
        shop.send("GET", WAREHOUSES, &with_keys, b"").await.message(403);
    }
    assert_eq!(shop.sandbox.stock_levels().await.expect("stock"), before);
    shop.send("POST", "/_sandbox/sales", &[("Sec-Fetch-Site", "none")], sale.as_bytes()).await.ok();
}

/// A page may have its host name resolve to this machine.
#[tokio::test]
async fn a_foreign_host_is_refused_and_addresses_and_local_names_are_not() {
    let shop = Shop::open().await;
    let port = shop.sandbox.local_addr().port();
    for (host, status) in [
        ("evil.example".to_owned(), 403),
        (format!("evil.example:{port}"), 403),
        (format!("127.0.0.1.evil.example:{port}"), 403),
        (format!("127.0.0.1:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        (format!("localhost:{port}"), 200),
    ] {
        for path in ["/_sandbox/clock", "/_sandbox/calls"] {
            let answered = super::support::exchange_as(shop.sandbox.local_addr(), &host, "GET", path).await;
            assert!(answered.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answered}");
            assert!(status == 200 || answered.contains("--host"), "{answered}");
        }
    }
}
