//! Failing orders and other entries, and orders that are tracked while others are read: none delays the
//! others.

use super::support::{Dock, LINES, whole};
use super::told::{Rules, fail, told};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tallyd::model::{JobKind, Operation};
use tallyd::store::Durability;
use tokio::sync::Notify;

const MINUTE: Duration = Duration::from_secs(60);
const ALLOCATION: &str = "GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation";
const ITEMS: &str = "GET /api/Shipments/{shipmentid}/LineItems";

/// Creates tracked orders that are not read yet.
async fn orders(count: usize) -> (Dock, Rules, Vec<i64>) {
    let (dock, rules) = told().await;
    let (sku, _) = dock.two_skus().await;
    let mut orders = Vec::new();
    for _ in 0..count {
        orders.push(dock.sandbox.place_order(&[(&sku, 1)]).await.unwrap());
    }
    dock.track_orders(&orders).await;
    (dock, rules, orders)
}

async fn quarantined(dock: &Dock) -> Vec<(String, String, i64)> {
    let sql = "SELECT operation, subject, failures FROM quarantine ORDER BY 1, 2";
    dock.outsider().await.rows(sql).await
}

#[tokio::test]
async fn an_order_that_always_fails_goes_behind_the_others_and_is_set_aside() {
    let (dock, rules, orders) = orders(6).await;
    rules.fail_order(orders[2]);
    let said = dock.run(JobKind::OrderLines).await;
    assert!(said.contains(&format!("1 not read: order {} (", orders[2])), "{said}");
    assert_eq!(dock.number("SELECT count(*) FROM sales_order").await, 5);
    // The failing order has one attempt among the others; all others are read before its next attempt.
    let first = "SELECT count(DISTINCT request_body_id) FROM (SELECT request_body_id FROM exchange \
                 WHERE operation = 'POST /api/orders/getOrderLineItems' ORDER BY id LIMIT 6) AS first";
    assert_eq!(dock.number(first).await, 6);
    assert_eq!(dock.calls(LINES), 5 + 4, "one attempt, and three behind the others");
    assert_eq!(quarantined(&dock).await, [(LINES.into(), orders[2].to_string(), 1)]);

    let said = dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.calls(LINES), 9 + 5, "it is left alone until its delay is over");
    assert!(said.contains(&format!("1 quarantined: order {} (", orders[2])), "{said}");
    let before = dock.calls(LINES);
    for _ in 0..60 {
        dock.later(MINUTE);
        dock.run(JobKind::OrderLines).await;
    }
    let spent = dock.calls(LINES) - before - 60 * 5;
    assert!((4..=30).contains(&spent), "{spent} calls for it in an hour");
    rules.clear();
    dock.later(MINUTE * 31);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(
        (dock.number("SELECT count(*) FROM sales_order").await, quarantined(&dock).await.len()),
        (6, 0)
    );
}

#[tokio::test]
async fn what_a_person_corrected_is_tried_with_the_next_run() {
    let (dock, rules, orders) = orders(3).await;
    let bad = orders[0];
    rules.fail_order(bad);
    dock.run(JobKind::OrderLines).await;
    for _ in 0..9 {
        dock.later(MINUTE * 31);
        dock.run(JobKind::OrderLines).await;
    }
    assert_eq!(quarantined(&dock).await, [(LINES.into(), bad.to_string(), 10)]);
    rules.clear();
    dock.run(JobKind::OrderLines).await;
    assert_eq!(quarantined(&dock).await.len(), 1, "its delay is half an hour by now");

    let context = dock.daemon().context();
    let mut write = context.store.begin_write(Durability::Full).await.unwrap();
    assert!(!write.quarantine_retry("7", context.now()).await.unwrap(), "not set aside");
    assert!(write.quarantine_retry(&bad.to_string(), context.now()).await.unwrap());
    write.commit().await.unwrap();
    dock.run(JobKind::OrderLines).await;
    assert_eq!(quarantined(&dock).await, []);
    assert_eq!(dock.number("SELECT count(*) FROM sales_order").await, 3);
    assert_eq!(dock.number("SELECT count(*) FROM event WHERE kind = 'entry.retried'").await, 1);
}

