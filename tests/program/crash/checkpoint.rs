//! A power cut during a checkpoint of the write-ahead log.
//!
//! The log was synced before, so it is whole. Of the pages copied from it into the file, the disk has any
//! subset, in any order, perhaps half a page. With each of them, the database opens with its old content and
//! can be checkpointed again. The pages are parsed from the log by its documented format, not by SQLite, so
//! that every stage can be produced.

use super::power::{self, History};
use sqlx::SqliteConnection;
use std::collections::BTreeMap;
use std::path::Path;

/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

/// Returns the page size and the pages that a checkpoint writes: of each the last committed content.
fn pages(wal: &[u8]) -> (usize, BTreeMap<usize, &[u8]>) {
    let number = |at: usize| u32::from_be_bytes(wal[at..at + 4].try_into().unwrap()) as usize;
    let size = number(8);
    let (mut committed, mut open) = (BTreeMap::new(), BTreeMap::new());
    for frame in (32..wal.len()).step_by(24 + size) {
        // A frame of an older generation of the log has another salt.
        if wal[frame + 8..frame + 16] != wal[16..24] {
            break;
        }
        open.insert(number(frame), &wal[frame + 24..frame + 24 + size]);
        if number(frame + 4) > 0 {
            committed.append(&mut open);
        }
    }
    (size, committed)
}

/// Returns the file with some of the pages, the last of them torn.
fn file(base: &[u8], size: usize, written: &[(usize, &[u8])], torn: Option<usize>) -> Vec<u8> {
    let mut file = base.to_vec();
    for (n, (page, content)) in written.iter().enumerate() {
        let end = torn.filter(|_| n + 1 == written.len()).map_or(size, |sectors| sectors * SECTOR % size);
        let at = (page - 1) * size;
        file.resize(file.len().max(at + size), 0);
        file[at..at + end].copy_from_slice(&content[..end]);
    }
    file
}

/// Returns every stage of a checkpoint in page order, and as many in other orders.
///
/// Each stage in page order stands there with its last page whole and torn.
fn stages(base: &[u8], wal: &[u8]) -> Vec<Vec<u8>> {
    let (size, pages) = pages(wal);
    let pages: Vec<_> = pages.into_iter().collect();
    assert!(pages.len() > 20, "{} pages are no checkpoint", pages.len());
    let mut stages = Vec::new();
    for n in 0..=pages.len() {
        stages.push(file(base, size, &pages[..n], None));
        stages.push(file(base, size, &pages[..n], Some(1 + n)));
        // Selects pages by a number that visits all residues.
        let some = pages.iter().enumerate().filter(|(place, _)| (place * 7 + n * n) % 5 < 2);
        let mut some: Vec<_> = some.map(|(_, page)| *page).collect();
        let places = some.len().max(1);
        some.rotate_left(n % places);
        stages.push(file(base, size, &some, Some(n)));
    }
    stages
}

/// Returns the changes and the journal of the database as text.
async fn told(db: &mut SqliteConnection) -> String {
    let sql = "SELECT (SELECT json_group_array(json_array(id, state, exchange_id, revision)) FROM outbox) \
               || (SELECT json_group_array(json_array(id, ended, verdict)) FROM exchange) \
               || (SELECT json_group_array(json_array(product, warehouse_id, quantity, own_delta)) \
                   FROM balance)";
    sqlx::query_scalar(sql).fetch_one(db).await.unwrap()
}

async fn told_of(path: &Path) -> String {
    told(&mut power::open(path).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stage_of_a_checkpoint_that_a_power_cut_leaves_opens_as_it_was_and_can_be_folded_again() {
    let Some(History { base, wal, left }) = power::history().await else { return };
    let mut expected = None;
    for (n, stage) in stages(&base, &wal).into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        std::fs::write(&path, &stage).unwrap();
        std::fs::write(power::beside(&path, "-wal"), &wal).unwrap();
        power::check(&path, wal.len(), &left).await;
        let answer = told_of(&path).await;
        assert_eq!(&answer, expected.get_or_insert_with(|| answer.clone()), "stage {n}");
        let mut db = power::open(&path).await;
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut db).await.unwrap();
        drop(db);
        assert_eq!(
            std::fs::metadata(power::beside(&path, "-wal")).map_or(0, |log| log.len()),
            0,
            "stage {n}"
        );
        power::check(&path, wal.len(), &left).await;
        assert_eq!(Some(told_of(&path).await), expected, "stage {n}, folded again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_without_its_log_is_noticed() {
    let Some(History { base, wal, .. }) = power::history().await else { return };
    let stages = stages(&base, &wal);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    std::fs::write(&path, &stages[stages.len() / 2]).unwrap();
    let mut db = power::open(&path).await;
    let sound = sqlx::query_scalar::<_, String>("PRAGMA integrity_check").fetch_one(&mut db).await;
    assert!(
        sound.is_err() || sound.unwrap() != "ok",
        "the stages are stages: without the log they are damage"
    );
}
