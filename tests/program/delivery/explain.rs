//! The history of a quantity as `tallyd explain` prints it, beside a running daemon.

use super::support::{A_MOMENT, BALANCES, Dock, UPDATE, operator};
use crate::support::outsider::quoted;
use serde_json::{Value, json};
use std::process::{Command, Output};

/// Runs `tallyd explain` beside the dock's daemon.
async fn explain(dock: &Dock, args: &[&str]) -> Output {
    let config = dock.file("tallyd.toml", &dock.toml());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config).arg("explain").args(args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn told(dock: &Dock, args: &[&str]) -> String {
    let output = explain(dock, args).await;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that each of these stands in a line of its own, in this order.
fn in_order(text: &str, expected: &[&str]) {
    let mut lines = text.lines();
    for part in expected {
        assert!(lines.any(|line| line.contains(part)), "`{part}` is missing or out of order in\n{text}");
    }
}

async fn level(dock: &Dock) -> (String, i64, i64) {
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let row = stock.into_iter().find(|row| row.quantity >= 20).unwrap();
    (row.sku, row.warehouse_id, row.quantity)
}

fn set(sku: &str, warehouse: i64, quantity: i64) -> Value {
    json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity})
}

fn adjust(sku: &str, warehouse: i64, delta: i64) -> Value {
    json!({"sku": sku, "warehouse_id": warehouse, "delta": delta})
}

#[tokio::test]
async fn a_quantity_tells_its_sales_counts_merges_and_doubts_in_order() {
    let dock = Dock::open().await;
    let (sku, warehouse, _) = level(&dock).await;
    dock.change("start", "quantity.set", set(&sku, warehouse, 50)).await;
    dock.push().await;
    dock.change("count", "quantity.set", set(&sku, warehouse, 47)).await;
    dock.sandbox.sell_units(&sku, warehouse, 2).await.unwrap();
    dock.push().await;
    dock.change("full", "quantity.set", set(&sku, warehouse, 30)).await;
    dock.change("more", "quantity.adjust", adjust(&sku, warehouse, 5)).await;
    dock.push().await;
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.change("lost", "quantity.adjust", adjust(&sku, warehouse, -4)).await;
    dock.push().await;
    dock.settle_after(A_MOMENT).await;
    dock.change("too many", "quantity.adjust", adjust(&sku, warehouse, -70)).await;
    dock.push().await;
    dock.change("next", "quantity.adjust", adjust(&sku, warehouse, -1)).await;
    let text = told(&dock, &[&sku, &warehouse.to_string()]).await;
    in_order(
        &text,
        &[
            &format!("{sku} in warehouse {warehouse} ("),
            "change `start` inserted: set 50, counted while the platform showed",
            "(POST /api/product/getProductBalances): the platform shows",
            "sends 50: `start` counted 50 while the platform showed",
            "-> 50; our writes changed it by",
            "change `count` inserted: set 47, counted while the platform showed 50",
            "50 -> 48; others changed it by -2 since exchange",
            "sends 45: `count` counted 47 while the platform showed 50, 2 sold since: 45",
            "48 -> 45; our writes changed it by -3",
            "change `full` inserted: set 30",
            "change `more` inserted: adjust +5; now applied",
            "sends 35, 2 changes in one entry: `full` counted 30 while the platform showed 45",
            "45 -> 35; our writes changed it by -10",
            "change `lost` inserted: adjust -4; now applied",
            "sends 31",
            "a check of `lost` in exchange",
            "settled: the call of `lost` took effect",
            "35 -> 31; our writes changed it by -4",
            "change `too many` inserted: adjust -70; now held (negative)",
            "change `next` inserted: adjust -1; now pending",
            "change `too many` is held (negative)",
            "becomes 30 when the pending changes are applied",
            "next: `too many` needs a decision",
            "next: `next` is sent by the next push, after a fresh read",
        ],
    );
    let all = told(&dock, &[&sku, &warehouse.to_string(), "--json"]).await;
    let all: Value = serde_json::from_str(&all).unwrap();
    let steps = all["stock_levels"][0]["steps"].as_array().unwrap();
    for step in steps {
        assert!(text.contains(step["text"].as_str().unwrap()), "{step} of\n{text}");
    }
    fields_of_the_steps(&dock, steps);
}