/// Several failures may have been the platform's, so an answer to one of them ends the delays of the others.
#[tokio::test]
async fn one_that_is_answered_again_has_the_others_tried_at_once() {
    let (dock, rules, orders) = orders(4).await;
    rules.fail_order(orders[0]);
    for _ in 0..9 {
        dock.run(JobKind::OrderLines).await;
        dock.later(MINUTE * 31);
    }
    rules.fail_order(orders[1]);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(quarantined(&dock).await.len(), 2);
    rules.clear();
    dock.later(MINUTE * 3);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(quarantined(&dock).await.len(), 1, "the delay of the first is half an hour by now");
    dock.run(JobKind::OrderLines).await;
    assert_eq!(quarantined(&dock).await, []);
}

/// A failed SKU that the platform then no longer has is not quarantined.
///
/// A call that shows others beside the SKU did not fail.
#[tokio::test]
async fn a_sku_that_is_gone_is_not_left_aside_as_one_that_fails() {
    let (dock, rules) = told().await;
    let skus = dock.sandbox.all_skus().await.unwrap();
    dock.track_skus(&skus).await;
    dock.run(JobKind::Balances).await;
    let bad = skus[0].clone();
    let names = {
        let bad = bad.clone();
        move |body: &[u8]| {
            serde_json::from_slice::<Value>(body).unwrap()["skus"].as_array().unwrap().contains(&json!(bad))
        }
    };
    rules.say(Operation::GetProductBalances, move |request, response| {
        if names(request.body.as_deref().unwrap()) {
            fail(response, 500);
        }
    });
    dock.later(MINUTE);
    dock.run(JobKind::Balances).await;
    assert_eq!(quarantined(&dock).await.len(), 1);
    rules.clear();
    rules.say(Operation::GetProductBalances, move |_, response| {
        let mut products: Value = serde_json::from_slice(&response.body).unwrap();
        products.as_array_mut().unwrap().retain(|product| product["Sku"] != bad);
        response.body = products.to_string().into_bytes();
    });
    for _ in 0..3 {
        dock.later(MINUTE * 3);
        dock.run(JobKind::Balances).await;
    }
    assert_eq!(quarantined(&dock).await, []);
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE missing_since_ms IS NOT NULL").await, 1);
}

/// Each kind of wrong answer counts as a failure: a status, and a body that is no valid one.
#[tokio::test]
async fn each_kind_of_failure_is_set_aside_where_others_are_answered() {
    for status in [500, 503, 404, 422, 400, 200] {
        let (dock, rules, orders) = orders(3).await;
        let bad = orders[0];
        rules.say(Operation::GetOrderLineItems, move |request, response| {
            if request.body.as_deref() == Some(json!({"OrderId": bad}).to_string().as_bytes()) {
                fail(response, status);
                response.body = b"<html>".to_vec();
            }
        });
        dock.run(JobKind::OrderLines).await;
        assert_eq!(quarantined(&dock).await, [(LINES.into(), bad.to_string(), 1)], "{status}");
        assert!(dock.calls(LINES) <= 2 + 4, "{status}: {} calls", dock.calls(LINES));
    }
}

/// If no order is answered, none is quarantined, and few calls are spent.
#[tokio::test]
async fn of_a_sick_platform_no_order_is_set_aside() {
    let (dock, rules, _) = orders(20).await;
    rules.say(Operation::GetOrderLineItems, |_, response| fail(response, 500));
    dock.run(JobKind::OrderLines).await;
    assert_eq!(quarantined(&dock).await, []);
    assert_eq!(dock.calls(LINES), 12);
    rules.clear();
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.number("SELECT count(*) FROM sales_order").await, 20);
}

/// An answer without records about an unknown SKU proves nothing, so a SKU that fails beside it is not
/// quarantined.
#[tokio::test]
async fn of_a_platform_that_answers_with_nothing_no_sku_is_set_aside() {
    let (dock, rules) = told().await;
    let (one, two) = dock.two_skus().await;
    dock.done(&["sku", "add", &one, &two]).await;
    dock.run(JobKind::Balances).await;
    let warehouse = dock.number("SELECT min(warehouse_id) FROM stock").await;
    rules.say(Operation::GetProductBalances, |_, response| response.body = b"[]".to_vec());
    for sku in [&one, &two, "NOBODY-KNOWS-IT"] {
        dock.change(sku, "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": 1})).await;
    }
    dock.push().await;
    assert_eq!(quarantined(&dock).await, []);
    rules.clear();
    dock.later(MINUTE);
    dock.push().await;
    assert_eq!([dock.state(&one).await, dock.state(&two).await], ["applied", "applied"]);
}

