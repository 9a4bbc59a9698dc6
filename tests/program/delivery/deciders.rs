//! The person behind each decision, in the journal and in `outbox show`.

use super::support::{Dock, UPDATE, operator};
use serde_json::{Value, json};

async fn shown(dock: &Dock, key: &str) -> Value {
    serde_json::from_str(&dock.done(&["outbox", "show", key, "--json"]).await).unwrap()
}

/// Returns kind and decider of the last decision on a change.
async fn last_decision(dock: &Dock, key: &str) -> (String, Value) {
    let all = shown(dock, key).await;
    let last = all["decisions"].as_array().unwrap().last().unwrap_or_else(|| panic!("{key}: {all}")).clone();
    (last["kind"].as_str().unwrap().to_owned(), last["by"].clone())
}

/// Returns two stock levels with at least 20 units.
async fn two_levels(dock: &Dock) -> [(String, i64, i64); 2] {
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let mut rows = stock.into_iter().filter(|row| row.quantity >= 20);
    [rows.next(), rows.next()].map(|row| row.map(|row| (row.sku, row.warehouse_id, row.quantity)).unwrap())
}

#[tokio::test]
async fn each_decision_names_the_person_in_the_journal_and_in_outbox_show() {
    let dock = Dock::open_with("[quantities]\nmax_fact_age = \"0s\"\nmax_quantity_jump = 5\n").await;
    let by = Value::from(operator());
    let [(sku, warehouse, _), (other, other_warehouse, quantity)] = two_levels(&dock).await;
    let adjust = |delta: i64| json!({"sku": sku, "warehouse_id": warehouse, "delta": delta});
    dock.change("read", "quantity.adjust", adjust(0)).await;
    dock.push().await;

    let at = warehouse.to_string();
    dock.done(&["quantity", "adjust", &sku, &at, "+1", "--key", "typed"]).await;
    assert_eq!(shown(&dock, "typed").await["inserted_by"], by);
    dock.done(&["outbox", "cancel", "typed"]).await;
    assert_eq!(last_decision(&dock, "typed").await, ("outbox.resolved".into(), by.clone()));
    let text = dock.done(&["outbox", "show", "typed"]).await;
    let line = text.lines().find(|line| line.contains("outbox.resolved")).unwrap();
    assert!(line.contains(&operator()), "{text}");

    dock.change("jump", "quantity.adjust", adjust(9)).await;
    dock.change("jump-too", "quantity.adjust", adjust(9)).await;
    dock.push().await;
    dock.done(&["outbox", "release", "jump"]).await;
    dock.done(&["outbox", "release", "--all"]).await;
    for key in ["jump", "jump-too"] {
        assert_eq!(last_decision(&dock, key).await, ("brake.released".into(), by.clone()), "{key}");
    }
    dock.push().await;

    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.change("lost", "quantity.adjust", adjust(-1)).await;
    dock.change("lost-too", "quantity.adjust", adjust(-1)).await;
    dock.push().await;
    dock.done(&["outbox", "resolve", "lost", "--done"]).await;
    for key in ["lost", "lost-too"] {
        assert_eq!(last_decision(&dock, key).await, ("outbox.resolved".into(), by.clone()), "{key}");
    }

    dock.sandbox.sell_units(&other, other_warehouse, quantity - 2).await.unwrap();
    let level = json!({"sku": other, "warehouse_id": other_warehouse, "delta": -4});
    dock.change("negative", "quantity.adjust", level).await;
    dock.push().await;
    dock.done(&["outbox", "retry", "negative"]).await;
    assert_eq!(last_decision(&dock, "negative").await, ("outbox.resolved".into(), by.clone()));

    dock.change("wrong", "zzz", json!({})).await;
    dock.change("wrong-too", "zzz", json!({})).await;
    dock.push().await;
    dock.done(&["outbox", "acknowledge", "wrong"]).await;
    dock.done(&["outbox", "acknowledge", "--all"]).await;
    for key in ["wrong", "wrong-too"] {
        assert_eq!(last_decision(&dock, key).await, ("outbox.acknowledged".into(), by.clone()), "{key}");
    }
    let listed = dock.done(&["journal", "show", "--last", "1"]).await;
    assert!(listed.contains(&format!("by {}", operator())), "{listed}");
}

/// Nobody is named where nobody decided: `settle` does so by itself, and a program beside a file has no name.
#[tokio::test]
async fn what_the_daemon_decides_names_nobody() {
    let dock = Dock::open().await;
    let [(sku, warehouse, _), _] = two_levels(&dock).await;
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.change("lost", "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": -2})).await;
    dock.push().await;
    dock.settle_after(super::support::A_MOMENT).await;
    assert_eq!(last_decision(&dock, "lost").await, ("outbox.finished".into(), Value::Null));
    let inserted_by = shown(&dock, "lost").await["inserted_by"].clone();
    match dock.location().server() {
        Some(_) => assert!(inserted_by.as_str().unwrap().starts_with("role:"), "{inserted_by}"),
        None => assert_eq!(inserted_by, Value::Null),
    }
}
