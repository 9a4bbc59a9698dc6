//! Shipments: their requests, their rejections, and one order at a time.

use super::gate::{Leaving, gated};
use super::support::{Dock, LINES, SHIP, whole};
use serde_json::json;
use std::time::Duration;
use tallyd::model::Operation;

#[tokio::test]
async fn an_order_is_shipped_with_its_lines_and_quantities_named() {
    let dock = Dock::open().await;
    let (a, b) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 5), (&b, 2)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!(dock.state("s").await, "applied");
    assert_eq!(dock.left(order).await, [0, 0]);
    let shipment = dock.made("s").await;
    let items = dock.items(shipment).await;
    let shown: Vec<(i64, i64)> =
        items.iter().map(|item| (whole(&item["OrderLineItemId"]), whole(&item["QuantityShipped"]))).collect();
    assert_eq!(shown, [(lines[0], 5), (lines[1], 2)]);
    let mirrored =
        format!("SELECT CAST(sum(quantity) AS BIGINT) FROM shipment_item WHERE shipment_id = {shipment}");
    assert_eq!(dock.number(&mirrored).await, 7);
    assert_eq!(dock.number("SELECT order_id FROM shipment").await, order);
    assert_eq!(dock.number("SELECT count(*) FROM order_line").await, 2, "the look before is a fact like any");
}

#[tokio::test]
async fn an_order_goes_in_several_parcels_one_after_the_other() {
    let dock = Dock::open().await;
    let (a, b) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 5), (&b, 2)]).await;
    let first = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 3}]});
    dock.change("first", "shipment.create", first).await;
    dock.change("rest", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!((dock.state("first").await, dock.state("rest").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.left(order).await, [0, 0]);
    assert_ne!(dock.made("first").await, dock.made("rest").await);
    assert_eq!(dock.calls(SHIP), 2, "an order once a call");
    let rest = dock.items(dock.made("rest").await).await;
    assert_eq!(rest.iter().map(|item| whole(&item["QuantityShipped"])).collect::<Vec<_>>(), [2, 2]);
}

#[tokio::test]
async fn several_orders_share_a_call_and_one_that_cannot_be_shipped_spoils_nothing() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let mut orders = Vec::new();
    for n in 0..4 {
        let (order, _) = dock.order(&[(&a, 1)]).await;
        dock.change(&format!("s{n}"), "shipment.create", json!({"order_id": order})).await;
        orders.push(order);
    }
    let (elsewhere, foreign) = dock.order(&[(&a, 1)]).await;
    dock.change("elsewhere", "shipment.create", json!({"order_id": elsewhere})).await;
    dock.change("unknown", "shipment.create", json!({"order_id": 999_999})).await;
    let body = json!({"order_id": orders[0], "lines": [{"line_item_id": foreign[0]}]});
    dock.change("foreign", "shipment.create", body).await;
    dock.push().await;
    for n in 0..4 {
        assert_eq!(dock.state(&format!("s{n}")).await, "applied");
    }
    assert_eq!(dock.calls(SHIP), 1);
    // An answer that lacks an order or a line proves nothing, so the change waits for another one or a person.
    for key in ["unknown", "foreign"] {
        assert_eq!(
            (dock.state(key).await, dock.reason(key).await),
            ("held".into(), "not_shown".into()),
            "{key}"
        );
    }
}

#[tokio::test]
async fn more_than_is_left_is_held_and_never_sent() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 2)]).await;
    let body = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 3}]});
    dock.change("many", "shipment.create", body).await;
    dock.push().await;
    let (state, reason, detail) = dock.fate("many").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "too_little_left"));
    assert!(detail.contains("3 are to be shipped and 2 are left"), "{detail}");
    assert_eq!(dock.calls(SHIP), 0);
}

