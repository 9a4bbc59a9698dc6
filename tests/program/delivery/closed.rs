//! Closed orders are read again, because their shipments may be cancelled.

use super::support::{Dock, LINES};
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::model::JobKind;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates a tracked order without units left, as after a shipment that a person made at the platform.
async fn closed_order() -> (Dock, super::told::Rules, i64) {
    let (dock, rules) = super::told::told().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 2)]).await;
    dock.done(&["order", "track", &order.to_string()]).await;
    rules.lines(order, |lines| lines[0]["QuantityNotTiedToShipment"] = json!(0));
    dock.run(JobKind::OrderLines).await;
    assert_eq!(state(&dock).await, "closed");
    rules.clear();
    (dock, rules, order)
}

async fn state(dock: &Dock) -> String {
    let rows: Vec<Value> = serde_json::from_str(&dock.done(&["order", "list", "--json"]).await).unwrap();
    rows[0]["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_closed_order_is_looked_at_again_ever_less_often_and_for_weeks() {
    let (dock, rules, order) = closed_order().await;
    rules.lines(order, |lines| lines[0]["QuantityNotTiedToShipment"] = json!(0));
    let (mut looks, mut since) = (0, 0);
    // Every hour of 32 days.
    for hour in 0..(32 * 24) {
        let before = dock.calls(LINES);
        dock.later(MINUTE * 60);
        dock.run(JobKind::OrderLines).await;
        since += 1;
        if dock.calls(LINES) > before {
            (looks, since) = (looks + 1, 0);
        } else if hour < 27 * 24 {
            assert!(since <= 25, "at least daily: {since} hours without a look");
        }
    }
    assert!((28..=36).contains(&looks), "{looks} looks");
    assert!(since >= 3 * 24, "after four weeks it is left alone");
}

#[tokio::test]
async fn what_comes_back_to_a_closed_order_is_seen_with_the_next_look() {
    let (dock, _, _) = closed_order().await;
    dock.run(JobKind::OrderLines).await;
    assert_eq!(state(&dock).await, "closed", "not looked at yet");
    dock.later(MINUTE * 6);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(
        (
            state(&dock).await.as_str(),
            dock.number("SELECT CAST(sum(quantity_left) AS BIGINT) FROM order_line").await
        ),
        ("open", 2)
    );
}

#[tokio::test]
async fn a_closed_order_that_a_person_names_is_read() {
    let (dock, _, order) = closed_order().await;
    dock.later(DAY * 60);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(state(&dock).await, "closed", "it closed long ago");
    let said = dock.done(&["order", "track", &order.to_string()]).await;
    assert!(said.contains("1 already tracked; known orders are read again"), "{said}");
    dock.run(JobKind::OrderLines).await;
    assert_eq!(state(&dock).await, "open");
    assert_eq!(dock.number("SELECT count(*) FROM order_read_request").await, 0);
}

#[tokio::test]
async fn a_closed_order_that_is_tracked_anew_is_read() {
    let (dock, _, order) = closed_order().await;
    dock.done(&["order", "untrack", &order.to_string()]).await;
    dock.done(&["order", "track", &order.to_string()]).await;
    dock.run(JobKind::OrderLines).await;
    assert_eq!(state(&dock).await, "open");
}
