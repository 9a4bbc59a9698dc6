//! Records that an answer lacks.
//!
//! A record is absent only if two checks minutes apart lack it while the platform is well.

use crate::delivery::sick::{Instead, NO_LINES, NOT_KNOWN, Sick, adjust, levels, sent};
use crate::delivery::support::{LINES, LONG, SHIP};
use serde_json::json;
use std::time::Duration;
use tallyd::model::{JobKind, Operation};
use tallyd::reconcile::proof::ABSENCE_CHECKS_APART;

/// Longer than the distance of two checks that prove an absence, with the duration of a check.
const MINUTES: Duration = Duration::from_secs(ABSENCE_CHECKS_APART.as_secs() + 10);

#[tokio::test]
async fn an_order_without_lines_is_unknown_only_after_two_looks_minutes_apart() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("there", "shipment.create", json!({"order_id": order})).await;
    dock.change("none", "shipment.create", json!({"order_id": 999_999})).await;
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(200, NO_LINES));
    for _ in 0..3 {
        dock.push().await;
    }
    for key in ["there", "none"] {
        assert_eq!((dock.state(key).await, dock.reason(key).await), ("pending".into(), "unproved".into()));
    }
    assert_eq!(sent(&dock, Operation::GetOrderLineItems).await, 2, "one look each, and no more at once");
    sick.is_well();
    dock.later(MINUTES);
    dock.push().await;
    assert_eq!(dock.state("there").await, "applied");
    assert_eq!(
        (dock.state("none").await, dock.reason("none").await),
        ("held".into(), "unknown_order".into())
    );
    assert_eq!(dock.calls(SHIP), 1);
}

#[tokio::test]
async fn an_absence_while_the_key_cannot_be_proved_is_no_look() {
    let (dock, sick) = Sick::dock().await;
    sick.answers(Operation::WorkQueue, &NOT_KNOWN[0]);
    dock.change("none", "shipment.create", json!({"order_id": 999_999})).await;
    for _ in 0..3 {
        dock.push().await;
        dock.later(LONG);
    }
    assert_eq!(dock.state("none").await, "pending");
    sick.is_well();
    dock.later(LONG * 3);
    dock.push().await;
    assert_eq!(dock.state("none").await, "pending", "that was the first look that counts");
    dock.later(LONG * 3);
    dock.push().await;
    assert_eq!(dock.fate("none").await.1, "unknown_order");
}

#[tokio::test]
async fn what_is_refused_to_be_shown_is_held_only_minutes_later() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    let (other, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("one", "shipment.create", json!({"order_id": order})).await;
    dock.change("two", "shipment.create", json!({"order_id": other})).await;
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(404, ""));
    dock.push().await;
    assert_eq!((dock.state("one").await, dock.state("two").await), ("pending".into(), "pending".into()));
    dock.later(MINUTES);
    sick.times(Operation::GetOrderLineItems, &Instead::Answer(404, ""), 1);
    dock.push().await;
    assert_eq!(
        (dock.state("one").await, dock.reason("one").await),
        ("held".into(), "service_refused".into())
    );
    assert_eq!(dock.state("two").await, "applied");
    assert_eq!(dock.calls(LINES), 3, "two by the test, one by the push");
}

#[tokio::test]
async fn an_order_of_which_a_line_cannot_be_read_waits_for_a_better_answer() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    let half = r#"{"status":"Success","messages":[],"pagination":null,"data":[{"OrderLineItemId":"x"}]}"#;
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(200, half));
    dock.push().await;
    assert_eq!(dock.state("s").await, "pending", "{:?}", dock.fate("s").await);
    sick.is_well();
    dock.push().await;
    assert_eq!(dock.state("s").await, "applied");
}

