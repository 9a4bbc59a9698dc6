//! Numbers and times have the meaning that JSON and the calendar give them, in every notation.

use super::support::Dock;
use super::told::told;
use crate::support::outsider::quoted;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tallyd::model::{JobKind, Operation, Timestamp};

/// Creates a stock level of 50 units that was just read.
async fn level_of_50(dock: &Dock) -> (String, i64) {
    let row = dock.sandbox.stock_levels().await.unwrap().into_iter().find(|row| row.quantity >= 20).unwrap();
    dock.track_skus(&[&row.sku]).await;
    let body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "quantity": 50});
    dock.change("begin", "quantity.set", body).await;
    dock.push().await;
    dock.run(JobKind::Balances).await;
    (row.sku, row.warehouse_id)
}

/// Inserts a change whose body is written exactly like this.
async fn change(dock: &Dock, key: &str, kind: &str, body: &str) {
    dock.done_sql(&insertion(key, kind, body)).await;
}

/// Returns the statement that inserts a change.
fn insertion(key: &str, kind: &str, body: &str) -> String {
    let row = [key, kind, body].map(quoted).join(", ");
    format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")
}

fn now(dock: &Dock) -> Timestamp {
    dock.daemon().context().now()
}

#[tokio::test]
async fn a_movement_of_5_0_is_one_of_5_to_every_count() {
    for five in ["5", "5.0", "5e0", "0.5E+1"] {
        let dock = Dock::open().await;
        let (sku, warehouse) = level_of_50(&dock).await;
        let counted_at = now(&dock).to_rfc3339();
        dock.later(Duration::from_millis(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
        let level = format!(r#""sku":{},"warehouse_id":{warehouse}.0"#, json!(sku));
        change(&dock, "in", "quantity.adjust", &format!(r#"{{{level},"delta":{five}}}"#)).await;
        change(&dock, "out", "quantity.adjust", &format!(r#"{{{level},"delta":-1}}"#)).await;
        dock.push().await;
        assert_eq!(
            (dock.state("in").await, dock.level(&sku, warehouse).await),
            ("applied".into(), 54),
            "{five}"
        );
        let body = format!(r#"{{{level},"quantity":4.7e1,"counted_at":"{counted_at}"}}"#);
        change(&dock, "count", "quantity.set", &body).await;
        dock.push().await;
        assert_eq!(dock.state("count").await, "applied", "{:?}", dock.fate("count").await);
        assert_eq!(dock.level(&sku, warehouse).await, 47 + 5 - 1, "{five}: moved after the count");
    }
}

#[tokio::test]
async fn a_moment_is_one_moment_however_it_is_spelled() {
    let spellings: [fn(&str) -> String; 5] = [
        |at| at.to_owned(),
        |at| format!(" {at}\t"),
        |at| at.to_lowercase(),
        |at| at.replace('Z', "+00:00"),
        |at| at.trim_end_matches('Z').to_owned(),
    ];
    for spelled in spellings {
        let dock = Dock::open().await;
        let (sku, warehouse) = level_of_50(&dock).await;
        let counted_at = spelled(&now(&dock).to_rfc3339());
        tokio::time::sleep(Duration::from_millis(5)).await;
        let adjust = json!({"sku": sku, "warehouse_id": warehouse, "delta": 5});
        dock.change("in", "quantity.adjust", adjust).await;
        dock.push().await;
        let count = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 47, "counted_at": counted_at});
        dock.change("count", "quantity.set", count).await;
        dock.push().await;
        assert_eq!(dock.state("count").await, "applied", "{counted_at:?}: {:?}", dock.fate("count").await);
        assert_eq!(dock.level(&sku, warehouse).await, 52, "{counted_at:?}");
    }
}

/// Inserts a change as a program whose clock is ahead.
async fn ahead(dock: &Dock, key: &str, kind: &str, body: Value, by: Duration) {
    let of_table = if dock.location().server().is_some() { " ON outbox" } else { "" };
    let insert = insertion(key, kind, &body.to_string());
    let (key, at) = (quoted(key), quoted(&now(dock).plus(by).to_rfc3339()));
    dock.done_sql(&format!(
        "BEGIN; DROP TRIGGER IF EXISTS outbox_update_guard{of_table}; {insert}; \
         UPDATE outbox SET revision = revision + 1, created_at = {at} WHERE key = {key}; COMMIT"
    ))
    .await;
}

#[tokio::test]
async fn a_change_from_a_program_whose_clock_is_ahead_was_inserted_now() {
    for minutes in [1, 20, 2 * 60, 400 * 24 * 60] {
        let by = Duration::from_secs(minutes * 60);
        let dock = Dock::open().await;
        let (sku, warehouse) = level_of_50(&dock).await;
        let set = |quantity: i64| json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity});
        ahead(&dock, "count", "quantity.set", set(47), by).await;
        dock.sandbox.sell_units(&sku, warehouse, 2).await.unwrap();
        dock.push().await;
        assert_eq!(dock.state("count").await, "applied", "{minutes} min: {:?}", dock.fate("count").await);
        assert_eq!(dock.level(&sku, warehouse).await, 45, "{minutes} min");
        let adjust = json!({"sku": sku, "warehouse_id": warehouse, "delta": 5});
        ahead(&dock, "in", "quantity.adjust", adjust, by).await;
        dock.push().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let mut later = set(40);
        later["counted_at"] = json!(now(&dock).to_rfc3339());
        tokio::time::sleep(Duration::from_millis(5)).await;
        dock.change("later", "quantity.set", later).await;
        dock.push().await;
        assert_eq!(dock.level(&sku, warehouse).await, 40, "{minutes} min: the count came after the movement");
    }
}

#[tokio::test]
async fn the_same_key_with_the_same_change_is_the_same_however_it_is_written() {
    let dock = Dock::open().await;
    let (sku, warehouse) = level_of_50(&dock).await;
    let body =
        |delta: &str| format!(r#"{{"sku":{},"warehouse_id":{warehouse},"delta":{delta}}}"#, json!(sku));
    change(&dock, "k", "quantity.adjust", &body("5")).await;
    for same in [
        body("5.0"),
        body("5e0"),
        format!(r#"{{"delta":5, "warehouse_id":{warehouse}.0,"sku":{}}}"#, json!(sku)),
    ] {
        change(&dock, "k", "quantity.adjust", &same).await;
    }
    dock.push().await;
    assert_eq!(dock.level(&sku, warehouse).await, 55);
    for other in [body("6"), body("\"5\""), body("5,\"x\":null"), format!("[{}]", body("5"))] {
        let insert = insertion("k", "quantity.adjust", &other);
        let error = dock.outsider().await.run(&insert).await.unwrap_err();
        assert!(error.to_string().contains("this key already names another change"), "{other}: {error}");
    }
}

#[tokio::test]
async fn a_command_with_the_key_of_another_change_says_what_to_do() {
    let dock = Dock::open().await;
    let (sku, warehouse) = level_of_50(&dock).await;
    let said = dock.refused(&["quantity", "set", &sku, &warehouse.to_string(), "5", "--key", "begin"]).await;
    assert!(said.contains("the key `begin` already names another change"), "{said}");
    assert!(said.contains("tallyd outbox show begin"), "{said}");
    assert!(!said.contains("1811") && !said.contains("error returned from database"), "{said}");
}

/// No count of goods can state a shortage, so the advice to count again could not be followed.
#[tokio::test]
async fn a_receipt_that_only_lessens_a_shortage_is_held_with_advice_that_can_be_followed() {
    let (dock, rules) = told().await;
    let row = dock.sandbox.stock_levels().await.unwrap().remove(0);
    let (sku, warehouse, shown) = (row.sku, row.warehouse_id, Arc::new(AtomicI64::new(-3)));
    let now = Arc::clone(&shown);
    rules.say(Operation::GetProductBalances, move |_, response| {
        let mut records: Value = serde_json::from_slice(&response.body).unwrap();
        let lists =
            records.as_array_mut().unwrap().iter_mut().map(|record| record["Warehouses"].as_array_mut());
        for level in lists.flatten().flatten() {
            level["QuantityOnHand"] = json!(now.load(Ordering::SeqCst));
        }
        response.body = records.to_string().into_bytes();
    });
    dock.change("receipt", "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": 2}))
        .await;
    dock.push().await;
    let (state, _, detail) = dock.fate("receipt").await;
    assert_eq!(state, "held", "{detail}");
    assert!(!detail.contains("count it again"), "{detail}");
    assert!(detail.contains("more is sold than there was") && detail.contains("retry it"), "{detail}");
    shown.store(-1, Ordering::SeqCst);
    dock.done(&["outbox", "retry", "receipt"]).await;
    dock.push().await;
    assert_eq!(dock.fate("receipt").await.0, "applied", "the advice was good");
}
