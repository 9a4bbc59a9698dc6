//! Tracking numbers: judged by item, with their lines always named, and never before their shipment exists.

use super::support::{Dock, TRACK, whole};
use serde_json::{Value, json};

/// Returns the number of each item of a shipment.
async fn numbers(dock: &Dock, shipment: i64) -> Vec<Option<String>> {
    let number = |item: &Value| item["TrackingNumber"].as_str().filter(|n| !n.is_empty()).map(str::to_owned);
    dock.items(shipment).await.iter().map(number).collect()
}

fn some(numbers: &[&str]) -> Vec<Option<String>> {
    numbers.iter().map(|number| (!number.is_empty()).then(|| (*number).to_owned())).collect()
}

#[tokio::test]
async fn a_tracking_follows_its_shipment_in_the_same_push() {
    let dock = Dock::open().await;
    let (a, b) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 5), (&b, 2)]).await;
    let body = json!({"shipment_key": "s", "carrier_id": 3, "tracking_number": "T-1", "lines": [
        {"line_item_id": lines[0]}, {"line_item_id": lines[1], "tracking_number": "T-2"}]});
    dock.change("t", "tracking.submit", body).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    assert_eq!(dock.state("t").await, "applied");
    let shipment = dock.made("s").await;
    assert_eq!(numbers(&dock, shipment).await, some(&["T-1", "T-2"]));
    let items = dock.items(shipment).await;
    assert!(items.iter().all(|item| whole(&item["CompanyCarrier"]["Id"]) == 3), "{items:?}");
}

#[tokio::test]
async fn a_tracking_without_its_shipment_waits_and_makes_no_call() {
    let dock = Dock::open().await;
    dock.change("t", "tracking.submit", json!({"shipment_key": "later", "tracking_number": "T"})).await;
    let before = dock.sandbox.logged_calls().len();
    for _ in 0..3 {
        dock.push().await;
    }
    assert_eq!(dock.sandbox.logged_calls().len(), before);
    assert_eq!((dock.state("t").await, dock.reason("t").await), ("pending".into(), "awaits_other".into()));
}

#[tokio::test]
async fn a_rejected_or_cancelled_shipment_rejects_its_tracking() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 1)]).await;
    let (elsewhere, foreign) = dock.order(&[(&a, 1)]).await;
    let (other, _) = dock.order(&[(&a, 1)]).await;
    dock.change("elsewhere", "shipment.create", json!({"order_id": elsewhere})).await;
    let wrong = json!({"order_id": other, "lines": [{"line_item_id": foreign[0]}]});
    dock.change("wrong", "shipment.create", wrong).await;
    dock.change("t1", "tracking.submit", json!({"shipment_key": "wrong", "tracking_number": "T"})).await;
    let many = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 9}]});
    dock.change("many", "shipment.create", many).await;
    dock.change("t2", "tracking.submit", json!({"shipment_key": "many", "tracking_number": "T"})).await;
    dock.change("t3", "tracking.submit", json!({"shipment_key": "t1", "tracking_number": "T"})).await;
    dock.push().await;
    for key in ["t1", "t2"] {
        assert_eq!(dock.reason(key).await, "awaits_other", "{key}: its shipment is held");
    }
    assert_eq!(dock.fate("t3").await.1, "no_shipment", "a tracking makes no shipment");
    let mut write = dock.daemon().context().store.begin_write(tallyd::store::Durability::Full).await.unwrap();
    for key in ["wrong", "many"] {
        assert!(write.outbox_cancel(key, tallyd::model::Timestamp(0)).await.unwrap().is_ok());
    }
    write.commit().await.unwrap();
    dock.push().await;
    for key in ["t1", "t2"] {
        assert_eq!(dock.fate(key).await.1, "no_shipment", "{key}");
    }
    assert_eq!(dock.calls(TRACK), 0);
}

#[tokio::test]
async fn a_second_tracking_keeps_the_firsts_number() {
    let dock = Dock::open().await;
    let (a, b) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&a, 5), (&b, 2)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    let shipment = dock.made("s").await;
    let items = dock.items(shipment).await;
    let first = json!({"shipment_id": shipment, "tracking_number": "ONE",
                       "lines": [{"line_item_id": whole(&items[0]["Id"])}]});
    dock.change("first", "tracking.submit", first).await;
    dock.change("second", "tracking.submit", json!({"shipment_id": shipment, "tracking_number": "TWO"}))
        .await;
    dock.push().await;
    assert_eq!((dock.state("first").await, dock.state("second").await), ("applied".into(), "applied".into()));
    assert_eq!(numbers(&dock, shipment).await, some(&["ONE", "TWO"]));

    dock.change(
        "same",
        "tracking.submit",
        json!({"shipment_id": shipment, "tracking_number": " two ",
        "lines": [{"line_item_id": whole(&items[1]["Id"])}]}),
    )
    .await;
    dock.change(
        "other",
        "tracking.submit",
        json!({"shipment_id": shipment, "tracking_number": "THREE",
        "lines": [{"line_item_id": whole(&items[0]["Id"])}]}),
    )
    .await;
    let calls = dock.calls(TRACK);
    dock.push().await;
    assert_eq!(dock.state("same").await, "applied");
    assert_eq!(dock.fate("other").await.1, "tracking_conflict");
    assert_eq!(dock.calls(TRACK), calls, "neither was sent");
    assert_eq!(numbers(&dock, shipment).await, some(&["ONE", "TWO"]));
}

#[tokio::test]
async fn a_line_of_another_shipment_is_held_before_the_send() {
    let dock = Dock::open().await;
    let (a, b) = dock.two_skus().await;
    let (one, _) = dock.order(&[(&a, 1)]).await;
    let (two, _) = dock.order(&[(&b, 1)]).await;
    dock.change("s1", "shipment.create", json!({"order_id": one})).await;
    dock.change("s2", "shipment.create", json!({"order_id": two})).await;
    dock.push().await;
    let foreign = whole(&dock.items(dock.made("s2").await).await[0]["Id"]);
    let body = json!({"shipment_id": dock.made("s1").await, "tracking_number": "T",
                      "lines": [{"line_item_id": foreign}]});
    dock.change("t", "tracking.submit", body).await;
    dock.push().await;
    let (state, reason, _) = dock.fate("t").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "not_shown"));
    assert_eq!(dock.calls(TRACK), 0);
}
