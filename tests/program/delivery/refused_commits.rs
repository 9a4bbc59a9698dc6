//! Another program's trigger that refuses a commit: what was sent becomes in doubt and is settled, and the rest goes
//! on.

use super::health::finding;
use super::support::{A_MOMENT, Dock, LONG, UPDATE, WAREHOUSE};
use crate::bounds::Running;
use serde_json::json;
use std::time::Duration;
use tallyd::health::FindingCode;
use tallyd::model::JobKind;

/// Lets another program refuse the updates of a table that meet the condition.
async fn refuse(dock: &Dock, table: &str, condition: &str) {
    refuse_on(dock, "UPDATE", table, condition).await;
}

async fn refuse_on(dock: &Dock, event: &str, table: &str, condition: &str) {
    let refusal = match dock.location().server() {
        None => "BEGIN SELECT RAISE(ABORT, 'not on my watch'); END",
        Some(_) => {
            let body = "BEGIN RAISE EXCEPTION 'not on my watch'; END";
            dock.done_sql(&format!(
                "CREATE FUNCTION foreign_refusal() RETURNS trigger LANGUAGE plpgsql AS '{}'",
                body.replace('\'', "''")
            ))
            .await;
            "EXECUTE FUNCTION foreign_refusal()"
        }
    };
    let sql = format!(
        "CREATE TRIGGER foreign_refusal BEFORE {event} ON {table} FOR EACH ROW WHEN ({condition}) {refusal}"
    );
    dock.done_sql(&sql).await;
}

async fn allow(dock: &Dock, table: &str) {
    let sql = match dock.location().server() {
        None => "DROP TRIGGER foreign_refusal".to_owned(),
        Some(_) => format!("DROP TRIGGER foreign_refusal ON {table}; DROP FUNCTION foreign_refusal()"),
    };
    dock.done_sql(&sql).await;
}

/// SKU, warehouse and quantity of a stock level before its adjust.
type Adjusted = (String, i64, i64);

async fn two_adjusts(dock: &Dock) -> [Adjusted; 2] {
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 10);
    stock.dedup_by(|row, before| row.sku == before.sku);
    let levels = [0, 1].map(|at| (stock[at].sku.clone(), stock[at].warehouse_id, stock[at].quantity));
    dock.track_skus(&[&levels[0].0, &levels[1].0]).await;
    dock.run(JobKind::Balances).await;
    for (key, (sku, warehouse, _)) in ["poisoned", "healthy"].iter().zip(&levels) {
        dock.change(key, "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": -1}))
            .await;
    }
    levels
}

