//! Quarantine: entries that fail in isolation, kept out of shared calls until they succeed.
//!
//! An entry is quarantined when a call that holds only this entry fails. It is released when such a call
//! succeeds. The quarantine is no fact: a replay builds the same mirror without it.

use crate::model::time::DAY;
use crate::model::{Operation, RetryDelays, Timestamp, cut_reason};
use crate::store::journal::event::ENTRY_RETRIED;
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Quarantined entry.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize)]
pub(crate) struct QuarantineRow {
    /// Operation that fails for the entry, as the interface lists it.
    pub operation: String,
    /// SKU, order id or shipment id.
    pub subject: String,
    /// Time of its first isolated failure, in milliseconds since 1970.
    pub since_ms: i64,
    /// Time of its last isolated failure, in milliseconds since 1970.
    pub tried_ms: i64,
    /// Number of isolated failures.
    pub failures: i64,
    /// Message of the platform.
    pub why: String,
}

impl QuarantineRow {
    /// Returns the time of the next attempt.
    pub(crate) fn next_try(&self) -> Timestamp {
        let attempts = usize::try_from(self.failures.saturating_sub(1)).unwrap_or_default();
        let delay = RetryDelays::quarantine_retry().nth(attempts).unwrap_or_default();
        Timestamp(self.tried_ms).plus(delay)
    }

    /// Returns true if the next attempt is due, also if the calendar was set back behind the last attempt.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next_try() || now.0 < self.tried_ms
    }
}

impl Store {
    /// Returns all quarantined entries, by operation and subject.
    pub(crate) async fn quarantine_list(&self) -> Result<Vec<QuarantineRow>> {
        let sql = "SELECT operation, subject, since_ms, tried_ms, failures, why FROM quarantine \
                   ORDER BY operation, subject";
        self.fetch_all(sql, (), "read the quarantine").await
    }
}

impl WriteTransaction {
    /// Records that a call with only `subject` failed; `why` is the platform's message.
    pub(crate) async fn quarantine_add(
        &mut self,
        operation: Operation,
        subject: &str,
        why: &str,
        at: Timestamp,
    ) -> Result<()> {
        let sql = "INSERT INTO quarantine (operation, subject, since_ms, tried_ms, failures, why) \
                   VALUES ($1, $2, $3, $3, 1, $4) \
                   ON CONFLICT (operation, subject) DO UPDATE SET \
                       tried_ms = excluded.tried_ms, failures = quarantine.failures + 1, why = excluded.why";
        self.execute(sql, (operation.as_str(), subject, at.0, cut_reason(why)), "quarantine an entry").await
    }

    /// Makes an attempt due for an entry, under every operation; returns false if it is not quarantined.
    pub async fn quarantine_retry(&mut self, subject: &str, at: Timestamp) -> Result<bool> {
        if self.quarantine_make_due((None, Some(subject)), at).await? == 0 {
            return Ok(false);
        }
        self.event_append(at, ENTRY_RETRIED, subject, None).await.map(|_| true)
    }

    /// Makes an attempt due for all quarantined entries of an operation, because one of them succeeded.
    pub(crate) async fn quarantine_retry_all(&mut self, operation: Operation, at: Timestamp) -> Result<()> {
        self.quarantine_make_due((Some(operation.as_str()), None), at).await.map(drop)
    }

    /// Dates the last attempts back by a day, which no delay exceeds, and returns the number of entries.
    async fn quarantine_make_due(
        &mut self,
        (operation, subject): (Option<&str>, Option<&str>),
        at: Timestamp,
    ) -> Result<u64> {
        let sql = "UPDATE quarantine SET tried_ms = CASE WHEN tried_ms < $3 THEN tried_ms ELSE $3 END \
                   WHERE operation = coalesce(CAST($1 AS TEXT), operation) \
                     AND subject = coalesce(CAST($2 AS TEXT), subject)";
        let values = (operation, subject, at.minus(DAY));
        self.execute_counting(sql, values, "schedule attempts for quarantined entries").await
    }

    /// Releases an entry and returns true if it was quarantined.
    pub(crate) async fn quarantine_lift(&mut self, operation: Operation, subject: &str) -> Result<bool> {
        let sql = "DELETE FROM quarantine WHERE operation = $1 AND subject = $2";
        Ok(self.execute_counting(sql, (operation.as_str(), subject), "release a quarantined entry").await?
            > 0)
    }
}
