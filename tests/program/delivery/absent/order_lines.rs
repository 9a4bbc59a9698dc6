//! Orders whose answers lack lines.
//!
//! A line that is not shown is not observed. An emptied order is reported. A line that comes back is shown.

use crate::delivery::support::Dock;
use crate::delivery::told::{Rules, told};
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::model::{JobKind, Timestamp};

const MINUTE: Duration = Duration::from_secs(60);

/// Creates two tracked orders, the first with two lines, and reads both.
async fn two_orders() -> (Dock, Rules, i64, Vec<i64>) {
    let (dock, rules) = told().await;
    let (one, two) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&one, 2), (&two, 1)]).await;
    let (other, _) = dock.order(&[(&one, 1)]).await;
    dock.done(&["order", "track", &order.to_string(), &other.to_string()]).await;
    dock.run(JobKind::OrderLines).await;
    (dock, rules, order, lines)
}

/// Returns the seconds since each line of the view was observed, by line.
async fn ages(dock: &Dock, order: i64) -> Vec<(i64, i64)> {
    let sql = format!("SELECT line_item_id, observed_at FROM order_line WHERE order_id = {order} ORDER BY 1");
    let rows: Vec<(i64, String)> = dock.outsider().await.rows(&sql).await;
    rows.into_iter().map(|(line, at)| (line, age(dock, &at))).collect()
}

/// Returns the whole seconds since a time in a view.
fn age(dock: &Dock, at: &str) -> i64 {
    (dock.clock().now().0 - Timestamp::parse(at).unwrap().0) / 1000
}

async fn row(dock: &Dock, order: i64) -> Value {
    let listed = dock.done(&["order", "list", "--json"]).await;
    let rows: Vec<Value> = serde_json::from_str(&listed).unwrap();
    rows.into_iter().find(|row| row["order_id"] == order).unwrap()
}