async fn assert_both_took_effect_once(dock: &Dock, levels: &[Adjusted; 2]) {
    for (sku, warehouse, before) in levels {
        assert_eq!(dock.level(sku, *warehouse).await, before - 1, "{sku}");
    }
    assert_eq!([dock.state("poisoned").await, dock.state("healthy").await], ["applied"; 2]);
    assert_eq!(dock.calls(UPDATE), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_commit_is_refused_leaves_its_changes_in_doubt_and_settle_decides_them() {
    let refused = [
        ("exchange", "NEW.operation LIKE '%updateQuantityOnHand' AND NEW.verdict = 'accepted'"),
        ("stock_level_write", "NEW.ended IS NOT NULL"),
        ("balance", "NEW.own_delta <> OLD.own_delta"),
        ("outbox", "NEW.key = 'poisoned' AND NEW.state = 'applied'"),
        ("outbox", "NEW.key = 'poisoned' AND OLD.state = 'sending'"),
    ];
    for (table, condition) in refused {
        let dock = Dock::open().await;
        let levels = two_adjusts(&dock).await;
        refuse(&dock, table, condition).await;
        let said = dock.push().await;
        assert!(said.contains("not on my watch"), "{condition}: {said}");
        let left = if condition.contains("OLD.state = 'sending'") { "sending" } else { "in_doubt" };
        assert_eq!(
            [dock.state("poisoned").await, dock.state("healthy").await],
            [left, "in_doubt"],
            "{table}, {condition}"
        );
        if table == "outbox" {
            dock.settle_after(A_MOMENT).await;
            assert_eq!(
                dock.state("healthy").await,
                "applied",
                "{condition}: one refusal stops no other change"
            );
        }
        allow(&dock, table).await;
        dock.push().await;
        dock.settle_after(A_MOMENT).await;
        assert_both_took_effect_once(&dock, &levels).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_answer_cannot_be_committed_is_found_and_not_made_again() {
    let dock = Dock::open().await;
    dock.change("hall", "warehouse.create", json!({"Name": "Refused hall"})).await;
    refuse(&dock, "outbox", "NEW.state = 'applied'").await;
    dock.push().await;
    assert_eq!(dock.state("hall").await, "in_doubt");
    allow(&dock, "outbox").await;
    dock.settle_after(LONG).await;
    assert_eq!((dock.state("hall").await.as_str(), dock.calls(WAREHOUSE)), ("applied", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fact_whose_commit_is_refused_stops_no_other_stock_level() {
    let dock = Dock::open().await;
    let [(poisoned, warehouse, _), (healthy, of_healthy, before)] = two_adjusts(&dock).await;
    let product = dock.number(&format!("SELECT id FROM product WHERE sku = '{poisoned}'")).await;
    refuse(&dock, "balance", &format!("NEW.product = {product}")).await;
    dock.sandbox.sell_units(&poisoned, warehouse, 1).await.unwrap();
    for _ in 0..3 {
        dock.push().await;
        dock.later(LONG);
    }
    assert_eq!(dock.level(&healthy, of_healthy).await, before - 1);
    assert_eq!(dock.state("healthy").await, "applied");
    assert_eq!(dock.state("poisoned").await, "pending");
    allow(&dock, "balance").await;
    dock.push().await;
    assert_eq!(dock.state("poisoned").await, "applied");
}

/// Pushes for minutes and asserts that the refusal is named by each run and by a finding.
async fn assert_push_is_refused_and_told(dock: &Dock) {
    for _ in 0..3 {
        let said = dock.push().await;
        assert!(said.contains("not on my watch"), "{said}");
        dock.later(Duration::from_secs(90));
    }
    let found = finding(dock, FindingCode::PushFails).await;
    assert!(found.text.contains("not on my watch"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_refused_sends_nothing_and_is_told() {
    let dock = Dock::open().await;
    let levels = two_adjusts(&dock).await;
    refuse(&dock, "outbox", "NEW.key = 'poisoned' AND NEW.state = 'sending'").await;
    assert_push_is_refused_and_told(&dock).await;
    assert_eq!([dock.state("poisoned").await, dock.state("healthy").await], ["pending"; 2]);
    assert_eq!(dock.calls(UPDATE), 0);
    allow(&dock, "outbox").await;
    dock.push().await;
    assert_both_took_effect_once(&dock, &levels).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_that_is_refused_is_told_and_made_later() {
    let dock = Dock::open().await;
    let levels = two_adjusts(&dock).await;
    dock.change("nonsense", "quantity.adjust", json!({"sku": levels[0].0, "warehouse_id": 1, "delta": "x"}))
        .await;
    refuse(&dock, "outbox", "NEW.state = 'rejected'").await;
    assert_push_is_refused_and_told(&dock).await;
    allow(&dock, "outbox").await;
    dock.push().await;
    assert_eq!(dock.state("nonsense").await, "rejected");
    assert_both_took_effect_once(&dock, &levels).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_cannot_be_stored_is_told_and_made_again() {
    let dock = Dock::open().await;
    let levels = two_adjusts(&dock).await;
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.push().await;
    assert_eq!(dock.state("poisoned").await, "in_doubt");
    refuse_on(&dock, "INSERT", "in_doubt_check", "NEW.change_id > 0").await;
    dock.later(LONG);
    let said = dock.settle().await;
    assert!(said.contains("not on my watch"), "{said}");
    assert!(finding(&dock, FindingCode::InDoubt).await.text.contains("2 changes in doubt"));
    allow(&dock, "in_doubt_check").await;
    dock.settle_after(LONG).await;
    dock.push().await;
    dock.settle_after(LONG).await;
    assert_eq!([dock.state("poisoned").await, dock.state("healthy").await], ["applied"; 2]);
    for (sku, warehouse, before) in &levels {
        assert_eq!(dock.level(sku, *warehouse).await, before - 1, "{sku}");
    }
}

/// A crash leaves the changes of a call `sending`, and a trigger does not let the next start put them in doubt.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_cannot_begin_its_session_says_why_and_waits() {
    let mut dock = Dock::open().await;
    let levels = two_adjusts(&dock).await;
    refuse(&dock, "outbox", "OLD.state = 'sending'").await;
    dock.push().await;
    assert_eq!(dock.state("poisoned").await, "sending");
    dock.leave();
    let once = dock.refused(&["run", "--once"]).await;
    assert!(once.contains("cannot put interrupted changes in doubt: not on my watch"), "{once}");
    let mut running = Running::start(&dock.file("tallyd.toml", &dock.toml())).await;
    let said = running.until("database.write_failed").await;
    assert!(said.contains("cannot begin a session yet") && said.contains("not on my watch"), "{said}");
    allow(&dock, "outbox").await;
    running.until("daemon.ready").await;
    assert_eq!(running.stop().await, Some(0));
    dock.restart().await;
    dock.settle_after(LONG).await;
    assert_both_took_effect_once(&dock, &levels).await;
}
