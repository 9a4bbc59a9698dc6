//! Injected faults (control plane): each happens as ordered, and the call takes effect or not as ordered.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{Shop, UPDATE, WAREHOUSES, WORK_QUEUE, id, keys, parse};

const QUEUE: &str = "GET /api/Company/WorkQueue";
const SET: &str = "POST /api/inventory/updateQuantityOnHand";

async fn fault(shop: &Shop, fault: Value) {
    shop.control("/_sandbox/faults", &json!([fault])).await;
}

/// Returns an entry that sets the first stock level to 4711.
async fn entry(shop: &Shop) -> Value {
    let product = shop.product(0).await;
    json!([{ "Sku": product["Sku"], "Quantity": 4711, "WarehouseId": product["Warehouses"][0]["WarehouseId"] }])
}

async fn is_set(shop: &Shop) -> bool {
    id(&shop.product(0).await["Warehouses"][0], "QuantityOnHand") == 4711
}

#[tokio::test]
async fn a_status_is_answered_instead_of_the_deed_so_many_times() {
    let shop = Shop::open().await;
    fault(&shop, json!({ "Operation": SET, "Status": 503, "Times": 2 })).await;
    let entry = entry(&shop).await;
    for _ in 0..2 {
        shop.post(UPDATE, &entry).await.message(503);
    }
    assert!(!is_set(&shop).await);
    assert_eq!(shop.post(UPDATE, &entry).await.ok()["status"], "Success");
    assert!(is_set(&shop).await);
}

#[tokio::test]
async fn a_500_on_order_reads_as_the_document_says() {
    let shop = Shop::open().await;
    fault(&shop, json!({ "Operation": QUEUE, "Status": 500 })).await;
    let message = shop.get(WORK_QUEUE).await.message(500).to_lowercase();
    assert!(message.contains("something went wrong while processing the request"), "{message}");
}

#[tokio::test]
async fn a_throttle_can_be_injected_with_its_retry_after() {
    let shop = Shop::open().await;
    fault(&shop, json!({ "Operation": QUEUE, "Status": 429, "RetryAfter": 7, "Times": 1 })).await;
    fault(&shop, json!({ "Operation": QUEUE, "Status": 429, "RetryAfter": "Sat, 21 Nov 2026 08:00:00 GMT", "Times": 1 }))
        .await;
    assert_eq!(shop.get(WORK_QUEUE).await.header("Retry-After"), Some("7"));
    assert_eq!(shop.get(WORK_QUEUE).await.header("Retry-After"), Some("Sat, 21 Nov 2026 08:00:00 GMT"));
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200);
}

#[tokio::test]
async fn a_dropped_call_gets_no_byte_and_is_done_only_when_dropped_after() {
    let shop = Shop::open().await;
    let entry = entry(&shop).await;
    for (moment, done) in [("before", false), ("after", true)] {
        fault(&shop, json!({ "Operation": SET, "Drop": moment, "Times": 1 })).await;
        let received = shop.exchange("POST", UPDATE, &keys(), entry.to_string().as_bytes()).await;
        assert!(received.is_empty(), "{}", String::from_utf8_lossy(&received));
        assert_eq!(is_set(&shop).await, done, "{moment}");
    }
    let dropped: Vec<_> =
        shop.sandbox.logged_calls().into_iter().filter(|call| call.operation == SET).collect();
    assert!(dropped.iter().all(|call| call.status.is_none() && call.duration_ms.is_some()));
}

#[tokio::test]
async fn a_status_after_the_deed_hides_that_it_was_done() {
    let shop = Shop::open().await;
    fault(&shop, json!({ "Operation": SET, "Status": 500, "Drop": "after", "Times": 1 })).await;
    shop.post(UPDATE, &entry(&shop).await).await.message(500);
    assert!(is_set(&shop).await);
}

#[tokio::test]
async fn a_truncated_body_is_shorter_than_its_content_length_says() {
    let shop = Shop::open().await;
    let whole = shop.get(WAREHOUSES).await.body;
    for (truncate, kept) in
        [(json!(10), 10), (json!(true), whole.len() / 2), (json!(0), 0), (json!(1_000_000), whole.len() - 1)]
    {
        fault(&shop, json!({ "Operation": "GET /api/Warehouses", "Truncate": truncate, "Times": 1 })).await;
        let reply = parse(&shop.exchange("GET", WAREHOUSES, &keys(), b"").await).expect("a head");
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("Content-Length"), Some(whole.len().to_string().as_str()));
        assert_eq!(reply.body, whole[..kept], "{truncate}");
    }
}