#[tokio::test]
async fn a_shipment_without_items_waits_for_a_better_answer() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    let shipment = dock.made("s").await;
    sick.answers(Operation::ShipmentLineItems, &Instead::Answer(200, NO_LINES));
    dock.change("t", "tracking.submit", json!({"shipment_id": shipment, "tracking_number": "1Z"})).await;
    dock.push().await;
    assert_eq!(dock.state("t").await, "pending", "{:?}", dock.fate("t").await);
    sick.is_well();
    dock.later(MINUTES);
    dock.push().await;
    assert_eq!(dock.state("t").await, "applied");
}

#[tokio::test]
async fn a_warehouse_is_unknown_only_if_two_lists_minutes_apart_lack_it() {
    let (dock, sick) = Sick::dock().await;
    let levels = levels(&dock, 3).await;
    let elsewhere = |warehouse: i64| (levels[0].0.clone(), warehouse, 0);
    adjust(&dock, "before", &elsewhere(999_999)).await;
    sick.answers(Operation::ListWarehouses, &Instead::Answer(200, NO_LINES));
    for _ in 0..3 {
        dock.push().await;
    }
    assert_eq!(
        (dock.state("before").await, dock.reason("before").await),
        ("pending".into(), "unproved".into())
    );
    sick.is_well();
    dock.later(LONG);
    dock.push().await;
    assert_eq!(dock.state("before").await, "pending", "that list is the first");
    adjust(&dock, "other", &levels[1]).await;
    dock.push().await;
    assert_eq!(dock.state("other").await, "applied", "nobody waits for it");
    dock.later(MINUTES);
    dock.push().await;
    assert_eq!(dock.fate("before").await.1, "unknown_warehouse");
    let lists = sent(&dock, Operation::ListWarehouses).await;
    for n in 0..5 {
        adjust(&dock, &format!("after{n}"), &elsewhere(999_999)).await;
        dock.push().await;
    }
    assert!(sent(&dock, Operation::ListWarehouses).await <= lists + 1, "a program that errs costs few calls");
    dock.later(MINUTES);
    dock.push().await;
    assert_eq!(dock.fate("after4").await.1, "unknown_warehouse");
}

#[tokio::test]
async fn a_warehouse_that_was_made_since_the_last_list_is_found() {
    let (dock, sick) = Sick::dock().await;
    let warehouse = dock.number("SELECT max(id) FROM warehouse").await;
    let one = r#"{"status":"Success","messages":[],"pagination":null,"data":[{"Id":5201,"Name":"Main"}]}"#;
    sick.answers(Operation::ListWarehouses, &Instead::Answer(200, one));
    dock.run(JobKind::Warehouses).await;
    sick.is_well();
    let unlinked = r#"[{"Id":1,"Sku":"FAR-1","QuantityOnHand":0,"UPC":null,"Warehouses":[]}]"#;
    sick.answers(Operation::GetProductBalances, &Instead::Answer(200, unlinked));
    let lists = sent(&dock, Operation::ListWarehouses).await;
    dock.change("q", "quantity.set", json!({"sku": "FAR-1", "warehouse_id": warehouse, "quantity": 3})).await;
    dock.push().await;
    assert_eq!(sent(&dock, Operation::ListWarehouses).await, lists + 1);
    assert_eq!(sent(&dock, Operation::UpdateQuantityOnHand).await, 1, "{:?}", dock.fate("q").await);
}

#[tokio::test]
async fn an_update_of_a_product_that_one_answer_lacks_waits() {
    let (dock, sick) = Sick::dock().await;
    let made = crate::delivery::creates::product(&dock, "UPD-9").await;
    sick.answers(Operation::GetProductBalances, &Instead::Answer(200, "[]"));
    dock.change("u", "product.update", crate::delivery::creates::update_of(&made, "After")).await;
    dock.push().await;
    assert_ne!(dock.state("u").await, "rejected", "{:?}", dock.fate("u").await);
    sick.is_well();
    // The daemon checks again by itself; here the test runs settle.
    dock.later(MINUTES);
    dock.settle().await;
    dock.push().await;
    assert_eq!(dock.state("u").await, "applied", "{:?}", dock.fate("u").await);
}