async fn state(dock: &Dock, order: i64) -> String {
    row(dock, order).await["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_empty_answer_observes_no_line() {
    let (dock, rules, order, lines) = two_orders().await;
    rules.lines(order, Vec::clear);
    dock.later(MINUTE);
    dock.run(JobKind::OrderLines).await;
    let ages = ages(&dock, order).await;
    assert_eq!(ages.len(), 2, "one empty answer proves nothing");
    assert!(ages.iter().all(|(line, age)| lines.contains(line) && *age >= 60), "{ages:?}");
    let row = row(&dock, order).await;
    assert_eq!(
        (&row["state"], &row["lines"], &row["quantity_left"]),
        (&json!("empty"), &json!(2), &json!(3))
    );
    let observed = row["observed_at"].as_str().unwrap();
    let age = dock.clock().now().duration_since(Timestamp::parse(observed).unwrap());
    assert!(age >= MINUTE, "the list tells the lines' age: {age:?}");
    let shown = dock.done(&["order", "list"]).await;
    assert!(shown.contains("empty"), "{shown}");
}

#[tokio::test]
async fn an_order_that_stays_empty_while_others_answer_is_told_as_cancelled_or_emptied() {
    let (dock, rules, order, lines) = two_orders().await;
    rules.lines(order, Vec::clear);
    dock.run(JobKind::OrderLines).await;
    dock.later(MINUTE);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(ages(&dock, order).await.len(), 2, "the looks are a minute apart");
    dock.later(MINUTE * 2);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(ages(&dock, order).await, [], "nothing of it is to be picked");
    assert_eq!(state(&dock, order).await, "emptied");
    let shown = dock.done(&["order", "show", &order.to_string()]).await;
    assert!(shown.contains("cancelled or emptied"), "{shown}");
    // The order is read again as a closed one is, and its lines are accepted at once.
    rules.clear();
    dock.later(MINUTE * 10);
    dock.run(JobKind::OrderLines).await;
    let back: Vec<i64> = ages(&dock, order).await.into_iter().map(|(line, _)| line).collect();
    assert_eq!((back, state(&dock, order).await), (lines, "open".to_owned()));
}

/// An answer that counts a line and shows none proves nothing about that line.
#[tokio::test]
async fn an_order_whose_lines_are_only_counted_is_not_told_as_emptied() {
    let (dock, rules, order, _) = two_orders().await;
    rules.lines_only_counted(order);
    for _ in 0..3 {
        dock.run(JobKind::OrderLines).await;
        dock.later(MINUTE * 3);
    }
    assert_eq!((ages(&dock, order).await.len(), state(&dock, order).await), (2, "open".to_owned()));
}

/// A quiet order that is not shown is read again with the next run.
///
/// Otherwise an order that is read daily would stay to be picked for two days.
#[tokio::test]
async fn a_quiet_order_that_is_not_shown_is_looked_at_again_with_the_next_run() {
    for (what, is_readable) in [("absent", true), ("unreadable", false)] {
        let (dock, rules, order, _) = two_orders().await;
        let day = MINUTE * 60 * 24;
        for pause in [day * 4, MINUTE] {
            dock.later(pause);
            dock.run(JobKind::OrderLines).await;
        }
        assert_eq!(ages(&dock, order).await[0].1, 60, "{what}: it is quiet");
        dock.later(day);
        match is_readable {
            true => rules.lines(order, Vec::clear),
            false => rules.lines(order, |lines| lines[0]["QuantitySold"] = json!("many")),
        }
        dock.run(JobKind::OrderLines).await;
        rules.clear();
        rules.lines(order, Vec::clear);
        // The other order is quiet too: its answer, a day later, shows that the platform works.
        for (pause, shown) in [(MINUTE * 3, "empty"), (day, "emptied")] {
            dock.later(pause);
            dock.run(JobKind::OrderLines).await;
            assert_eq!(state(&dock, order).await, shown, "{what}");
        }
    }
}

#[tokio::test]
async fn where_every_order_is_answered_empty_the_platform_is_sick_and_no_order_is_gone() {
    let (dock, rules, order, _) = two_orders().await;
    rules.say(tallyd::model::Operation::GetOrderLineItems, |_, response| {
        crate::delivery::told::data_counted(response, Vec::clear);
    });
    for _ in 0..4 {
        dock.later(MINUTE * 2);
        dock.run(JobKind::OrderLines).await;
    }
    let ages = ages(&dock, order).await;
    assert_eq!(ages.len(), 2);
    assert!(ages.iter().all(|(_, age)| *age >= 480), "{ages:?}");
    assert_eq!(state(&dock, order).await, "empty");
}

#[tokio::test]
async fn a_line_that_could_not_be_read_keeps_its_age() {
    let (dock, rules, order, lines) = two_orders().await;
    rules.lines(order, |lines| lines[0]["QuantitySold"] = json!("many"));
    for _ in 0..3 {
        dock.later(MINUTE * 2);
        dock.run(JobKind::OrderLines).await;
    }
    let ages = ages(&dock, order).await;
    assert_eq!(ages.iter().map(|(line, _)| *line).collect::<Vec<_>>(), lines, "unreadable is not absent");
    assert!(ages[0].1 >= 360 && ages[1].1 < 60, "{ages:?}");
}

#[tokio::test]
async fn one_line_that_an_answer_lacks_is_gone_with_the_second_look_minutes_later() {
    let (dock, rules, order, lines) = two_orders().await;
    rules.lines(order, |lines| drop(lines.remove(0)));
    dock.later(MINUTE);
    dock.run(JobKind::OrderLines).await;
    let seen = ages(&dock, order).await;
    assert_eq!(seen.iter().map(|(line, _)| *line).collect::<Vec<_>>(), lines);
    assert!(seen[0].1 >= 60 && seen[1].1 < 30, "{seen:?}");
    dock.later(MINUTE * 2);
    dock.run(JobKind::OrderLines).await;
    let left: Vec<i64> = ages(&dock, order).await.into_iter().map(|(line, _)| line).collect();
    assert_eq!(left, lines[1..]);
    rules.clear();
    dock.run(JobKind::OrderLines).await;
    assert_eq!(ages(&dock, order).await.len(), 2, "and is shown again when it comes back");
}

/// An answer that lacks the unshipped lines must not close the order.
#[tokio::test]
async fn an_order_is_not_closed_by_an_answer_that_lacks_a_line() {
    let (dock, rules, order, _) = two_orders().await;
    rules.lines(order, |lines| {
        lines.remove(0);
        lines[0]["QuantityNotTiedToShipment"] = json!(0);
    });
    dock.run(JobKind::OrderLines).await;
    assert_eq!(state(&dock, order).await, "open");
}

/// An answer without lines for an id that is no order is reported as such, not as an emptied order.
#[tokio::test]
async fn an_order_that_never_had_a_line_is_told_as_such() {
    let (dock, _, _, _) = two_orders().await;
    dock.done(&["order", "track", "1234567"]).await;
    dock.run(JobKind::OrderLines).await;
    dock.later(MINUTE * 3);
    dock.run(JobKind::OrderLines).await;
    assert_eq!(state(&dock, 1_234_567).await, "no lines");
}

/// An item that an answer lacks keeps its age, as a line does.
#[tokio::test]
async fn an_item_that_an_answer_lacks_keeps_its_age() {
    let (dock, rules, order, _) = two_orders().await;
    dock.change("ship", "shipment.create", json!({ "order_id": order })).await;
    dock.push().await;
    let ages = async || {
        let sql = "SELECT observed_at FROM shipment_item ORDER BY item_id";
        let times: Vec<(String,)> = dock.outsider().await.rows(sql).await;
        times.iter().map(|(at,)| age(&dock, at) >= 60).collect::<Vec<_>>()
    };
    dock.later(MINUTE);
    dock.run(JobKind::Shipments).await;
    assert_eq!(ages().await, [false, false]);
    rules.say(tallyd::model::Operation::ShipmentLineItems, |_, response| {
        crate::delivery::told::data(response, |items| drop(items.remove(0)));
    });
    dock.later(MINUTE);
    dock.run(JobKind::Shipments).await;
    assert_eq!(ages().await, [true, false], "the first was not shown");
    rules.say(tallyd::model::Operation::ShipmentLineItems, |_, response| {
        crate::delivery::told::data(response, Vec::clear);
    });
    dock.later(MINUTE);
    dock.run(JobKind::Shipments).await;
    assert_eq!(ages().await, [true, true]);
    rules.clear();
    dock.run(JobKind::Shipments).await;
    assert_eq!(ages().await, [false, false]);
}