/// A deleted SKU is asked for alone, because another one empties the answers to both. It is missing, and only the other
/// one is set aside.
#[tokio::test]
async fn a_deleted_product_is_not_taken_for_one_that_empties_answers() {
    for was_lacked_before in [true, false] {
        let (dock, rules) = told().await;
        let mut skus: Vec<String> =
            dock.sandbox.stock_levels().await.unwrap().into_iter().map(|row| row.sku).collect();
        skus.dedup();
        let [deleted, emptying, third, fourth] = skus.first_chunk().unwrap();
        dock.done(&["sku", "add", deleted, emptying, third, fourth]).await;
        dock.run(JobKind::Balances).await;
        let lacking = |deleted: &str| {
            let deleted = deleted.to_owned();
            move |body: &[u8]| {
                let mut records: Vec<Value> = serde_json::from_slice(body).unwrap();
                records.retain(|record| record["Sku"] != json!(deleted));
                serde_json::to_vec(&records).unwrap()
            }
        };
        if was_lacked_before {
            let lack = lacking(deleted);
            rules.say(Operation::GetProductBalances, move |_, response| response.body = lack(&response.body));
            dock.run(JobKind::Balances).await;
            dock.later(MINUTE);
            rules.clear();
        }
        let (lack, named) = (lacking(deleted), emptying.clone());
        rules.say(Operation::GetProductBalances, move |request, response| {
            let is_named = String::from_utf8_lossy(request.body.as_deref().unwrap()).contains(&named);
            response.body = if is_named { b"[]".to_vec() } else { lack(&response.body) };
        });
        for _ in 0..4 {
            dock.run(JobKind::Balances).await;
            dock.later(MINUTE);
        }
        let aside: Vec<String> = quarantined(&dock).await.into_iter().map(|(_, sku, _)| sku).collect();
        assert_eq!(aside, [emptying.as_str()]);
        let missing = "SELECT sku FROM product WHERE missing_since_ms IS NOT NULL";
        let missing: Vec<(String,)> = dock.outsider().await.rows(missing).await;
        assert_eq!(missing, [(deleted.clone(),)]);
    }
}

/// A SKU set aside for long is tried while the platform fails for every SKU. That attempt tells nothing about
/// it, so it goes with the others once the platform answers again.
#[tokio::test]
async fn a_failure_of_the_platform_keeps_no_sku_aside_for_longer() {
    let (dock, rules) = told().await;
    let (bad, other) = dock.two_skus().await;
    dock.done(&["sku", "add", &bad, &other]).await;
    dock.run(JobKind::Balances).await;
    let warehouse = dock.number("SELECT min(warehouse_id) FROM stock").await;
    let adjust = |sku: &str| json!({"sku": sku, "warehouse_id": warehouse, "delta": 1});
    let named = bad.clone();
    rules.say(Operation::GetProductBalances, move |request, response| {
        if String::from_utf8_lossy(request.body.as_deref().unwrap()).contains(&named) {
            fail(response, 500);
        }
    });
    dock.change(&bad, "quantity.adjust", adjust(&bad)).await;
    for _ in 0..9 {
        dock.run(JobKind::Balances).await;
        dock.push().await;
        dock.later(MINUTE * 31);
    }
    dock.run(JobKind::Balances).await;
    let aside = quarantined(&dock).await;
    assert!(matches!(&aside[..], [(_, sku, failures)] if *sku == bad && *failures > 6), "{aside:?}");

    rules.clear();
    rules.say(Operation::GetProductBalances, |_, response| fail(response, 500));
    dock.change(&other, "quantity.adjust", adjust(&other)).await;
    dock.push().await;
    dock.later(MINUTE * 31);
    dock.push().await;
    assert_eq!(quarantined(&dock).await, aside, "nothing else is answered either");
    rules.clear();
    dock.later(MINUTE * 2);
    dock.push().await;
    assert_eq!([dock.state(&bad).await, dock.state(&other).await], ["applied", "applied"]);
}

