//! `outbox`: lists that count all, filters, names of changes, and decisions on many of them.

use crate::delivery::support::Dock;
use serde_json::{Value, json};

/// A shop that was read once, and its stock levels with stock: SKU, warehouse, quantity.
async fn shop() -> (Dock, Vec<(String, i64, i64)>) {
    let dock = Dock::open().await;
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let levels = stock.into_iter().map(|row| (row.sku, row.warehouse_id, row.quantity));
    (dock, levels.filter(|(.., quantity)| *quantity > 0).collect())
}

async fn adjust(dock: &Dock, key: &str, (sku, warehouse, _): &(String, i64, i64), delta: i64) {
    let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": delta});
    dock.change(key, "quantity.adjust", body).await;
}

/// Inserts an adjust that is held, because it would take more than there is.
async fn too_much(dock: &Dock, key: &str, level: &(String, i64, i64)) {
    adjust(dock, key, level, -level.2 - 5).await;
}

/// Inserts counts of zero until the brake trips; returns their number.
async fn flood(dock: &Dock, levels: &[(String, i64, i64)]) -> usize {
    dock.track_all_skus().await;
    dock.run(tallyd::model::JobKind::Balances).await;
    for (n, (sku, warehouse, _)) in levels.iter().enumerate() {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 0});
        dock.change(&format!("flood-{n:03}"), "quantity.set", body).await;
    }
    dock.push().await;
    assert_eq!(dock.reason("flood-000").await, "brake");
    levels.len()
}

#[tokio::test]
async fn the_list_counts_all_shows_what_is_open_and_says_a_sentence_once() {
    let (dock, levels) = shop().await;
    adjust(&dock, "done", &levels[0], 1).await;
    dock.push().await;
    let said = dock.done(&["outbox", "list"]).await;
    assert_eq!(said, "no change is open; 1 finished: tallyd outbox list --all\n");
    assert!(dock.done(&["outbox", "list", "--all"]).await.contains("applied: 1 change\n"));
    let flooded = flood(&dock, &levels).await;
    let said = dock.done(&["outbox", "list", "--limit", "5"]).await;
    let heading =
        format!("held, brake: {flooded} changes, the newest 5 shown\nwhat to do: check the numbers");
    assert!(said.starts_with(&heading), "{said}");
    assert_eq!(said.matches("would become 0").count(), 1, "{said}");
    assert_eq!(said.matches("flood-").count(), 5, "{said}");
    assert!(!said.contains("done"), "{said}");
    let open: Value = serde_json::from_str(&dock.done(&["outbox", "list", "--json"]).await).unwrap();
    assert_eq!(open.as_array().unwrap().len(), flooded.min(100));
    let cut = dock.done(&["outbox", "list", "--all", "--limit", "1"]).await;
    assert!(cut.contains("applied: 1 change, none of them among the newest\n"), "{cut}");
}

#[tokio::test]
async fn a_rejected_change_leaves_the_list_when_it_is_acknowledged() {
    let (dock, _) = shop().await;
    assert_eq!(
        dock.done(&["outbox", "list"]).await,
        "the outbox is empty: no change was ever queued\n",
        "an empty list says so"
    );
    dock.change("odd", "quantity.move", json!({})).await;
    dock.push().await;
    assert!(dock.done(&["outbox", "list"]).await.contains("rejected, bad_body: 1 change"));
    dock.done(&["outbox", "acknowledge", "odd"]).await;
    assert!(dock.done(&["outbox", "list"]).await.starts_with("no change is open"));
    assert!(dock.done(&["outbox", "list", "--state", "rejected"]).await.contains("odd"));
}

