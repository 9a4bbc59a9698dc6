//! A backlog of more changes than a push plans at once: it delays changes, and changes no result.

use super::support::{Dock, UPDATE};
use serde_json::{Value, json};
use tallyd::model::JobKind;

/// More changes than a push plans at once.
const MANY: i64 = 5_050;

/// Inserts many changes of one kind and body as a program would.
async fn flood(dock: &Dock, name: &str, kind: &str, body: Value) {
    let sql = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY}) \
         INSERT INTO outbox (key, kind, body) SELECT '{name}-' || n, '{kind}', '{body}' FROM n"
    );
    dock.done_sql(&sql).await;
}

/// Pushes until nothing is pending.
async fn push_all(dock: &Dock) {
    for _ in 0..9 {
        dock.push().await;
        if dock.number("SELECT count(*) FROM outbox WHERE state = 'pending'").await == 0 {
            return;
        }
    }
    panic!("changes are left after nine pushes");
}

/// Returns two stock levels of different SKUs, read, with their quantities.
async fn two_levels(dock: &Dock) -> [(String, i64, i64); 2] {
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 20);
    stock.dedup_by(|row, before| row.sku == before.sku);
    let levels = [0, 1].map(|at| (stock[at].sku.clone(), stock[at].warehouse_id, stock[at].quantity));
    dock.track_skus(&[&levels[0].0, &levels[1].0]).await;
    dock.run(JobKind::Balances).await;
    levels
}

/// A change of the level under test: a count or an adjust, of a program or of an operator.
#[derive(Clone, Copy)]
enum Step {
    Count(i64),
    Adjust(i64),
    OperatorCount(i64),
    OperatorAdjust(i64),
    /// A unit is sold at the platform.
    Sale,
    /// The many changes of another level.
    Flood,
}
use Step::{Adjust, Count, Flood, OperatorAdjust, OperatorCount, Sale};

/// Carries out the steps, pushes all, and returns the quantity of the level beside its first one, the states of its
/// changes, and the quantity that the other level gained.
async fn result_of(steps: &[Step]) -> (i64, Vec<String>, i64) {
    let dock = Dock::open().await;
    let [(sku, warehouse, before), (other, of_other, at_first)] = two_levels(&dock).await;
    let mut keys = Vec::new();
    for (n, step) in steps.iter().enumerate() {
        let (kind, name, number, priority) = match step {
            Count(quantity) => ("quantity.set", "quantity", *quantity, 0),
            OperatorCount(quantity) => ("quantity.set", "quantity", *quantity, 1),
            Adjust(delta) => ("quantity.adjust", "delta", *delta, 0),
            OperatorAdjust(delta) => ("quantity.adjust", "delta", *delta, 1),
            Sale => {
                dock.sandbox.sell_units(&sku, warehouse, 1).await.unwrap();
                continue;
            }
            Flood => {
                let body = json!({"sku": other, "warehouse_id": of_other, "delta": 1});
                flood(&dock, "flood", "quantity.adjust", body).await;
                continue;
            }
        };
        let body = json!({"sku": sku, "warehouse_id": warehouse, name: number});
        let key = format!("step-{n}-{kind}");
        let insert = format!(
            "INSERT INTO outbox (key, kind, body, priority) VALUES ('{key}', '{kind}', '{body}', {priority})"
        );
        dock.done_sql(&insert).await;
        keys.push(key);
    }
    push_all(&dock).await;
    let mut states = Vec::new();
    for key in &keys {
        states.push(dock.state(key).await);
    }
    let gained = dock.level(&other, of_other).await - at_first;
    (dock.level(&sku, warehouse).await - before, states, gained)
}

