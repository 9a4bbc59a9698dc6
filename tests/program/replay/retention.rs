//! Retention: bodies are pruned by age and size, identities stay, and only behind a snapshot that equals the
//! live mirror.

use super::replayed::assert_replayed;
use super::shop::Shop;
use serde_json::json;
use std::time::Duration;
use tallyd::exec::JournalRetention;
use tallyd::model::JobKind;
use tallyd::sync;
use tallyd::sync::{PruneOptions, PruneReport};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const KEPT: JournalRetention =
    JournalRetention { keep_bodies: Duration::from_secs(14 * 24 * 60 * 60), max_size: 1 << 30 };

pub async fn prune(shop: &Shop, retention: JournalRetention) -> PruneReport {
    let context = shop.context();
    sync::prune_journal(&context.store, retention, PruneOptions::default(), context.now()).await.unwrap()
}

/// Runs a day with a change.
async fn day(shop: &Shop, number: i64) {
    change_and_read(shop, number).await;
    shop.later(DAY);
}

/// Inserts and pushes a count, and runs every read.
pub async fn change_and_read(shop: &Shop, number: i64) {
    let level = shop.sandbox.stock_levels().await.unwrap()[0].clone();
    let body = json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "quantity": 10 + number});
    shop.change(&format!("count-{number}"), "quantity.set", body).await;
    shop.run(JobKind::Push).await;
    shop.read_all().await;
}