/// The platform fails in the middle of a pass: the answers before that do not count against any order.
#[tokio::test]
async fn of_a_platform_that_fails_amid_a_pass_no_order_is_set_aside() {
    let (dock, rules, orders) = orders(6).await;
    orders[..3].iter().for_each(|order| rules.fail_order(*order));
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.number("SELECT count(*) FROM sales_order").await, 3);
    assert_eq!(quarantined(&dock).await, []);
    rules.clear();
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.number("SELECT count(*) FROM sales_order").await, 6);
}

/// The log reports an order as it reports a SKU.
#[tokio::test]
async fn the_log_tells_when_an_order_is_set_aside_and_when_it_is_taken_back() {
    let (dock, rules, orders) = orders(3).await;
    let (bad, path) = (orders[1], dock.path().with_file_name("log"));
    let log = tracing_subscriber::fmt().with_writer(Arc::new(std::fs::File::create(&path).unwrap()));
    // While a process has a single subscriber, the thread that first meets an event decides for all if it is
    // wanted. Threads of other tests have no subscriber, and the event would be lost.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let _told = tracing::subscriber::set_default(log.with_ansi(false).finish());
    rules.fail_order(bad);
    dock.run(JobKind::OrderLines).await;
    rules.clear();
    dock.later(MINUTE);
    dock.run(JobKind::OrderLines).await;
    let log = std::fs::read_to_string(&path).unwrap();
    for event in ["entry.set_aside", "entry.taken_back"] {
        let answer = log.lines().filter(|line| line.contains(&format!("event=\"{event}\"")));
        let answer: Vec<&str> = answer.collect();
        assert!(matches!(answer[..], [line] if line.contains(&format!("entry=\"{bad}\""))), "{event}: {log}");
    }
}

#[tokio::test]
async fn an_allocation_that_always_fails_keeps_no_other_waiting() {
    let (dock, rules, orders) = orders(4).await;
    let bad = format!("/api/orders/{}/", orders[0]);
    rules.say(Operation::WarehouseAllocation, move |request, response| {
        if request.path.starts_with(&bad) {
            fail(response, 500);
        }
    });
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.number("SELECT count(*) FROM allocation_read").await, 3);
    assert_eq!(dock.calls(ALLOCATION), 3 + 4);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(dock.calls(ALLOCATION), 3 + 4, "set aside");
}

#[tokio::test]
async fn a_shipment_that_always_fails_keeps_no_other_waiting() {
    let (dock, rules, orders) = orders(3).await;
    for order in &orders {
        dock.change(&format!("ship {order}"), "shipment.create", json!({ "order_id": order })).await;
    }
    dock.push().await;
    let bad = dock.made(&format!("ship {}", orders[0])).await;
    rules.say(Operation::ShipmentLineItems, move |request, response| {
        if request.path.starts_with(&format!("/api/Shipments/{bad}/")) {
            fail(response, 500);
        }
    });
    dock.run(JobKind::Shipments).await;
    assert_eq!(dock.calls(ITEMS), 2 + 4);
    assert_eq!(quarantined(&dock).await, [(ITEMS.into(), bad.to_string(), 1)]);
    dock.run(JobKind::Shipments).await;
    assert_eq!(dock.calls(ITEMS), 4 + 4, "set aside");
}

/// Returns the index of the call that read the order, from 1.
async fn place(dock: &Dock, order: i64) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM exchange WHERE operation = '{LINES}' \
         AND id <= (SELECT exchange_id FROM sales_order WHERE id = {order})"
    );
    dock.number(&sql).await
}

/// An order that is tracked during a pass is read within a few calls.
///
/// A person who tracks an order during an import of hundreds needs to know what to pick.
#[tokio::test]
async fn an_order_that_is_tracked_during_a_pass_is_known_within_a_few_calls() {
    let (dock, rules, orders) = orders(150).await;
    let (sku, _) = dock.two_skus().await;
    let late = dock.sandbox.place_order(&[(&sku, 3)]).await.unwrap();
    let (under_way, seen) = (Arc::new(Notify::new()), AtomicUsize::new(0));
    let tell = Arc::clone(&under_way);
    rules.say(Operation::GetOrderLineItems, move |_, _| {
        if seen.fetch_add(1, Ordering::SeqCst) == 40 {
            tell.notify_one();
        }
    });
    let track = async {
        under_way.notified().await;
        dock.track_orders(&[late]).await;
        i64::try_from(dock.calls(LINES)).unwrap()
    };
    let (_, then) = tokio::join!(dock.run(JobKind::OrderLines), track);
    let place = place(&dock, late).await;
    assert!(
        place <= then + 3 && then < 140,
        "tracked at call {then}, it was call {place} of {}",
        orders.len()
    );
    assert_eq!(dock.number("SELECT count(*) FROM sales_order").await, 151);
}

