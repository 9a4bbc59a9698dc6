//! Existing orders, lines and warehouses that answers leave out.
//!
//! No change is rejected for that. A person is informed, and the change goes on by itself once an answer
//! shows the missing record.

use crate::delivery::sick::{Instead, NO_LINES, Sick, sent};
use crate::delivery::support::{Dock, SHIP, whole};
use serde_json::json;
use std::time::Duration;
use tallyd::model::{JobKind, Operation};
use tallyd::reconcile::proof::ABSENCE_CHECKS_APART;

const MINUTES: Duration = Duration::from_secs(ABSENCE_CHECKS_APART.as_secs() + 10);

/// Runs settle and the push after it.
async fn by_itself(dock: &Dock) {
    dock.settle().await;
    dock.push().await;
}

async fn stands(dock: &Dock, key: &str) -> (String, String) {
    (dock.state(key).await, dock.reason(key).await)
}

#[tokio::test]
async fn an_order_that_answers_leave_out_is_held_and_goes_on_by_itself() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.change("t", "tracking.submit", json!({"shipment_key": "s", "tracking_number": "1Z"})).await;
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(200, NO_LINES));
    dock.push().await;
    assert_eq!(stands(&dock, "s").await, ("held".into(), "not_shown".into()));
    let looks = sent(&dock, Operation::GetOrderLineItems).await;
    for _ in 0..3 {
        by_itself(&dock).await;
    }
    assert_eq!(sent(&dock, Operation::GetOrderLineItems).await, looks, "it is not due yet");
    dock.later(MINUTES);
    by_itself(&dock).await;
    assert_eq!(stands(&dock, "s").await, ("held".into(), "not_shown".into()));
    assert_eq!(sent(&dock, Operation::GetOrderLineItems).await, looks + 1);
    sick.is_well();
    dock.later(MINUTES / 2);
    by_itself(&dock).await;
    assert_eq!(dock.state("s").await, "held", "it is asked for less and less often");
    dock.later(MINUTES);
    by_itself(&dock).await;
    assert_eq!((dock.state("s").await, dock.state("t").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.calls(SHIP), 1);
}

#[tokio::test]
async fn a_person_has_an_order_looked_at_at_once() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(200, NO_LINES));
    dock.push().await;
    sick.is_well();
    let mut write = dock.daemon().context().store.begin_write(tallyd::store::Durability::Full).await.unwrap();
    let now = dock.daemon().context().clock.now();
    write.outbox_retry("s", now).await.unwrap().unwrap();
    write.commit().await.unwrap();
    dock.push().await;
    assert_eq!(dock.state("s").await, "applied", "{:?}", dock.fate("s").await);
}

#[tokio::test]
async fn a_line_that_answers_leave_out_is_held_and_goes_on_by_itself() {
    let (dock, sick) = Sick::dock().await;
    let (a, b) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 1), (&b, 1)]).await;
    let body = json!({"order_id": order, "lines": [{"line_item_id": lines[1], "quantity": 1}]});
    dock.change("s", "shipment.create", body).await;
    let one = json!({"status": "Success", "messages": [], "pagination": null,
        "data": [{"OrderLineItemId": lines[0], "QuantitySold": 1, "QuantityNotTiedToShipment": 1}]});
    let one: &'static str = one.to_string().leak();
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(200, one));
    dock.push().await;
    assert_eq!(stands(&dock, "s").await, ("held".into(), "not_shown".into()));
    sick.is_well();
    dock.later(2 * MINUTES);
    by_itself(&dock).await;
    assert_eq!(dock.state("s").await, "applied", "{:?}", dock.fate("s").await);
}

#[tokio::test]
async fn an_order_that_is_refused_to_be_shown_is_held_and_goes_on_by_itself() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(404, ""));
    dock.push().await;
    assert_eq!(stands(&dock, "s").await, ("held".into(), "not_shown".into()));
    sick.is_well();
    dock.later(10 * MINUTES);
    by_itself(&dock).await;
    assert_eq!(dock.state("s").await, "applied", "{:?}", dock.fate("s").await);
}

/// Returns an answer that holds one line twice: with the units left as given, and with the second number.
fn twice(line: i64, left: i64, again: i64) -> Instead {
    let record = |left: i64| json!({"OrderLineItemId": line, "QuantitySold": 20, "QuantityNotTiedToShipment": left, "SkuNumber": "A"});
    let said = json!({"status": "Success", "messages": [], "pagination": null,
        "data": [record(left), record(again)]});
    Instead::Answer(200, said.to_string().leak())
}

#[tokio::test]
async fn a_line_that_stands_twice_and_differs_ships_nothing_and_what_agrees_is_one() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&sku, 2)]).await;
    let (other, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.change("other", "shipment.create", json!({"order_id": other})).await;
    sick.times(Operation::GetOrderLineItems, &twice(lines[0], 2, 9), 1);
    dock.push().await;
    assert_eq!(dock.state("s").await, "pending", "{:?}", dock.fate("s").await);
    assert_eq!(dock.state("other").await, "applied", "its call is not spoilt");
    sick.times(Operation::GetOrderLineItems, &twice(lines[0], 2, 2), 1);
    dock.later(MINUTES);
    dock.push().await;
    assert_eq!(dock.state("s").await, "applied", "{:?}", dock.fate("s").await);
    let items = dock.items(dock.made("s").await).await;
    assert_eq!((items.len(), items[0]["QuantityShipped"].as_f64()), (1, Some(2.0)));
}

#[tokio::test]
async fn all_that_is_left_is_not_shipped_or_told_on_an_answer_that_lacks_a_part() {
    let (dock, sick) = Sick::dock().await;
    let (a, b) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 1), (&b, 1)]).await;
    dock.done(&["order", "track", &order.to_string()]).await;
    dock.run(JobKind::OrderLines).await;
    let part = |id: i64| {
        let said = json!({"status": "Success", "messages": [], "pagination": null, "data": [
            {"OrderLineItemId": id, "Id": id, "QuantityShipped": 1, "QuantitySold": 1,
             "QuantityNotTiedToShipment": 1}]});
        Instead::Answer(200, said.to_string().leak())
    };
    sick.answers(Operation::GetOrderLineItems, &part(lines[0]));
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!(stands(&dock, "s").await, ("held".into(), "not_shown".into()));
    sick.is_well();
    dock.later(MINUTES);
    by_itself(&dock).await;
    assert_eq!(dock.state("s").await, "applied", "{:?}", dock.fate("s").await);
    let items = dock.items(dock.made("s").await).await;
    assert_eq!(items.len(), 2, "both lines went");
    sick.answers(Operation::ShipmentLineItems, &part(whole(&items[0]["Id"])));
    dock.change("t", "tracking.submit", json!({"shipment_key": "s", "tracking_number": "1Z"})).await;
    dock.push().await;
    assert_eq!(stands(&dock, "t").await, ("held".into(), "not_shown".into()));
    sick.is_well();
    dock.later(2 * MINUTES);
    by_itself(&dock).await;
    assert_eq!(dock.state("t").await, "applied", "{:?}", dock.fate("t").await);
    let items = dock.items(dock.made("s").await).await;
    assert!(items.iter().all(|item| item["TrackingNumber"] == "1Z"), "{items:?}");
}