#[tokio::test]
async fn old_bodies_go_and_the_snapshot_and_what_follows_still_make_the_mirror() {
    let shop = Shop::open(2).await;
    shop.track_all().await;
    day(&shop, 0).await;
    assert_eq!(prune(&shop, KEPT).await.pruned_to, None, "nothing is old yet");
    assert_eq!(shop.number("SELECT count(*) FROM snapshot").await, 0, "and nothing is written for it");
    shop.later(15 * DAY);
    day(&shop, 1).await;
    let now = shop.context().now().0;
    let [old, young] = [26, 24].map(|hours| format!("(1, 1, {hours}, {}, 2)", now - hours * 3_600_000));
    shop.sql(&format!("INSERT INTO units_taken VALUES {old}, {young}")).await;
    let writes = "SELECT count(*) FROM exchange WHERE operation LIKE '%updateQuantityOnHand'";
    let before = shop.number(writes).await;
    let pruned = prune(&shop, KEPT).await;
    assert_eq!(shop.number("SELECT position FROM units_taken WHERE product = 1").await, 24);
    assert!(pruned.deleted.bodies > 0 && !pruned.is_by_size, "{pruned:?}");
    assert_eq!(pruned.deleted.exchanges, 0, "exchanges stay until the last snapshot but one is behind them");
    assert_replayed(&shop.database).await;
    let never = shop.path("never.db");
    let refused = shop.cli(&["replay", "--into", never.to_str().unwrap(), "--until", "2020-01-01"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(!never.exists(), "what failed leaves no file that looks like a mirror");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("was pruned"), "{refused:?}");

    shop.later(15 * DAY);
    day(&shop, 2).await;
    let pruned = prune(&shop, KEPT).await;
    assert!(pruned.deleted.exchanges > 0 && pruned.deleted.runs > 0, "{pruned:?}");
    assert_eq!(shop.number(writes).await, before + 1, "exchanges of writes are kept for ever");
    assert_eq!(shop.number("SELECT count(*) FROM outbox").await, 3);
    assert_eq!(shop.number("SELECT count(*) FROM snapshot").await, 2);
    assert_replayed(&shop.database).await;
    day(&shop, 3).await;
    assert_replayed(&shop.database).await;
}

#[tokio::test]
async fn a_mirror_that_is_not_the_fold_keeps_its_journal_whole() {
    let shop = Shop::open(2).await;
    day(&shop, 0).await;
    shop.later(15 * DAY);
    shop.sql("UPDATE warehouse SET name = 'planted'").await;
    let context = shop.context();
    let refused =
        sync::prune_journal(&context.store, KEPT, PruneOptions::default(), context.now()).await.unwrap_err();
    assert!(refused.to_string().contains("nothing was pruned"), "{refused}");
    assert!(refused.to_string().contains("warehouse"), "{refused}");
    assert_eq!(shop.number("SELECT count(*) FROM snapshot").await, 0);
    assert_eq!(
        shop.number("SELECT count(*) FROM exchange WHERE response_body_id IS NULL AND verdict = 'accepted'")
            .await,
        0
    );
}

#[tokio::test]
async fn size_wins_over_age_and_bodies_of_unsettled_changes_stay() {
    let shop = Shop::open(2).await;
    shop.track_all().await;
    shop.fault("POST /api/inventory/updateQuantityOnHand", &json!({"Drop": "before"})).await;
    day(&shop, 0).await;
    assert_eq!(shop.number("SELECT count(*) FROM outbox WHERE state = 'in_doubt'").await, 1);
    let dry = PruneOptions { is_dry_run: true, is_by_operator: true };
    let tight = JournalRetention { max_size: 1, ..KEPT };
    let context = shop.context();
    let would = sync::prune_journal(&context.store, tight, dry, context.now()).await.unwrap();
    assert!(would.deleted.bodies > 0 && would.is_by_size, "{would:?}");
    assert_eq!(shop.number("SELECT count(*) FROM snapshot").await, 0, "a dry run changes nothing");
    assert!(prune(&shop, tight).await.is_by_size);
    let kept = "SELECT count(*) FROM exchange WHERE request_body_id IS NOT NULL AND operation LIKE '%updateQuantityOnHand'";
    assert_eq!(shop.number(kept).await, 1, "what is in doubt can still be looked into");
    assert_eq!(shop.number("SELECT count(*) FROM body").await, shop.number(
        "SELECT count(DISTINCT id) FROM (SELECT request_body_id AS id FROM exchange UNION SELECT response_body_id FROM exchange) bodies \
         WHERE id IS NOT NULL").await);
    shop.run(JobKind::Settle).await;
    assert_replayed(&shop.database).await;
    let answer = shop.cli(&["status"]).await;
    assert!(String::from_utf8_lossy(&answer.stdout).contains("journal.max_size"), "{answer:?}");
}

#[tokio::test]
async fn after_a_jump_of_the_clock_nothing_goes_by_age_until_a_person_says_so() {
    let mut shop = Shop::open(2).await;
    day(&shop, 0).await;
    shop.jump(40 * DAY);
    day(&shop, 1).await;
    let pruned = prune(&shop, KEPT).await;
    assert!(
        pruned.clock_jump.is_some_and(|jump| jump > 39 * DAY) && pruned.pruned_to.is_none(),
        "{pruned:?}"
    );
    shop.run(JobKind::Prune).await;
    let answer = shop.cli(&["status", "--json"]).await;
    let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    let found = answer["findings"].as_array().unwrap().iter().find(|found| found["code"] == "not_pruned");
    let found = found.unwrap_or_else(|| panic!("{answer}"));
    assert!(found["text"].as_str().unwrap().contains("the clock jumped by 9"), "{found}");
    assert!(found["what_to_do"].as_str().unwrap().ends_with("tallyd job run prune"), "{found}");
    shop.end();
    let said = shop.cli(&["journal", "prune", "--dry-run"]).await;
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("nothing was changed"), "{said:?}");
}

#[tokio::test]
async fn a_jump_of_the_clock_is_over_once_a_person_pruned_also_where_nothing_was_old() {
    let shop = Shop::open(2).await;
    day(&shop, 0).await;
    shop.jump(40 * DAY);
    day(&shop, 1).await;
    let kept = JournalRetention { keep_bodies: 100 * DAY, ..KEPT };
    assert!(prune(&shop, kept).await.clock_jump.is_some());
    let context = shop.context();
    let by_hand = PruneOptions { is_by_operator: true, is_dry_run: false };
    let pruned = sync::prune_journal(&context.store, kept, by_hand, context.now()).await.unwrap();
    assert_eq!((pruned.deleted.bodies, pruned.clock_jump), (0, None), "{pruned:?}");
    assert_eq!(prune(&shop, kept).await.clock_jump, None, "the person has looked at it");
    assert_replayed(&shop.database).await;
}

