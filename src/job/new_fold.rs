//! The first start of a version that folds otherwise (rules.md 40).
//!
//! What the last version recorded stays as it is: folded anew, the whole journal might come to other facts, and facts that
//! nobody read do not change. So the mirror is kept as a snapshot, the one time it is copied and not folded, because the
//! fold that could prove it is gone; prove it with `tallyd replay` before a new version is installed. Behind the snapshot
//! the event is written, and the exchanges it names, whose records the last version parked, are folded again. A replay
//! begins at that snapshot and does the same.

use super::fold::{self, FOLD};
use super::{JobError, Replay};
use crate::model::Timestamp;
use crate::store::{FOLD_CHANGED, Journal, Store, Write};
use serde_json::json;

/// A mirror that another version of the fold goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldChanged {
    /// The version that recorded it.
    pub from: i64,
    /// The version that goes on.
    pub to: i64,
    /// Exchanges that were folded again, for the records of theirs that were parked.
    pub folded_again: usize,
}

/// Goes on with the mirror by this version of the fold, if another one recorded it; part of the transaction that begins
/// the session, before anything else of it.
pub async fn go_on(store: &Store, write: &mut Write, at: Timestamp) -> Result<Option<FoldChanged>, JobError> {
    let mut journal = Journal::open(store.path()).await?;
    let Some(from) = journal.fold_version().await?.filter(|from| *from != FOLD) else { return Ok(None) };
    // A position of its own: the last pruning may have taken its snapshot at the one before.
    write.position_next().await?;
    write.snapshot_keep(&journal.snapshot().await?, at).await?;
    let ids = journal.exchanges_parked().await?;
    let detail = json!({"from": from, "to": FOLD, "exchanges": ids});
    write.event_append(at, FOLD_CHANGED, "fold", Some(&detail.to_string())).await?;
    for id in &ids {
        for (asking, ending) in journal.exchanges_named(&json!([id]).to_string()).await? {
            fold::again(write, &asking, &ending).await?;
        }
    }
    Ok(Some(FoldChanged { from, to: FOLD, folded_again: ids.len() }))
}

impl Replay {
    /// Refuses a journal that this version does not fold.
    pub(super) async fn is_ours(journal: &mut Journal) -> Result<(), JobError> {
        match journal.fold_version().await?.filter(|by| *by != FOLD) {
            None => Ok(()),
            Some(by) => Err(JobError::Implausible(format!(
                "cannot fold the journal: version {by} of the fold recorded the mirror, and this tallyd folds by \
                 version {FOLD}; start the daemon once, which takes a snapshot to go on from, or use the tallyd that \
                 recorded it"
            ))),
        }
    }
}
