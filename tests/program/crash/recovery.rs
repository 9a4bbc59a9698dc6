//! The start after a crash: open entries of the journal are closed at once, for any length of the history.

use super::rig::{self, Moved};
use crate::support::World;
use std::time::{Duration, Instant};

/// A journal of a million exchanges in ten thousand runs, with an open end.
///
/// The last run and its exchange are open, and their change is being sent.
const HISTORY: &str = "
INSERT INTO session (boot_id, version, started_ms) VALUES ('another boot', 'test', 1);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
INSERT INTO run (session_id, job, trigger, started_ms, ended_ms, outcome, summary)
SELECT 1, 'balances', 'schedule', i, i + 1, 'ok', 'read' FROM n;
INSERT INTO body (digest, size, packed) VALUES (DIGEST, 2, PACKED);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
INSERT INTO exchange (id, run_id, session_id, operation, target, lane, request_body_id, sent_ms, sent_moment, ended,
                      answered_ms, answered_moment, verdict, status, response_body_id)
SELECT 2 * i - 1, 1 + i / 101, 1, 'POST /api/product/getProductBalances', '/api/product/getProductBalances', 'poll', 1,
       i, i, 2 * i, i, i, 'accepted', 200, 1 FROM n;
INSERT INTO run (session_id, job, trigger, started_ms) VALUES (1, 'push', 'outbox', 5);
INSERT INTO exchange (id, run_id, session_id, operation, target, lane, sent_ms, sent_moment)
VALUES (2000001, 10001, 1, 'POST /api/inventory/updateQuantityOnHand', '/', 'push', 5, 5);
UPDATE journal_sequence SET position = 2000001;
INSERT INTO outbox (key, kind, body) VALUES ('w', 'quantity.adjust', '{\"sku\":\"A\",\"warehouse_id\":1,\"delta\":1}');
UPDATE outbox SET revision = revision + 1, state_changed_ms = 1, state = 'sending', exchange_id = 2000001;
";

/// Returns the statements of that journal in the words of the engine.
fn history(world: &World) -> String {
    let (digest, packed) = match world.location.server() {
        Some(_) => ("decode(repeat('00', 16), 'hex')", "decode('00', 'hex')"),
        None => ("zeroblob(16)", "x'00'"),
    };
    HISTORY.replace("DIGEST", digest).replace("PACKED", packed)
}

/// Creates the position file, which a daemon leaves before its first session.
fn in_use(world: &World) {
    std::fs::write(world.path.with_file_name("tallyd.db.position"), "").unwrap();
}

/// Ignored by default: `cargo test --test program -- --ignored million --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds a million rows"]
async fn the_start_after_a_crash_with_a_million_exchanges_takes_less_than_five_seconds() {
    let world = World::new().await;
    world.make().await;
    in_use(&world);
    world.sql(&history(&world)).await;
    let clock = Moved::new();
    #[expect(clippy::disallowed_methods, reason = "it is this machine's time that is measured")]
    let started = Instant::now();
    let daemon = rig::daemon(&world, "", &clock).await;
    let took = started.elapsed();
    println!("started in {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(world.fate("w").await.0, "in_doubt");
    assert_eq!(world.number("SELECT count(*) FROM run WHERE outcome = 'interrupted'").await, 1);
    assert_eq!(world.number("SELECT count(*) FROM exchange WHERE verdict = 'interrupted'").await, 1);
    drop(daemon);
}

#[tokio::test]
async fn a_start_closes_what_was_open_and_touches_nothing_else() {
    let world = World::new().await;
    world.make().await;
    in_use(&world);
    let short = history(&world).replace("i < 1000000", "i < 1000").replace("1 + i / 101", "1");
    world.sql(&short).await;
    let daemon = rig::daemon(&world, "", &Moved::new()).await;
    assert_eq!(world.fate("w").await.1, "no_answer");
    assert_eq!(world.number("SELECT count(*) FROM run WHERE outcome = 'running'").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM run WHERE outcome = 'ok'").await, 10_000);
    assert_eq!(world.number("SELECT count(*) FROM exchange WHERE verdict = 'accepted'").await, 1000);
    drop(daemon);
}