#[tokio::test]
async fn the_services_refusal_rejects_that_change_with_its_words() {
    let (dock, mut gate) = gated().await;
    let (a, _) = dock.two_skus().await;
    let (good, _) = dock.order(&[(&a, 1)]).await;
    let (gone, lines) = dock.order(&[(&a, 1)]).await;
    dock.change("good", "shipment.create", json!({"order_id": good})).await;
    dock.change("gone", "shipment.create", json!({"order_id": gone})).await;
    // A person ships the second order between the preflight and the call.
    gate.close();
    let (_, ()) = tokio::join!(dock.push(), async {
        let ours = gate.leaving_to(Operation::CreateShipments).await;
        let body = json!([{"OrderId": gone, "LineItems": [{"LineItemId": lines[0], "Quantity": 1}]}]);
        dock.request("POST", "/api/Shipments/Create", &body.to_string()).await;
        gate.open();
        ours.go();
    });
    assert_eq!(dock.state("good").await, "applied");
    let (state, reason, detail) = dock.fate("gone").await;
    assert_eq!((state.as_str(), reason.as_str()), ("rejected", "service_refused"));
    assert!(detail.contains("0 are not tied to a shipment"), "{detail}");
}

#[tokio::test]
async fn a_refused_call_is_sent_again_one_by_one() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    for n in 0..3 {
        let (order, _) = dock.order(&[(&a, 1)]).await;
        dock.change(&format!("s{n}"), "shipment.create", json!({"order_id": order})).await;
    }
    dock.fault(SHIP, json!({"Status": 400, "Times": 3})).await;
    dock.push().await;
    let mut states = Vec::new();
    for n in 0..3 {
        states.push(dock.state(&format!("s{n}")).await);
    }
    states.sort();
    assert_eq!(
        states,
        ["applied", "applied", "rejected"],
        "alone it was refused twice, the key being proved in between"
    );
}

#[tokio::test]
async fn what_was_throttled_or_never_left_is_sent_once_it_can_be() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&a, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.fault(SHIP, json!({"Status": 429, "RetryAfter": 1})).await;
    dock.push().await;
    assert_eq!(dock.state("s").await, "applied");
    assert_eq!((dock.calls(SHIP), dock.calls(LINES)), (2, 3), "a retry is a new plan, from a look made anew");
}

/// A recount of a large account takes half an hour of the quota; shipments are sent meanwhile.
#[tokio::test]
async fn a_parcel_does_not_wait_behind_a_backlog_of_counts() {
    let (dock, mut gate) = gated().await;
    let (a, _) = dock.two_skus().await;
    let (early, _) = dock.order(&[(&a, 1)]).await;
    let (late, _) = dock.order(&[(&a, 1)]).await;
    for level in dock.sandbox.stock_levels().await.unwrap() {
        let body = json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "delta": 1});
        dock.change(&format!("{} {}", level.sku, level.warehouse_id), "quantity.adjust", body).await;
    }
    dock.change("early", "shipment.create", json!({"order_id": early})).await;
    gate.close();
    let parcels = async {
        let mut updates = Vec::new();
        for key in ["early", "late"] {
            let parcel = loop {
                let watched = [Operation::UpdateQuantityOnHand, Operation::CreateShipments];
                let leaving = gate.leaving_to_any(&watched).await;
                if leaving.operation == Operation::CreateShipments {
                    break leaving;
                }
                updates.push(leaving);
            };
            assert_eq!(dock.state(key).await, "sending");
            parcel.go();
            if key == "early" {
                dock.change("late", "shipment.create", json!({"order_id": late})).await;
                dock.daemon().context().notify_changes();
            }
        }
        gate.open();
        updates.into_iter().for_each(Leaving::go);
    };
    let all = async { tokio::join!(dock.push(), parcels) };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("the parcels wait for the counts");
    for key in ["early", "late"] {
        assert_eq!(dock.state(key).await, "applied", "{key}");
    }
    assert_eq!(dock.number("SELECT count(*) FROM outbox WHERE state <> 'applied'").await, 0);
}
