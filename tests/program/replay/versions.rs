//! A new projection version.
//!
//! The mirror goes on behind a snapshot, and records that the last version could not read stay parked until the next
//! answer with them. The last version is simulated: its session has another number, and a record that this version
//! reads is parked.

use super::replayed::assert_replayed;
use super::shop::Shop;
use std::time::Duration;
use tallyd::exec::JournalRetention;
use tallyd::sync;
use tallyd::sync::PruneOptions;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The state that a version leaves which cannot read the first warehouse of a list.
const LAST_VERSION: &str = "
    CREATE TEMP TABLE odd AS SELECT max(id) AS id FROM exchange
        WHERE operation = 'GET /api/Warehouses' AND verdict = 'accepted' AND NOT is_ignored;
    INSERT INTO parked (exchange_id, record, why, raw) SELECT id, 0, 'there are no such warehouses', '{}' FROM odd;
    UPDATE exchange SET parked = 1 WHERE id = (SELECT id FROM odd);
    DELETE FROM warehouse WHERE id = (SELECT min(id) FROM warehouse);
    UPDATE session SET projection_version = 0";

const CHANGED: &str = "SELECT count(*) FROM event WHERE kind = 'projection.changed'";

async fn last_version(shop: &mut Shop) -> i64 {
    shop.end();
    let all = shop.number("SELECT count(*) FROM warehouse").await;
    shop.sql(LAST_VERSION).await;
    all
}

#[tokio::test]
async fn a_new_version_goes_on_behind_a_snapshot_and_reads_parked_records_with_the_next_answer() {
    let mut shop = Shop::open(3).await;
    shop.track_all().await;
    shop.read_all().await;
    let then = shop.context().now().to_rfc3339();
    shop.later(15 * DAY);
    let all = last_version(&mut shop).await;
    let refused = shop.cli(&["replay", "--into", shop.path("a.db").to_str().unwrap()]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("start the daemon once"), "{refused:?}");

    shop.restart().await;
    assert_eq!(
        shop.number("SELECT count(*) FROM warehouse").await,
        all - 1,
        "no fact changes without a read"
    );
    assert_eq!(shop.number(CHANGED).await, 1);
    assert_eq!(shop.number("SELECT count(*) FROM snapshot").await, 1);
    assert_replayed(&shop.database).await;
    let seam = shop.context().now().to_rfc3339();

    shop.later(DAY);
    shop.read_all().await;
    assert_eq!(shop.number("SELECT count(*) FROM warehouse").await, all, "the record is a fact by now");
    let context = shop.context();
    let kept = JournalRetention { keep_bodies: 14 * DAY, max_size: 1 << 30 };
    let pruned =
        sync::prune_journal(&context.store, kept, PruneOptions::default(), context.now()).await.unwrap();
    assert!(pruned.deleted.bodies > 0, "{pruned:?}");
    assert_replayed(&shop.database).await;
    let reached =
        shop.cli(&["replay", "--into", shop.path("b.db").to_str().unwrap(), "--until", &seam]).await;
    assert_eq!(reached.status.code(), Some(0), "{reached:?}");
    let known: i64 = shop.mirror("b.db").await.value("SELECT count(*) FROM warehouse").await;
    assert_eq!(known, all - 1);
    let refused =
        shop.cli(&["replay", "--into", shop.path("c.db").to_str().unwrap(), "--until", &then]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let answer = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(answer.contains("has another projection version"), "{answer}");

    shop.restart().await;
    assert_eq!(shop.number(CHANGED).await, 1, "the same version goes on as it was");
}