#[tokio::test]
async fn a_large_body_is_cut_where_it_was_said() {
    let shop = Shop::with(crate::sandbox::SandboxOptions { skus: 2_000, ..super::support::options() }).await;
    let body = json!({ "skus": shop.sandbox.all_skus().await.expect("skus") }).to_string();
    fault(
        &shop,
        json!({ "Operation": "POST /api/product/getProductBalances", "Truncate": 800_000, "Times": 1 }),
    )
    .await;
    let received = shop.exchange("POST", "/api/product/getProductBalances", &keys(), body.as_bytes()).await;
    let reply = parse(&received).expect("a head");
    let promised: usize = reply.header("Content-Length").expect("a length").parse().expect("a number");
    assert!(promised > 800_000);
    assert_eq!(reply.body.len(), 800_000);
}

#[tokio::test]
async fn a_probability_is_drawn_from_the_seed() {
    let statuses = async || {
        let shop = Shop::open().await;
        fault(&shop, json!({ "Operation": QUEUE, "Status": 500, "Probability": 0.5 })).await;
        let mut statuses = Vec::new();
        for _ in 0..30 {
            statuses.push(shop.get(WORK_QUEUE).await.status);
        }
        statuses
    };
    let first = statuses().await;
    assert!(first.contains(&200) && first.contains(&500), "{first:?}");
    assert_eq!(first, statuses().await);
}

#[tokio::test]
async fn faults_are_counted_against_the_quota_and_refused_calls_use_none_up() {
    let shop =
        Shop::with(crate::sandbox::SandboxOptions { calls_per_minute: 1, ..super::support::options() }).await;
    fault(&shop, json!({ "Operation": QUEUE, "Status": 500, "Times": 2 })).await;
    shop.get_as("unknown", WORK_QUEUE).await.message(403);
    shop.get(WORK_QUEUE).await.message(500);
    shop.get(WORK_QUEUE).await.message(429);
    shop.control("/_sandbox/clock", &json!({ "AdvanceSeconds": 60 })).await;
    shop.get(WORK_QUEUE).await.message(500);
}

#[tokio::test]
async fn an_injected_400_counts_as_a_bad_request() {
    let shop =
        Shop::with(crate::sandbox::SandboxOptions { bad_requests_per_day: 1, ..super::support::options() })
            .await;
    fault(&shop, json!({ "Operation": QUEUE, "Status": 400, "Times": 1 })).await;
    shop.get(WORK_QUEUE).await.message(400);
    shop.get(WORK_QUEUE).await.message(403);
}

#[tokio::test]
async fn faults_end_when_they_are_cleared() {
    let shop = Shop::open().await;
    fault(&shop, json!({ "Operation": QUEUE, "Status": 500 })).await;
    shop.get(WORK_QUEUE).await.message(500);
    assert_eq!(shop.send("GET", "/_sandbox/faults", &[], b"").await.ok()[0]["Operation"], QUEUE);
    assert_eq!(shop.send("DELETE", "/_sandbox/faults", &[], b"").await.status, 200);
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200);
    assert_eq!(shop.send("GET", "/_sandbox/faults", &[], b"").await.ok(), json!([]));
}

#[tokio::test]
async fn a_connection_that_was_kept_open_answers_until_it_is_cut() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let shop = Shop::open().await;
    let mut stream = tokio::net::TcpStream::connect(shop.sandbox.local_addr()).await.expect("connects");
    let request = format!(
        "GET {WORK_QUEUE} HTTP/1.1\r\nHost: s\r\nsvc-subscription-key: {}\r\ngateway-subscription-key: {}\r\n\r\n",
        super::support::INTEGRATION_KEY,
        super::support::GATEWAY_KEY
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut first = vec![0; 12];
    stream.read_exact(&mut first).await.expect("answered");
    assert_eq!(first, b"HTTP/1.1 200");
    fault(&shop, json!({ "Operation": QUEUE, "Drop": "before", "Times": 1 })).await;
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
    read.expect("the connection is closed").expect("in order");
    assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1"), "no second answer");
}