/// Asserts the fields of the steps of that history.
fn fields_of_the_steps(dock: &Dock, steps: &[Value]) {
    // (kind, part of the sentence) → before, after, ours, others, author, keys, operation
    let program = if dock.location().server().is_some() { "role:tallyd" } else { "program" };
    let expected = [
        ("fact", "50 -> 48", json!([50, 48, null, -2, "others", [], BALANCES])),
        ("fact", "48 -> 45", json!([48, 45, -3, null, "tallyd", [], UPDATE])),
        ("change", "`count` inserted", json!([50, 47, null, null, program, ["count"], null])),
        ("change", "`more` inserted", json!([null, null, 5, null, program, ["more"], null])),
        ("push", "sends 45", json!([48, 45, null, null, "tallyd", ["count"], UPDATE])),
        ("push", "sends 35", json!([45, 35, null, null, "tallyd", ["full", "more"], UPDATE])),
        ("look", "a check of `lost`", json!([null, 31, null, null, "tallyd", ["lost"], null])),
        ("event", "settled", json!([null, null, null, null, "tallyd", ["lost"], null])),
        ("moved", "is held", json!([null, null, null, null, null, ["too many"], null])),
    ];
    for (kind, part, fields) in expected {
        let is_it = |step: &&Value| step["what"] == kind && step["text"].as_str().unwrap().contains(part);
        let step = steps.iter().find(is_it).unwrap_or_else(|| panic!("{kind} {part}: {steps:?}"));
        let keys: Vec<&Value> = step["changes"].as_array().unwrap().iter().map(|row| &row["key"]).collect();
        let [before, after, ours, others, by] =
            ["before", "after", "ours", "others", "by"].map(|name| &step[name]);
        let found = json!([before, after, ours, others, by, keys, step["call"]["operation"]]);
        assert_eq!(found, fields, "{kind} {part}: {step}");
        assert_eq!(step["call"]["exchange"].is_i64(), ["fact", "push", "look"].contains(&kind), "{step}");
    }
}

#[tokio::test]
async fn a_conflict_and_a_brake_are_told_with_their_numbers_and_their_release() {
    let dock =
        Dock::open_with("[quantities]\nmax_fact_age = \"0s\"\npolicy = \"ask\"\nmax_quantity_jump = 5\n")
            .await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.change("read", "quantity.adjust", adjust(&sku, warehouse, 0)).await;
    dock.push().await;
    dock.change("jump", "quantity.adjust", adjust(&sku, warehouse, 9)).await;
    dock.push().await;
    dock.done(&["outbox", "release", "--all"]).await;
    dock.push().await;
    dock.change("count", "quantity.set", set(&sku, warehouse, quantity + 7)).await;
    dock.sandbox.sell_units(&sku, warehouse, 1).await.unwrap();
    dock.push().await;
    let text = told(&dock, &[&sku, &warehouse.to_string()]).await;
    in_order(
        &text,
        &[
            &format!("already showed {quantity}, so no call was made: `read` adjust +0"),
            "change `jump` inserted: adjust +9; now applied",
            "a brake held `jump`: ",
            &format!("an operator released the changes that the brake held; by {}", operator()),
            &format!("sends {}: `jump` adjust +9 on {quantity}", quantity + 9),
            "others changed it by -1 since exchange",
            "change `count` is held (conflict)",
            "next: `count` needs a decision",
        ],
    );
}

#[tokio::test]
async fn a_long_story_is_cut_and_says_so_and_every_warehouse_has_its_own() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    for n in 0..4 {
        dock.change(&format!("a{n}"), "quantity.adjust", adjust(&sku, warehouse, 1)).await;
        dock.push().await;
    }
    let text = told(&dock, &[&sku, "--last", "3"]).await;
    assert_eq!(text.matches(" in warehouse ").count(), 3, "{text}");
    assert!(text.contains("  10 earlier steps\n"), "{text}");
    let all: Value = serde_json::from_str(&told(&dock, &[&sku.to_lowercase(), "--json"]).await).unwrap();
    assert_eq!(all["sku"], sku);
    let of = |level: &&Value| level["warehouse_id"] == warehouse;
    let level = all["stock_levels"].as_array().unwrap().iter().find(of).unwrap().clone();
    assert_eq!((&level["quantity"], &level["earlier_steps"]), (&json!(quantity + 4), &json!(0)));
    assert_eq!(level["steps"].as_array().unwrap().len(), 13);
    let positions: Vec<i64> =
        level["steps"].as_array().unwrap().iter().filter_map(|step| step["position"].as_i64()).collect();
    assert!(positions.is_sorted(), "{positions:?}");
}

#[tokio::test]
async fn a_sku_nobody_knows_and_one_that_may_be_several_are_named() {
    let dock = Dock::open().await;
    let (sku, warehouse, _) = level(&dock).await;
    dock.change("a", "quantity.adjust", adjust(&sku, warehouse, 1)).await;
    dock.push().await;
    let failed = async |args: &[&str]| {
        let output = explain(&dock, args).await;
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(failed(&["no such thing"]).await.contains("no stock level of no such thing is known"));
    assert!(failed(&[&sku, "999"]).await.contains("in warehouse 999"));
    let twin = format!(" {sku}");
    let (twin, of) = (quoted(&twin), quoted(&sku));
    dock.done_sql(&format!(
        "INSERT INTO product (sku, case_key, product_id) SELECT {twin}, case_key, 4711 FROM product \
         WHERE sku = {of}"
    ))
    .await;
    assert!(failed(&[&sku.to_lowercase()]).await.contains("name one of them exactly"));
    assert!(told(&dock, &[&sku]).await.contains("change `a`"));
    // No exchange brought this product, so it is removed again: the test ends with a comparison of projection
    // and mirror.
    dock.done_sql("DELETE FROM product WHERE product_id = 4711").await;
}
