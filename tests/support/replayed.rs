//! A check for every test with a daemon: the projection of its journal equals its mirror.

#![allow(unreachable_pub, clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

use std::path::{Path, PathBuf};
use tallyd::projection::{JournalReplay, ReplayReport};
use tallyd::store::{DatabaseLocation, TableComparison};

/// Projects the journal of a database into a fresh mirror and compares the two.
pub async fn replayed(database: impl Into<DatabaseLocation>) -> ReplayReport {
    let database = database.into();
    let into = fresh(database.path());
    let mut replay = JournalReplay::start_empty(&database, &into).await.unwrap();
    let end = replay.last_position(None).await.unwrap();
    replay.project_to(end, &mut |_| {}).await.unwrap();
    let replayed = replay.compare_mirrors(&into).await.unwrap();
    std::fs::remove_file(into).unwrap();
    replayed
}

/// Returns the path of a file that does not exist, beside the database.
fn fresh(database: &Path) -> PathBuf {
    (0..).map(|n| database.with_extension(format!("replayed-{n}"))).find(|file| !file.exists()).unwrap()
}

/// Asserts that the projection of the journal equals the mirror; a failure names the rows.
pub async fn assert_replayed(database: impl Into<DatabaseLocation>) {
    let replayed = replayed(database).await;
    let differing: Vec<&TableComparison> = replayed.tables.iter().filter(|table| !table.is_equal()).collect();
    assert!(differing.is_empty(), "the journal does not tell these facts: {differing:#?}");
}

/// Does the same at the end of a test without a runtime; does nothing if the test has failed already.
pub fn assert_replayed_on_drop(database: &DatabaseLocation) {
    if std::thread::panicking() || database.is_missing_file() {
        return;
    }
    let database = database.clone();
    let checked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(assert_replayed(&database));
    });
    assert!(checked.join().is_ok(), "the mirror is not the fold of its journal");
}
