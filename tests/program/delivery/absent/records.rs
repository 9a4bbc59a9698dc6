//! Records that an answer lacks.
//!
//! A record is absent only if two checks minutes apart lack it while the platform is well.

use crate::delivery::sick::{Instead, NO_LINES, Sick, adjust, levels, sent};
use crate::delivery::support::{LINES, SHIP};
use serde_json::json;
use std::time::Duration;
use tallyd::model::Operation;
use tallyd::reconcile::proof::ABSENCE_CHECKS_APART;

/// Longer than the distance of two checks that prove an absence, with the duration of a check.
const MINUTES: Duration = Duration::from_secs(ABSENCE_CHECKS_APART.as_secs() + 10);

#[tokio::test]
async fn an_order_without_lines_is_held_and_asked_for_again() {
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
        assert_eq!((dock.state(key).await, dock.reason(key).await), ("held".into(), "not_shown".into()));
    }
    assert_eq!(sent(&dock, Operation::GetOrderLineItems).await, 2, "one look each, and no more at once");
    sick.is_well();
    dock.later(MINUTES);
    dock.settle().await;
    dock.push().await;
    assert_eq!(dock.state("there").await, "applied");
    assert_eq!((dock.state("none").await, dock.reason("none").await), ("held".into(), "not_shown".into()));
    assert_eq!(dock.calls(SHIP), 1);
}

#[tokio::test]
async fn what_is_refused_to_be_shown_is_held_and_asked_for_again() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    let (other, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("one", "shipment.create", json!({"order_id": order})).await;
    dock.change("two", "shipment.create", json!({"order_id": other})).await;
    sick.answers(Operation::GetOrderLineItems, &Instead::Answer(404, ""));
    dock.push().await;
    for key in ["one", "two"] {
        assert_eq!((dock.state(key).await, dock.reason(key).await), ("held".into(), "not_shown".into()));
    }
    dock.later(MINUTES);
    sick.times(Operation::GetOrderLineItems, &Instead::Answer(404, ""), 1);
    dock.settle().await;
    dock.push().await;
    assert_eq!((dock.state("one").await, dock.reason("one").await), ("held".into(), "not_shown".into()));
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
    assert_eq!(dock.reason("t").await, "not_shown", "{:?}", dock.fate("t").await);
    sick.is_well();
    dock.later(MINUTES);
    dock.settle().await;
    dock.push().await;
    assert_eq!(dock.state("t").await, "applied");
}

/// Whether a warehouse exists is the platform's word: it refuses the count, and no list decides.
#[tokio::test]
async fn a_count_for_an_unknown_warehouse_is_refused_by_the_platform_and_an_adjust_is_held() {
    let (dock, _) = Sick::dock().await;
    let levels = levels(&dock, 2).await;
    adjust(&dock, "adjust", &(levels[0].0.clone(), 999_999, 0)).await;
    let count = json!({"sku": levels[1].0, "warehouse_id": 999_999, "quantity": 3});
    dock.change("count", "quantity.set", count).await;
    dock.push().await;
    let (state, reason, detail) = dock.fate("adjust").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "not_shown"));
    assert!(detail.contains("has no link"), "{detail}");
    let (state, reason, detail) = dock.fate("count").await;
    assert_eq!((state.as_str(), reason.as_str()), ("rejected", "service_refused"));
    assert!(detail.contains("in no warehouse with the id 999999"), "{detail}");
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
