//! Events of the journal: decisions, written down before what they change (rules.md 37).
//!
//! There is one appender, whoever decides: settle, a person, a brake's release, a list that was read whole. What a
//! replay needs of a decision stands in its detail, for it reads neither wishes nor the clock.

use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::{Position, Timestamp};

/// The kind of event that a person's word on a wish is; the daemon looks at the outbox when one comes.
pub const RESOLVED: &str = "outbox.resolved";
/// The kind of event that the release of a brake is; the daemon hears it too.
pub(super) const RELEASED: &str = "brake.released";
/// The kind of event with which a person has an entry tried that is set aside.
pub(super) const RETRIED: &str = "entry.retried";
/// The kind of event with which a person ends a wait that the service ordered.
pub const LIFTED: &str = "quota.lifted";

impl Store {
    /// True if an event of this kind stands behind a position.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn event_since(&self, kind: &str, after: Position) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM event WHERE position > ?1 AND kind = ?2)";
        let found =
            sqlx::query_scalar(sql).bind(after.0).bind(kind).fetch_one(&mut *self.read().await?).await;
        found.doing("look for a person's word")
    }
}

impl Write {
    /// Writes a decision down before what it changes; `detail`, if any, is JSON. Its position is returned.
    pub async fn event_append(
        &mut self,
        at: Timestamp,
        kind: &str,
        subject: &str,
        detail: Option<&str>,
    ) -> Result<Position, StoreError> {
        let position = self.position_next().await?;
        let sql = "INSERT INTO event (position, at_ms, kind, subject, detail) VALUES (?1, ?2, ?3, ?4, ?5)";
        let query = sqlx::query(sql).bind(position.0).bind(at.0).bind(kind).bind(subject).bind(detail);
        query.execute(&mut *self.tx).await.map(|_| position).doing("write a decision down")
    }
}
