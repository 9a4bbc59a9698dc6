//! Upgrade of the mirror to another projection version (docs/rules.md 40).
//!
//! Recorded facts stay as they are. Rebuilding the mirror could derive other facts from old answers, and no
//! fact changes without a read. The mirror is therefore copied into a snapshot. Only here a snapshot is a
//! copy, because the old projection that could prove it is gone; prove it with `tallyd replay` before an
//! upgrade. An event follows the snapshot, and the exchanges that it names, with parked records, are
//! projected again. A replay starts at that snapshot and does the same.

use super::Replay;
use super::{FOLD, apply};
use crate::model::Timestamp;
use crate::projection::ProjectionError;
use crate::store::{FOLD_CHANGED, Journal, Store, Write};
use serde_json::json;

/// An upgrade of the mirror to another projection version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldChanged {
    /// The version that recorded the mirror.
    pub from: i64,
    /// The version of this program.
    pub to: i64,
    /// Number of exchanges with parked records that were projected again.
    pub folded_again: usize,
}

/// Upgrades the mirror if another projection version recorded it. Returns the upgrade, if there was one.
///
/// Must run first in the transaction that begins the session.
pub async fn go_on(
    store: &Store,
    write: &mut Write,
    at: Timestamp,
) -> Result<Option<FoldChanged>, ProjectionError> {
    let mut journal = Journal::open(store.path()).await?;
    let Some(from) = journal.fold_version().await?.filter(|from| *from != FOLD) else { return Ok(None) };
    // A position of its own, because the last pruning may have its snapshot at the one before.
    write.position_next().await?;
    write.snapshot_keep(&journal.snapshot().await?, at).await?;
    let ids = journal.exchanges_parked().await?;
    let detail = json!({"from": from, "to": FOLD, "exchanges": ids});
    write.event_append(at, FOLD_CHANGED, "fold", Some(&detail.to_string())).await?;
    for id in &ids {
        for (asking, ending) in journal.exchanges_named(&json!([id]).to_string()).await? {
            apply::again(write, &asking, &ending).await?;
        }
    }
    Ok(Some(FoldChanged { from, to: FOLD, folded_again: ids.len() }))
}

impl Replay {
    /// Refuses a journal of another projection version.
    pub(super) async fn is_ours(journal: &mut Journal) -> Result<(), ProjectionError> {
        match journal.fold_version().await?.filter(|by| *by != FOLD) {
            None => Ok(()),
            Some(by) => Err(ProjectionError::Damaged(format!(
                "cannot fold the journal: version {by} of the fold recorded the mirror, and this tallyd folds by \
                 version {FOLD}; start the daemon once, which takes a snapshot to go on from, or use the tallyd that \
                 recorded it"
            ))),
        }
    }
}
