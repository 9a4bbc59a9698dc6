//! "Limits": the three throttles, each with its own answer.

use crate::sandbox::SandboxOptions;
use serde_json::json;
use tokio::task::JoinHandle;

use super::support::{
    BALANCES, Shop, UPDATE, WAREHOUSES, WORK_QUEUE, core_on_paused_time, exchange, keys, options, request,
    status,
};

#[tokio::test]
async fn the_121st_call_in_a_minute_is_told_how_long_to_wait() {
    let shop = Shop::open().await;
    for call in 0..120 {
        let path = if call % 2 == 0 { WORK_QUEUE } else { WAREHOUSES };
        assert_eq!(shop.get(path).await.status, 200, "call {call}");
    }
    let reply = shop.get(WORK_QUEUE).await;
    reply.message(429);
    let wait: i64 = reply.header("Retry-After").expect("Retry-After").parse().expect("whole seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    shop.control("/_sandbox/clock", &json!({ "AdvanceSeconds": wait })).await;
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200, "after exactly the wait that was named");
}

#[tokio::test]
async fn the_minute_is_per_company_and_unknown_keys_spend_nobodys() {
    let shop = Shop::with(SandboxOptions { calls_per_minute: 2, ..options() }).await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    for _ in 0..5 {
        shop.get_as("unknown", WORK_QUEUE).await.message(403);
        shop.get("/api/workqueue").await.message(404);
    }
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200);
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200);
    shop.get(WORK_QUEUE).await.message(429);
    assert_eq!(shop.get_as(&other, WORK_QUEUE).await.status, 200);
}

/// Starts calls of the work queue that do not end within the test; returns once all are being handled.
async fn endless_calls(shop: &Shop, count: usize) -> Vec<JoinHandle<Vec<u8>>> {
    let endless =
        json!([{ "Operation": "GET /api/Company/WorkQueue", "LatencyMs": 600_000, "Times": count }]);
    shop.control("/_sandbox/faults", &endless).await;
    let addr = shop.sandbox.local_addr();
    let call = || tokio::spawn(async move { exchange(addr, "GET", WORK_QUEUE, &keys(), b"").await });
    let calls = std::iter::repeat_with(call).take(count).collect();
    while shop.sandbox.logged_calls().len() < count {
        tokio::task::yield_now().await;
    }
    calls
}

#[tokio::test]
async fn the_fourth_call_of_an_operation_at_once_is_throttled_without_retry_after() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let _three = endless_calls(&shop, 3).await;
    let fourth = shop.get(WORK_QUEUE).await;
    fourth.message(429);
    assert_eq!(fourth.header("Retry-After"), None);
    assert_eq!(shop.get(WAREHOUSES).await.status, 200, "another operation");
    assert_eq!(shop.get_as(&other, WORK_QUEUE).await.status, 200, "another company");
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_free_as_soon_as_one_of_the_calls_has_completed() {
    let options = SandboxOptions { latency_ms: 400, ..options() };
    let core = core_on_paused_time(&options).await;
    let call = || core.handle_request(request(WORK_QUEUE));
    let at_once = tokio::join!(call(), call(), call(), call());
    let statuses = [&at_once.0, &at_once.1, &at_once.2, &at_once.3].map(status);
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(status(&call().await), 200);
    let durations: Vec<_> = core.logged_calls().iter().map(|call| call.duration_ms).collect();
    assert_eq!(durations, [Some(400), Some(400), Some(400), Some(0), Some(400)]);
}

#[tokio::test]
async fn a_caller_that_hangs_up_keeps_its_slot_until_the_call_has_ended() {
    let shop = Shop::with(SandboxOptions { concurrency: 1, ..options() }).await;
    for call in endless_calls(&shop, 1).await {
        call.abort();
        assert!(call.await.is_err_and(|cause| cause.is_cancelled()));
    }
    shop.get(WORK_QUEUE).await.message(429);
    assert_eq!(shop.sandbox.logged_calls()[0].duration_ms, None, "it is still being handled");
}

#[tokio::test]
async fn bad_requests_are_counted_up_to_the_403_and_forgotten_after_a_day() {
    let shop = Shop::with(SandboxOptions { calls_per_minute: 0, ..options() }).await;
    let duplicate = json!([{ "Sku": "A", "Quantity": 1, "WarehouseId": 1 }, { "Sku": "A", "Quantity": 1, "WarehouseId": 1 }]);
    for _ in 0..250 {
        shop.post(UPDATE, &duplicate).await.message(400);
        shop.post(BALANCES, &json!({})).await.message(400);
    }
    let reply = shop.get(WORK_QUEUE).await;
    reply.message(403);
    let wait: i64 = reply.header("Retry-After").expect("Retry-After").parse().expect("whole seconds");
    assert!((86_000..=86_400).contains(&wait), "{wait}");
    shop.control("/_sandbox/clock", &json!({ "AdvanceSeconds": wait - 600 })).await;
    shop.get(WORK_QUEUE).await.message(403);
    shop.control("/_sandbox/clock", &json!({ "AdvanceSeconds": 600 })).await;
    assert_eq!(shop.get(WORK_QUEUE).await.status, 200);
}

#[tokio::test]
async fn the_quantity_updates_400_to_a_lapsed_company_counts_too() {
    let shop = Shop::with(SandboxOptions { bad_requests_per_day: 2, ..options() }).await;
    let lapsed = shop.company(json!({ "Name": "Lapsed", "Subscribed": false })).await;
    shop.post_as(&lapsed, UPDATE, &json!([])).await.message(400);
    shop.post_as(&lapsed, UPDATE, &json!([])).await.message(400);
    let reply = shop.post_as(&lapsed, UPDATE, &json!([])).await;
    reply.message(403);
    assert!(reply.header("Retry-After").is_some());
}
