//! Upgrade of the mirror to another projection version (docs/rules.md 21).
//!
//! Recorded facts stay as they are. Rebuilding the mirror could derive other facts from old answers, and no
//! fact changes without a read. The mirror is therefore copied into a snapshot. Only here a snapshot is a
//! copy, because the old projection that could prove it is gone; prove it with `tallyd replay` before an
//! upgrade. An event follows the snapshot, and a replay starts there. A record that the last version could not read
//! stays parked; the next answer with it brings the fact.

use super::{JournalReplay, PROJECTION_VERSION, ProjectionError};
use crate::model::Timestamp;
use crate::store::{DatabaseLocation, JournalReader, PROJECTION_CHANGED, Store, WriteTransaction};
use serde_json::json;

/// Upgrades the mirror if another projection version recorded it, first in the transaction that begins the
/// session. Returns that version.
pub(crate) async fn upgrade_projection(
    store: &Store,
    write: &mut WriteTransaction,
    at: Timestamp,
) -> Result<Option<i64>, ProjectionError> {
    let mut journal = JournalReader::open(store.location()).await?;
    let Some(from) = journal.projection_version().await?.filter(|from| *from != PROJECTION_VERSION) else {
        return Ok(None);
    };
    write.allow_pauses().await?;
    // A position of its own, because the last pruning may have its snapshot at the one before.
    write.position_next().await?;
    write.snapshot_store(&journal.take_snapshot().await?, at).await?;
    let detail = json!({"from": from, "to": PROJECTION_VERSION}).to_string();
    write.event_append(at, PROJECTION_CHANGED, "fold", Some(&detail)).await?;
    Ok(Some(from))
}

impl JournalReplay {
    /// Opens the journal of a live database; refuses one of another projection version.
    pub(super) async fn open_journal(
        live: impl Into<DatabaseLocation>,
    ) -> Result<JournalReader, ProjectionError> {
        let mut journal = JournalReader::open(live).await?;
        let other = journal.projection_version().await?.filter(|by| *by != PROJECTION_VERSION);
        other.map_or(Ok(journal), |by| {
            Err(ProjectionError::Damaged(format!(
                "cannot replay the journal: projection version {by} recorded it, and this tallyd has version \
                 {PROJECTION_VERSION}; start the daemon once, which upgrades the mirror behind a snapshot, or use the \
                 tallyd that recorded the journal"
            )))
        })
    }
}