/// A count that is sent before an older adjust includes it; an adjust that is sent before an older count is added to it.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_one_stock_level_on_both_sides_of_the_window_mean_what_they_mean_without_it() {
    let cases: [&[Step]; 9] = [
        &[Adjust(-3), Flood, Adjust(-4)],
        &[Adjust(-3), Flood, Count(30)],
        &[Count(30), Flood, Adjust(-4)],
        &[Count(30), Flood, Count(31)],
        &[Count(30), Adjust(2), Flood, Adjust(-4), Count(40), Adjust(1)],
        &[Flood, Adjust(-3), OperatorAdjust(-4)],
        &[Flood, Count(30), OperatorAdjust(-4)],
        &[Adjust(-3), Flood, Adjust(-2), OperatorCount(30), Adjust(1)],
        &[Count(30), Flood, Sale, Adjust(-4)],
    ];
    for (n, steps) in cases.iter().enumerate() {
        let without: Vec<Step> = steps.iter().copied().filter(|step| !matches!(step, Flood)).collect();
        let (expected, _, _) = result_of(&without).await;
        let (became, states, gained) = result_of(steps).await;
        assert_eq!((became, gained), (expected, MANY), "case {n}: {states:?}");
        assert!(
            states.iter().all(|state| state == "applied" || state == "cancelled"),
            "case {n}: {states:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_changes_that_cannot_move_stop_none_behind_them() {
    let dock = Dock::open().await;
    let [(sku, warehouse, before), _] = two_levels(&dock).await;
    flood(&dock, "waits", "tracking.submit", json!({"shipment_key": "never", "tracking_number": "1"})).await;
    dock.change("behind", "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": -2}))
        .await;
    dock.push().await;
    assert_eq!(
        (dock.state("behind").await.as_str(), dock.level(&sku, warehouse).await),
        ("applied", before - 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_held_changes_of_one_stock_level_delay_none_of_another() {
    let dock = Dock::open_with("[quantities]\nmax_quantity_jump = 5\n").await;
    let [(sku, warehouse, before), (other, of_other, _)] = two_levels(&dock).await;
    flood(&dock, "jump", "quantity.adjust", json!({"sku": other, "warehouse_id": of_other, "delta": 1}))
        .await;
    dock.push().await;
    dock.push().await;
    assert_eq!(dock.number("SELECT count(*) FROM outbox WHERE state = 'held'").await, MANY);
    for (key, sku, warehouse) in [("one", &sku, warehouse), ("of the held", &other, of_other)] {
        dock.change(key, "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": -2}))
            .await;
    }
    dock.push().await;
    assert_eq!([dock.state("one").await, dock.state("of the held").await], ["applied"; 2]);
    assert_eq!((dock.level(&sku, warehouse).await, dock.calls(UPDATE)), (before - 2, 1));
}

/// Eight of the changes that are planned at once would empty their stock levels, so about sixteen of all.
#[tokio::test(flavor = "multi_thread")]
async fn a_brake_judges_the_whole_backlog_by_the_part_that_is_planned() {
    for floods in [0, 2] {
        let dock = Dock::open_with("[quantities]\nmax_zeroing_fraction = 0.05\n").await;
        let mut stock = dock.sandbox.stock_levels().await.unwrap();
        stock.retain(|row| row.quantity >= 20);
        stock.dedup_by(|row, before| row.sku == before.sku);
        dock.track_all_skus().await;
        dock.run(JobKind::Balances).await;
        for (n, row) in stock.iter().enumerate().take(8) {
            let body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "quantity": 0});
            dock.change(&format!("zero-{n}"), "quantity.set", body).await;
        }
        let body = json!({"sku": stock[9].sku, "warehouse_id": stock[9].warehouse_id, "delta": 1});
        for n in 0..floods {
            flood(&dock, &format!("flood-{n}"), "quantity.adjust", body.clone()).await;
        }
        dock.push().await;
        let (state, why, detail) = dock.fate("zero-0").await;
        match floods {
            0 => assert_eq!(state, "applied", "{detail}"),
            _ => assert!(
                why == "brake" && detail.starts_with("about 16 stock levels"),
                "{state} {why}: {detail}"
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_names_the_number_of_changes_that_it_leaves_for_later() {
    let dock = Dock::open().await;
    let [(sku, warehouse, _), _] = two_levels(&dock).await;
    flood(&dock, "flood", "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}))
        .await;
    let planned = dock.done(&["plan"]).await;
    assert!(planned.contains("50 changes more: planned once those before are sent"), "{planned}");
    let explained = dock.done(&["explain", &sku]).await;
    assert!(explained.contains("`flood-5050` is planned once the changes before it are sent"), "{explained}");
}