/// A pass over hundreds of new orders also reads open orders and allocations before its end.
#[tokio::test]
async fn what_is_open_and_allocations_take_turns_with_an_import() {
    let (dock, _, orders) = orders(20).await;
    dock.run(JobKind::OrderLines).await;
    let (sku, _) = dock.two_skus().await;
    for _ in 0..60 {
        let order = dock.sandbox.place_order(&[(&sku, 1)]).await.unwrap();
        dock.track_orders(&[order]).await;
    }
    let before = i64::try_from(dock.calls(LINES)).unwrap();
    dock.run(JobKind::OrderLines).await;
    for order in orders {
        let place = place(&dock, order).await - before;
        assert!(place <= 2 * 20, "an open order was call {place} of 80");
    }
    let allocations = format!(
        "SELECT count(*) FROM exchange WHERE operation = '{ALLOCATION}' AND id < \
         (SELECT max(id) FROM exchange WHERE operation = '{LINES}')"
    );
    assert!(dock.number(&allocations).await >= 20 + 50);
}

/// Between the passes, the daemon notices a tracked order at once.
#[tokio::test]
async fn an_order_that_is_tracked_beside_an_idle_daemon_is_read_at_once() {
    let (mut dock, rules, first) = orders(2).await;
    let (sku, _) = dock.two_skus().await;
    let asked: Arc<Mutex<Vec<i64>>> = Arc::default();
    let noted = Arc::clone(&asked);
    rules.say(Operation::GetOrderLineItems, move |request, _| {
        let body: Value = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
        noted.lock().unwrap().push(whole(&body["OrderId"]));
    });
    let _work = dock.work();
    dock.until_number("SELECT count(*) FROM sales_order", 2).await;
    for (n, by_hand) in [(3, true), (4, false), (5, true)] {
        let order = dock.sandbox.place_order(&[(&sku, 1)]).await.unwrap();
        let before = asked.lock().unwrap().len();
        if by_hand {
            dock.done(&["order", "track", &order.to_string()]).await;
        } else {
            dock.track_orders(&[order]).await;
        }
        dock.until_number("SELECT count(*) FROM sales_order", n).await;
        // A pass may ask for another order while this one is tracked, and for the next before it is noticed.
        let asked = asked.lock().unwrap()[before..].to_vec();
        assert!(asked.iter().take(3).any(|id| *id == order), "{order} is read behind others: {asked:?}");
    }
    let calls = dock.calls(LINES);
    // It notices an order that is tracked again, too.
    dock.done(&["order", "track", &first[0].to_string()]).await;
    dock.until_number("SELECT count(*) FROM order_read_request", 0).await;
    assert!(dock.calls(LINES) > calls);
}

/// An import beside an idle daemon is read completely: more orders than are read at a time, and one order
/// more.
#[tokio::test]
async fn an_import_beside_an_idle_daemon_is_read_whole() {
    let (mut dock, _, _) = orders(1).await;
    let (sku, _) = dock.two_skus().await;
    let mut orders = Vec::new();
    for _ in 0..70 {
        orders.push(dock.sandbox.place_order(&[(&sku, 1)]).await.unwrap());
    }
    let late = orders.pop().unwrap();
    let _work = dock.work();
    dock.until_number("SELECT count(*) FROM sales_order", 1).await;
    dock.track_orders(&orders).await;
    dock.until_number("SELECT count(*) FROM (SELECT 1 FROM sales_order LIMIT 10) AS first", 10).await;
    dock.track_orders(&[late]).await;
    dock.until_number("SELECT count(*) FROM sales_order", 71).await;
    let place = place(&dock, late).await;
    assert!(place < 60, "the one that was tracked last was call {place} of 71");
}
