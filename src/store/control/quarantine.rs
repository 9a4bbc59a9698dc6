//! Quarantine: entries that fail in isolation, kept out of shared calls until they succeed.
//!
//! An entry is quarantined when a call that holds only this entry fails. It is released when such a call
//! succeeds. The quarantine is no fact: a replay builds the same mirror without it.

use crate::model::{Operation, Timestamp, cut_reason};
use crate::outbox::RetryDelays;
use crate::store::engine::error::SqlContext;
use crate::store::journal::event::ENTRY_RETRIED;
use crate::store::{Store, StoreError, WriteTransaction};
use serde::Serialize;
use sqlx::FromRow;

/// Quarantined entry.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize)]
pub struct QuarantineRow {
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
    pub fn next_try(&self) -> Timestamp {
        let attempts = usize::try_from(self.failures.saturating_sub(1)).unwrap_or(usize::MAX);
        let delay =
            RetryDelays::quarantine_retry().nth(attempts.min(LONGEST_DELAY_AFTER)).unwrap_or_default();
        Timestamp(self.tried_ms).plus(delay)
    }

    /// Returns true if the next attempt is due, also if the calendar was set back behind the last attempt.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next_try() || now.0 < self.tried_ms
    }
}

/// Number of failures after which the delay no longer grows.
const LONGEST_DELAY_AFTER: usize = 16;

macro_rules! quarantine_rows {
    () => {
        "SELECT operation, subject, since_ms, tried_ms, failures, why FROM quarantine"
    };
}

impl Store {
    /// Returns all quarantined entries, by operation and subject.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn quarantine_list(&self) -> Result<Vec<QuarantineRow>, StoreError> {
        let sql = concat!(quarantine_rows!(), " ORDER BY operation, subject");
        sqlx::query_as(sql)
            .fetch_all(&mut *self.read_connection().await?)
            .await
            .context("read the quarantine")
    }

    /// Returns the quarantined entries of one operation.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn quarantine_by_operation(
        &self,
        operation: Operation,
    ) -> Result<Vec<QuarantineRow>, StoreError> {
        let sql = concat!(quarantine_rows!(), " WHERE operation = ?1 ORDER BY subject");
        let query = sqlx::query_as(sql).bind(operation.as_str());
        query.fetch_all(&mut *self.read_connection().await?).await.context("read the quarantine")
    }
}

impl WriteTransaction {
    /// Records that a call with only `subject` failed; `why` is the platform's message.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn quarantine_add(
        &mut self,
        operation: Operation,
        subject: &str,
        why: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO quarantine (operation, subject, since_ms, tried_ms, failures, why) \
                   VALUES (?1, ?2, ?3, ?3, 1, ?4) \
                   ON CONFLICT (operation, subject) DO UPDATE SET \
                       tried_ms = excluded.tried_ms, failures = failures + 1, why = excluded.why";
        let query = sqlx::query(sql).bind(operation.as_str()).bind(subject).bind(at.0).bind(cut_reason(why));
        query.execute(&mut *self.tx).await.map(drop).context("set an entry aside")
    }

    /// Makes an isolated attempt due for a quarantined entry, under every operation.
    ///
    /// Returns false if the entry is not quarantined.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn quarantine_retry(&mut self, subject: &str, at: Timestamp) -> Result<bool, StoreError> {
        let sql = concat!(quarantine_rows!(), " WHERE subject = ?1");
        let rows: Vec<QuarantineRow> = sqlx::query_as(sql)
            .bind(subject)
            .fetch_all(&mut *self.tx)
            .await
            .context("find an entry set aside")?;
        if rows.is_empty() {
            return Ok(false);
        }
        self.event_append(at, ENTRY_RETRIED, subject, None).await?;
        self.quarantine_make_due(&rows, at).await?;
        Ok(true)
    }

    /// Makes an attempt due for all quarantined entries of an operation, because one of them succeeded.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn quarantine_retry_all(
        &mut self,
        operation: Operation,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = concat!(quarantine_rows!(), " WHERE operation = ?1");
        let query = sqlx::query_as(sql).bind(operation.as_str());
        let rows: Vec<QuarantineRow> =
            query.fetch_all(&mut *self.tx).await.context("find the entries set aside")?;
        self.quarantine_make_due(&rows, at).await
    }

    /// Dates the last attempts back by their delays.
    async fn quarantine_make_due(&mut self, rows: &[QuarantineRow], at: Timestamp) -> Result<(), StoreError> {
        for row in rows {
            let tried = at.minus(row.next_try().duration_since(Timestamp(row.tried_ms))).0.min(row.tried_ms);
            let sql = "UPDATE quarantine SET tried_ms = ?3 WHERE operation = ?1 AND subject = ?2";
            let query = sqlx::query(sql).bind(&row.operation).bind(&row.subject).bind(tried);
            query.execute(&mut *self.tx).await.context("have an entry tried that is set aside")?;
        }
        Ok(())
    }

    /// Releases an entry and returns true if it was quarantined.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn quarantine_lift(&mut self, operation: Operation, subject: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM quarantine WHERE operation = ?1 AND subject = ?2";
        let query = sqlx::query(sql).bind(operation.as_str()).bind(subject);
        let done = query.execute(&mut *self.tx).await.context("take an entry back")?;
        Ok(done.rows_affected() > 0)
    }
}
