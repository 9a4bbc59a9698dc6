//! The speed and memory of the projection of a long journal.
//!
//! Long, so only on request: `cargo test --test program -- --ignored a_long_journal --nocapture`;
//! `TALLYD_EXCHANGES` sets the length.

use super::replayed::replayed;
use super::shop::Shop;
use std::time::Instant;
use tallyd::model::JobKind;

/// Copies of the last read of balances, as if an idle account had been polled.
///
/// The mirror then rests on the last copy.
const COPIES: &str = "
    CREATE TEMP TABLE last AS SELECT * FROM exchange WHERE id = (
        SELECT max(id) FROM exchange WHERE operation LIKE '%getProductBalances');
    CREATE TEMP TABLE base AS SELECT position FROM journal_sequence;
    INSERT INTO exchange (id, run_id, session_id, operation, target, lane, request_body_id, sent_ms, sent_moment, ended,
                          answered_ms, answered_moment, verdict, status, response_body_id)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {N})
    SELECT base.position + 2 * i, run_id, session_id, operation, target, lane, request_body_id, sent_ms + {MS} * i,
           sent_moment + {MS} * i, base.position + 2 * i + 1, answered_ms + {MS} * i, answered_moment + {MS} * i, verdict,
           status, response_body_id
    FROM n, last, base;
    UPDATE journal_sequence SET position = position + 2 * {N} + 1;
    UPDATE read_batch SET exchange_id = (SELECT max(id) FROM exchange),
        observed_ms = (SELECT max(sent_ms) FROM exchange)
    WHERE exchange_id = (SELECT id FROM last)";

/// Copies the last read of balances `copies` times, `apart_ms` milliseconds apart.
pub async fn copy_last_read(shop: &Shop, copies: i64, apart_ms: i64) {
    shop.sql(&COPIES.replace("{N}", &copies.to_string()).replace("{MS}", &apart_ms.to_string())).await;
}

#[tokio::test]
#[ignore = "long: see the head of this file"]
async fn a_long_journal_is_folded_in_bounded_memory() {
    let copies: i64 = std::env::var("TALLYD_EXCHANGES").map_or(100_000, |text| text.parse().unwrap());
    let shop = Shop::open(1).await;
    shop.track_all().await;
    shop.run(JobKind::Balances).await;
    copy_last_read(&shop, copies, 1000).await;
    let begun = Instant::now();
    let equal = replayed(&shop.database).await;
    let seconds = begun.elapsed().as_secs_f64();
    assert!(equal.tables.iter().all(tallyd::store::TableComparison::is_equal), "{equal:?}");
    let skus = shop.number("SELECT count(*) FROM tracked_sku").await;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!(
        "{copies} exchanges of {skus} SKUs each in {seconds:.0} s: {:.0} exchanges/s; peak of the whole process, the sandbox \
         in it: {peak}",
        copies as f64 / seconds
    );
}
