//! What every test's daemon must have left behind: a journal whose fold is its mirror.

#![allow(unreachable_pub, clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

use std::path::{Path, PathBuf};
use tallyd::job::{Replay, Replayed};
use tallyd::store::Compared;

/// Folds the journal of a database into a fresh mirror and compares the two.
pub async fn replayed(database: &Path) -> Replayed {
    let into = fresh(database);
    let mut replay = Replay::begin(database, &into).await.unwrap();
    let end = replay.end(None).await.unwrap();
    replay.fold(end, &mut |_| {}).await.unwrap();
    let replayed = replay.compare(&into).await.unwrap();
    std::fs::remove_file(into).unwrap();
    replayed
}

/// A file that is not there, beside the database.
fn fresh(database: &Path) -> PathBuf {
    (0..).map(|n| database.with_extension(format!("replayed-{n}"))).find(|file| !file.exists()).unwrap()
}

/// Fails where the fold of the journal is not the mirror, naming the rows.
pub async fn assert_replayed(database: &Path) {
    let replayed = replayed(database).await;
    let differing: Vec<&Compared> = replayed.tables.iter().filter(|table| !table.is_equal()).collect();
    assert!(differing.is_empty(), "the journal does not tell these facts: {differing:#?}");
}

/// The same at the end of a test that has no runtime left to wait on; silent where the test has failed already.
pub fn assert_replayed_on_drop(database: &Path) {
    if std::thread::panicking() || !database.exists() {
        return;
    }
    let database = database.to_owned();
    let checked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(assert_replayed(&database));
    });
    assert!(checked.join().is_ok(), "the mirror is not the fold of its journal");
}
