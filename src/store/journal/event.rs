//! Events of the journal: decisions, appended before their effects (docs/rules.md 21).
//!
//! All decisions are appended by one function: those of `settle`, of a person, of a brake's release and of a
//! completely read list. A decision about facts is applied by its event, live as in a replay, so the detail
//! holds everything that a replay needs.

use crate::model::{Position, Timestamp};
use crate::store::engine::json_fields::{json_text, rfc3339};
use crate::store::mirror::balances::history::HISTORY_PRUNED;
use crate::store::mirror::platform_lists::LIST_MISSING;
use crate::store::mirror::stock_level_writes::{WRITE_ENDED, WRITE_TOOK_EFFECT};
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Event of a person's decision on a change; it notifies the daemon.
pub(crate) const OUTBOX_RESOLVED: &str = "outbox.resolved";
/// Event of a brake's release; it notifies the daemon.
pub(in crate::store) const BRAKE_RELEASED: &str = "brake.released";
/// Event of a person's request to retry a quarantined entry.
pub(in crate::store) const ENTRY_RETRIED: &str = "entry.retried";
/// Event of a person's decision to end a wait that the platform ordered.
pub(crate) const QUOTA_LIFTED: &str = "quota.lifted";
/// Event of a person's decision to pause a job; its subject is the job.
pub(in crate::store) const JOB_PAUSED: &str = "job.paused";
/// Event of the end of a pause, by a person or by its time; its subject is the job.
pub(in crate::store) const JOB_RESUMED: &str = "job.resumed";

/// Event in the journal, such as a decision.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct JournalEvent {
    pub position: i64,
    #[serde(rename = "at", serialize_with = "rfc3339")]
    pub at_ms: i64,
    pub kind: String,
    pub subject: String,
    #[serde(serialize_with = "json_text")]
    pub detail: Option<String>,
    /// Person who decided, as `user:NAME` or `token:NAME`; `None`: the daemon, or a version without names.
    #[serde(rename = "by")]
    pub decided_by: Option<String>,
}

impl Store {
    /// Returns true if the journal has an event of this kind after a position.
    pub(crate) async fn event_since(&self, kind: &str, after: Position) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM event WHERE position > $1 AND kind = $2)";
        self.fetch_value(sql, (after, kind), "check for a decision").await
    }
}

impl WriteTransaction {
    /// Appends an event, with the person who decides, and returns its position; `detail` is JSON.
    pub(crate) async fn event_append(
        &mut self,
        at: Timestamp,
        kind: &str,
        subject: &str,
        detail: Option<&str>,
    ) -> Result<Position> {
        let position = self.position_next().await?;
        let sql = "INSERT INTO event (position, at_ms, kind, subject, detail, decided_by) \
                   VALUES ($1, $2, $3, $4, $5, $6)";
        let decider = self.decider.clone();
        let values = (position.0, at.0, kind, subject, detail, decider.as_deref());
        self.execute(sql, values, "store an event").await.map(|_| position)
    }

    /// Appends a decision about facts, and applies it as a replay does.
    pub(in crate::store) async fn fact_decide(
        &mut self,
        at: Timestamp,
        kind: &str,
        subject: &str,
        detail: Option<&str>,
    ) -> Result<()> {
        let position = self.event_append(at, kind, subject, detail).await?;
        self.apply_event((position, at), kind, subject, detail).await
    }

    /// Applies an event to the facts; most events change none.
    pub(crate) async fn apply_event(
        &mut self,
        (position, at): (Position, Timestamp),
        kind: &str,
        subject: &str,
        detail: Option<&str>,
    ) -> Result<()> {
        let detail = detail.unwrap_or("null");
        match kind {
            LIST_MISSING => self.apply_list_event(subject, detail, at).await,
            WRITE_TOOK_EFFECT | WRITE_ENDED => self.apply_write_event(kind, detail, position).await,
            HISTORY_PRUNED => self.apply_history_event(detail).await,
            _ => Ok(()),
        }
    }
}
