//! "Authentication": the four rules, the gateway key, and the callers that are answered 400 instead of 403.

use serde_json::json;

use super::support::{
    GATEWAY_KEY, INTEGRATION_KEY, Shop, UPDATE, WAREHOUSES, WORK_QUEUE, keys, keys_of, options,
};

#[tokio::test]
async fn both_keys_are_needed() {
    let shop = Shop::open().await;
    assert_eq!(shop.get(WAREHOUSES).await.status, 200);
    for headers in [
        vec![],
        vec![("svc-subscription-key", INTEGRATION_KEY)],
        vec![("gateway-subscription-key", GATEWAY_KEY)],
        vec![("svc-subscription-key", "unknown"), ("gateway-subscription-key", GATEWAY_KEY)],
        vec![("svc-subscription-key", INTEGRATION_KEY), ("gateway-subscription-key", "unknown")],
        vec![("svc-subscription-key", ""), ("gateway-subscription-key", GATEWAY_KEY)],
    ] {
        shop.send("GET", WAREHOUSES, &headers, b"").await.message(403);
    }
}

/// A gateway may spell the headers in another way, as `[service.headers]` of a daemon does.
#[tokio::test]
async fn the_headers_have_the_names_of_the_options() {
    let mut options = options();
    options.headers.integration_key_header = "x-company".parse().expect("a name");
    options.headers.gateway_key_header = "X-Gateway".parse().expect("a name");
    options.headers.application_id_header = "x-app".parse().expect("a name");
    let shop = Shop::with(options).await;
    shop.get(WAREHOUSES).await.message(403);
    let named = |key| vec![("X-Company", key), ("x-gateway", GATEWAY_KEY)];
    assert_eq!(shop.send("GET", WAREHOUSES, &named(INTEGRATION_KEY), b"").await.status, 200);
    let key = shop.company(json!({ "Name": "App", "Subscribed": true, "ApplicationId": "app-1" })).await;
    shop.send("GET", WORK_QUEUE, &named(&key), b"").await.message(403);
    let with_id = [named(&key), vec![("x-app", "app-1")]].concat();
    assert_eq!(shop.send("GET", WORK_QUEUE, &with_id, b"").await.status, 200);
}

#[tokio::test]
async fn a_company_without_subscription_is_refused() {
    let shop = Shop::open().await;
    let key = shop.company(json!({ "Name": "Lapsed", "Subscribed": false })).await;
    let message = shop.get_as(&key, WAREHOUSES).await.message(403);
    assert!(message.contains("current subscription"), "{message}");
    shop.get_as(&key, "/api/Shipments/1/LineItems").await.message(403);
}

#[tokio::test]
async fn a_marketplace_application_names_itself() {
    let shop = Shop::open().await;
    let key = shop.company(json!({ "Name": "App", "Subscribed": true, "ApplicationId": "app-1" })).await;
    let message = shop.get_as(&key, WORK_QUEUE).await.message(403);
    assert!(message.contains("application id"), "{message}");
    let with = |application_id| [keys_of(&key), vec![("application-id", application_id)]].concat();
    shop.send("GET", WORK_QUEUE, &with("app-2"), b"").await.message(403);
    assert_eq!(shop.send("GET", WORK_QUEUE, &with("app-1"), b"").await.status, 200);
}

#[tokio::test]
async fn a_company_key_needs_no_application_id_and_ignores_one() {
    let shop = Shop::open().await;
    let headers = [keys(), vec![("application-id", "whatever")]].concat();
    assert_eq!(shop.send("GET", WORK_QUEUE, &headers, b"").await.status, 200);
}

#[tokio::test]
async fn the_quantity_update_answers_400_to_a_dead_key() {
    let shop = Shop::open().await;
    let lapsed = shop.company(json!({ "Name": "Lapsed", "Subscribed": false })).await;
    for key in ["unknown", &lapsed] {
        let reply = shop.post_as(key, UPDATE, &json!([])).await;
        reply.message(400);
        let body = reply.json();
        assert!(body["ExceptionMessage"].is_string() && body["ExceptionType"].is_string(), "{body}");
        assert!(body.get("StackTrace").is_some_and(serde_json::Value::is_null), "{body}");
    }
    shop.send("POST", UPDATE, &[("gateway-subscription-key", GATEWAY_KEY)], b"[]").await.message(403);
    shop.send("POST", UPDATE, &[("svc-subscription-key", INTEGRATION_KEY)], b"[]").await.message(403);
}

#[tokio::test]
async fn header_names_are_not_case_sensitive() {
    let shop = Shop::open().await;
    let headers = [("SVC-Subscription-Key", INTEGRATION_KEY), ("Gateway-Subscription-Key", GATEWAY_KEY)];
    assert_eq!(shop.send("GET", WORK_QUEUE, &headers, b"").await.status, 200);
}
