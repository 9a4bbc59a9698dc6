//! Projection versions of sessions.
//!
//! Each session stores its projection version. If a session's version differs from the last one, the
//! journal holds the event [`PROJECTION_CHANGED`].

use crate::model::Position;
use crate::store::{JournalReader, Result, StoreError};

/// Event of a mirror that continues with another projection version.
pub(crate) const PROJECTION_CHANGED: &str = "projection.changed";

impl JournalReader {
    /// Returns the projection version that recorded the mirror last; `None`: there was no session.
    pub(crate) async fn projection_version(&mut self) -> Result<Option<i64>> {
        let sql = "SELECT projection_version FROM session ORDER BY id DESC LIMIT 1";
        Ok(self.fetch_column(sql, (), "read the projection version of the mirror").await?.pop())
    }

    /// Refuses a position before the last change of the projection version, which reads it differently.
    pub(super) async fn projection_reaches(&mut self, to: Position) -> Result<()> {
        let sql = "SELECT max(position) FROM event WHERE kind = $1";
        let values = (PROJECTION_CHANGED,);
        match self.fetch_value(sql, values, "check for a change of the projection version").await? {
            Some(first) if to < first => {
                let reason = format!(
                    "the journal before position {first} has another projection version; name a later time, or use a \
                     backup and the tallyd of that time"
                );
                Err(StoreError::refused(format!("replay up to position {to}"), reason))
            }
            _ => Ok(()),
        }
    }
}