#[tokio::test]
async fn a_list_is_filtered_by_sku_reason_age_kind_and_key() {
    let (dock, levels) = shop().await;
    let other = levels.iter().find(|level| level.0 != levels[0].0).unwrap();
    too_much(&dock, "feed:1", &levels[0]).await;
    too_much(&dock, "feed:2", other).await;
    dock.change("odd", "quantity.move", json!({})).await;
    dock.push().await;
    let lower = levels[0].0.to_lowercase();
    assert_ne!(lower, levels[0].0);
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--sku", &levels[0].0], &["feed:1"]),
        (&["--sku", &lower], &["feed:1"]),
        (&["--reason", "negative"], &["feed:2", "feed:1"]),
        (&["--key-prefix", "feed:"], &["feed:2", "feed:1"]),
        (&["--kind", "quantity.adjust", "--key-prefix", "feed:2"], &["feed:2"]),
        (&["--newer-than", "1h"], &["odd", "feed:2", "feed:1"]),
        (&["--older-than", "0s", "--reason", "bad_body"], &["odd"]),
        (&["--older-than", "1h"], &[]),
    ];
    for (filter, expected) in cases {
        let said = dock.done(&[&["outbox", "list", "--json"], filter].concat()).await;
        let rows: Value = serde_json::from_str(&said).unwrap();
        let keys: Vec<&str> =
            rows.as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
        assert_eq!(keys, expected, "{filter:?}");
    }
    assert_eq!(dock.done(&["outbox", "list", "--older-than", "1h"]).await, "no change matches\n");
    for wrong in [&["--reason", "because"][..], &["--kind", "fly"], &["--older-than", "soon"]] {
        assert_eq!(dock.tallyd(&[&["outbox", "list"], wrong].concat()).await.0, 2, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_change_is_named_by_its_id_or_by_the_first_characters_of_its_key() {
    let (dock, levels) = shop().await;
    for (key, level) in ["cli-2026-a", "cli-2026-b", "9-lives"].iter().zip(&levels) {
        too_much(&dock, key, level).await;
    }
    dock.push().await;
    let id = dock.number("SELECT id FROM outbox WHERE key = 'cli-2026-b'").await.to_string();
    for name in ["cli-2026-b", &id, "9"] {
        let said = dock.done(&["outbox", "show", name]).await;
        let key = if name == "9" { "9-lives" } else { "cli-2026-b" };
        assert!(said.contains(&format!("key            {key}\n")), "{name}: {said}");
    }
    let said = dock.refused(&["outbox", "show", "cli"]).await;
    assert!(said.contains("write more of the key: cli-2026-a, cli-2026-b"), "{said}");
    assert!(dock.refused(&["outbox", "show", "no"]).await.contains("no change with this key or id"));
    let said = dock.refused(&["outbox", "cancel", "cli", &id]).await;
    assert!(said.contains("cli: not cancelled: several changes may be meant"), "{said}");
    assert!(said.contains("cli-2026-b: cancelled\n"), "{said}");
    assert_eq!(dock.state("cli-2026-a").await, "held", "an ambiguous name decides nothing");
}

#[tokio::test]
async fn a_release_that_lets_nothing_go_says_why_and_what_does() {
    let (dock, levels) = shop().await;
    let said = dock.refused(&["outbox", "release", "--all"]).await;
    assert!(said.starts_with("no brake holds a change"), "{said}");
    too_much(&dock, "below", &levels[0]).await;
    dock.push().await;
    let said = dock.refused(&["outbox", "release", "below", "nobody"]).await;
    assert!(
        said.contains("below: not released: it is held (negative): no brake holds it; count the stock level"),
        "{said}"
    );
    assert!(said.contains("`tallyd outbox cancel below`"), "{said}");
    assert!(said.contains("nobody: not released: there is no change with this key"), "{said}");
    assert!(!said.contains("0 changes released"), "{said}");
    flood(&dock, &levels[1..]).await;
    let said = dock.refused(&["outbox", "release", "flood-000", "below"]).await;
    assert!(said.contains("1 change released") && said.contains("below: not released"), "{said}");
    assert_eq!(dock.number("SELECT count(*) FROM event WHERE kind = 'brake.released'").await, 1);
}

#[tokio::test]
async fn many_changes_are_decided_at_once_after_a_look_at_them() {
    let (dock, levels) = shop().await;
    let count = 25;
    for (n, level) in levels.iter().take(count).enumerate() {
        too_much(&dock, &format!("bad-{n:02}"), level).await;
    }
    dock.push().await;
    adjust(&dock, "waits", &levels[count], 1).await;
    let held = "SELECT count(*) FROM outbox WHERE state = 'held'";
    let cancelled = "SELECT count(*) FROM outbox WHERE state = 'cancelled'";

    let said = dock.done(&["outbox", "cancel", "--all"]).await;
    assert!(said.starts_with("held, negative: 25 changes"), "{said}");
    assert!(said.contains("pending: 1 change"), "{said}");
    assert!(
        said.contains("26 changes selected; nothing was cancelled. Repeat the command with --yes"),
        "{said}"
    );
    assert_eq!(dock.number(cancelled).await, 0);

    let said = dock.done(&["outbox", "retry", "--reason", "negative", "--yes"]).await;
    assert!(said.starts_with("25 changes retried, 0 not retried"), "{said}");
    assert_eq!(dock.number(held).await, 0);
    dock.push().await;
    assert_eq!(dock.number(held).await, 25, "the cause is still there");

    let sku = &levels[0].0;
    dock.done(&["outbox", "cancel", "--reason", "negative", "--sku", sku, "--yes"]).await;
    let of_sku = levels.iter().take(count).filter(|level| level.0 == *sku).count();
    assert_eq!(usize::try_from(dock.number(cancelled).await).unwrap(), of_sku, "no other SKU");
    dock.done(&["outbox", "cancel", "--all", "--yes"]).await;
    assert_eq!(dock.number(held).await, 0);
    let said = dock.done(&["outbox", "cancel", "--all", "--yes"]).await;
    assert_eq!(said, "no pending or held change matches; nothing was cancelled\n");

    for wrong in [&["cancel"][..], &["cancel", "x", "--reason", "brake"], &["retry", "x", "--all"]] {
        let (code, said) = dock.tallyd(&[&["outbox"], wrong].concat()).await;
        assert_eq!(code, 2, "{wrong:?}: {said}");
    }
}

#[tokio::test]
async fn a_retry_of_many_names_those_that_only_a_release_lets_go() {
    let (dock, levels) = shop().await;
    let flooded = flood(&dock, &levels).await;
    let said = dock.refused(&["outbox", "retry", "--all", "--yes"]).await;
    assert!(said.starts_with(&format!("0 changes retried, {flooded} not retried")), "{said}");
    assert!(
        said.contains("flood-000: not retried: it is held (brake): only a release ends this hold"),
        "{said}"
    );
    assert_eq!(said.matches("flood-").count() / 3, 20, "each has its key in three commands: {said}");
    assert!(said.ends_with(&format!("and {} more\n", flooded - 20)), "{said}");
}