#[tokio::test]
async fn what_a_stock_level_once_held_is_forgotten_with_the_bodies_but_for_the_newest_and_for_open_counts() {
    let shop = Shop::open(2).await;
    shop.track_all().await;
    shop.run(JobKind::Warehouses).await;
    let stock = shop.sandbox.stock_levels().await.unwrap();
    let (moves, rests) =
        (&stock[0], stock.iter().find(|row| row.sku != stock[0].sku && row.quantity > 12).unwrap());
    for day in 0..24 {
        for (name, level) in [("moves", moves), ("rests", rests)] {
            if day < 12 || name == "moves" {
                let body =
                    json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "quantity": 30 + day});
                shop.change(&format!("{name}-{day}"), "quantity.set", body).await;
            }
        }
        shop.run(JobKind::Push).await;
        shop.later(DAY);
    }
    let pairs = |level: &tallyd::sandbox::SandboxStockLevel| {
        format!(
            "SELECT count(*) FROM balance_history h JOIN product p ON p.id = h.product \
             WHERE p.sku = '{}' AND h.warehouse_id = {}",
            level.sku, level.warehouse_id
        )
    };
    let kept = JournalRetention { keep_bodies: 6 * DAY, ..KEPT };
    let held = json!({"sku": moves.sku, "warehouse_id": moves.warehouse_id, "quantity": 1, "seen": 2});
    shop.change("open", "quantity.set", held).await;
    let pruned = prune(&shop, kept).await;
    assert_eq!(pruned.deleted.history, 7, "{pruned:?}");
    assert_eq!(shop.number(&pairs(rests)).await, 5, "the newest stay, however old");
    assert_eq!(shop.number(&pairs(moves)).await, 24, "a count that waits may need any of them");
    assert_replayed(&shop.database).await;

    shop.run(JobKind::Push).await;
    shop.later(DAY);
    let pruned = prune(&shop, kept).await;
    assert!(pruned.deleted.history > 0, "{pruned:?}");
    assert!((5..10).contains(&shop.number(&pairs(moves)).await), "those of the days that are kept");
    assert_replayed(&shop.database).await;
}

/// The database stops growing over `TALLYD_DAYS` days of polling, each of `TALLYD_ROUNDS` rounds of all
/// reads.
#[tokio::test]
async fn the_journal_stops_growing() {
    let number =
        |name: &str, usual: u32| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (days, rounds) = (number("TALLYD_DAYS", 12), number("TALLYD_ROUNDS", 1));
    let shop = Shop::open(2).await;
    shop.track_all().await;
    let kept = JournalRetention { keep_bodies: 3 * DAY, ..KEPT };
    let mut used = Vec::new();
    for number in 0..days {
        for _ in 0..rounds {
            shop.read_all().await;
        }
        day(&shop, i64::from(number)).await;
        if shop.database.server().is_some() {
            // As the server does by itself within minutes; the days of this test take less.
            shop.sql("VACUUM").await;
        }
        used.push(prune(&shop, kept).await.used_bytes);
    }
    let (half, last) = (used[used.len() / 2], used[used.len() - 1]);
    let calls = shop.sandbox.logged_calls().len();
    println!("{days} days, {calls} calls: {half} bytes in use after half of them, {last} at the end");
    // Kept for ever are a change and its write; each day has one.
    let for_ever = 2048 * u64::from(days);
    assert!(last < half + half / 10 + for_ever, "{used:?}");
    let old = shop.context().now().minus(6 * DAY).0;
    let reads = format!(
        "SELECT count(*) FROM exchange WHERE answered_ms < {old} AND operation NOT LIKE '%updateQuantityOnHand' \
         AND id NOT IN (SELECT exchange_id FROM outbox WHERE exchange_id IS NOT NULL)"
    );
    assert_eq!(shop.number(&reads).await, 0, "no read outlives its bodies and two snapshots");
    assert_replayed(&shop.database).await;
}
