//! The size of the database at the full rate of calls with a daily pruning: constant after `keep_bodies`.
//!
//! Long, so only on request: `cargo test --test program -- --ignored full_rate --nocapture`.
//!
//! | variable | meaning | default |
//! | --- | --- | --- |
//! | `TALLYD_DAYS` | simulated days | 6 |
//! | `TALLYD_KEEP` | days that bodies are kept | 2 |
//! | `TALLYD_CALLS` | calls a day; 120 a minute | 172800 |
//! | `TALLYD_MOVES` | calls of these with a new answer | 200 |
//!
//! Most answers of a poll at that rate repeat the last one. They are copied within the database, as in
//! `long.rs`; the others, the changes and the prunings are real.

use super::long::copy_last_read;
use super::replayed::assert_replayed;
use super::retention::{DAY, change_and_read, prune};
use super::shop::Shop;
use tallyd::exec::JournalRetention;
use tallyd::model::JobKind;

fn number(name: &str, usual: u32) -> u32 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// A day of polling: new answers spread over it, and repeated ones between them.
async fn polled(shop: &Shop, calls: u32, moves: u32) {
    let levels: Vec<_> =
        shop.sandbox.stock_levels().await.unwrap().into_iter().filter(|row| row.quantity > 0).collect();
    for n in 0..moves {
        let level = &levels[n as usize % levels.len()];
        // If the stock is sold out, nothing moves and the answer is a repeated one.
        drop(shop.sandbox.sell_units(&level.sku, level.warehouse_id, 1).await);
        shop.run(JobKind::Balances).await;
        let copies = i64::from(calls / moves) - 1;
        copy_last_read(shop, copies, 500).await;
        shop.later(DAY / moves);
    }
}

#[tokio::test]
#[ignore = "long: see the head of this file"]
async fn at_the_full_rate_the_database_stands_still_behind_its_window() {
    let (days, keep) = (number("TALLYD_DAYS", 6), number("TALLYD_KEEP", 2));
    let (calls, moves) = (number("TALLYD_CALLS", 172_800), number("TALLYD_MOVES", 200));
    let shop = Shop::open(2).await;
    shop.track_all().await;
    let kept = JournalRetention { keep_bodies: keep * DAY, max_size: 1 << 30 };
    let mut used = Vec::new();
    for number in 0..days {
        change_and_read(&shop, i64::from(number)).await;
        polled(&shop, calls, moves).await;
        let pruned = prune(&shop, kept).await;
        used.push(pruned.used_bytes);
        let left = shop.number("SELECT count(*) FROM exchange").await;
        let bodies = shop.number("SELECT count(*) FROM body").await;
        println!(
            "day {number}: {:.1} MiB in use, {left} exchanges, {bodies} bodies; {pruned}",
            pruned.used_bytes as f64 / 1048576.0
        );
    }
    // More than the window is kept, because the pruned part must lie before a snapshot.
    let full = used[(keep + 2) as usize];
    let last = used[used.len() - 1];
    // Kept for ever: each day's change with its write, and the events of the day's pruning.
    let for_ever = 2048 * u64::from(days);
    assert!(last < full + full / 20 + for_ever, "{used:?}");
    assert_replayed(&shop.database).await;
}
