//! Notices, and the rows of what was told. The room `notify` has the rules.
//!
//! Only the leading daemon writes these rows, with what they say in the same transaction. A receiver's answer is
//! recorded after it, so a process that ends in between leaves the notice unsent.

use crate::model::{ChangeId, Position, Timestamp, cut_reason};
use crate::outbox::ChangeState;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{ChangeSummary, Result, Store, WriteTransaction};
use sqlx_macros::FromRow;

#[derive(Clone, Debug, FromRow)]
pub(crate) struct NoticeRow {
    /// Id: a position of the journal.
    pub id: i64,
    pub batch: String,
    pub attempts: i64,
    /// Earliest next attempt, in milliseconds since 1970.
    pub next_ms: i64,
}

/// SQL: the changes of which an operator is told. A rejection by a person or by the configured policy needs none.
macro_rules! told_changes {
    () => {
        "SELECT id, key, sku, warehouse_id, state, reason, detail FROM outbox \
         WHERE state IN ('sending', 'held', 'in_doubt') \
           AND (state = 'held' OR (state = 'in_doubt' AND reason = 'landed_or_another')) \
         UNION ALL \
         SELECT id, key, sku, warehouse_id, state, reason, detail FROM outbox \
         WHERE state = 'rejected' AND acknowledged_ms IS NULL AND reason NOT IN ('operator', 'remote_wins')"
    };
}

/// SQL: the told changes that are no longer in their state, or were acknowledged.
const ENDED_CHANGE: &str = "NOT EXISTS (SELECT 1 FROM outbox o WHERE o.id = notice_change.change_id \
     AND o.state = notice_change.state AND o.acknowledged_ms IS NULL)";

impl Store {
    /// Returns the findings that were told: code and subject.
    pub(crate) async fn notice_findings(&self) -> Result<Vec<(String, String)>> {
        let sql = "SELECT code, subject FROM notice_finding ORDER BY code, subject";
        self.fetch_all(sql, (), "read the findings that were told").await
    }

    /// Returns true if a change is to be told, or a told change is over.
    pub(crate) async fn notice_is_due(&self) -> Result<bool> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM notice_change WHERE {ENDED_CHANGE}) \
                 OR EXISTS (SELECT 1 FROM ({}) c WHERE NOT EXISTS ( \
                     SELECT 1 FROM notice_change n WHERE n.change_id = c.id AND n.state = c.state))",
            told_changes!()
        );
        self.fetch_value(sqlx::AssertSqlSafe(sql), (), "check for changes to tell").await
    }

    /// Returns the oldest notice of a notifier that is not delivered, if it is complete.
    pub(crate) async fn notice_next(&self, notifier: &str, now: Timestamp) -> Result<Option<NoticeRow>> {
        let sql = "SELECT id, batch, attempts, next_ms FROM notice \
                   WHERE notifier = $1 AND sent_ms IS NULL AND due_ms <= $2 ORDER BY id LIMIT 1";
        self.fetch_optional(sql, (notifier, now), "read the next notice").await
    }
}

impl WriteTransaction {
    /// Replaces the findings that were told.
    pub(crate) async fn notice_findings_store(&mut self, findings: &[(String, String)]) -> Result<()> {
        self.execute("DELETE FROM notice_finding", (), "store the findings that were told").await?;
        let sql = "INSERT INTO notice_finding (code, subject) SELECT value->>0, value->>1 FROM json_each($1)";
        self.execute(sql, (json_rows(findings),), "store the findings that were told").await
    }

    /// Deletes the told changes that are over, and returns the topic of each.
    pub(crate) async fn notice_changes_end(&mut self) -> Result<Vec<String>> {
        let sql = format!("DELETE FROM notice_change WHERE {ENDED_CHANGE} RETURNING topic");
        self.fetch_column(sqlx::AssertSqlSafe(sql), (), "end the changes that were told").await
    }

    /// Returns the topics of the told changes.
    pub(crate) async fn notice_change_topics(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT DISTINCT topic FROM notice_change";
        self.fetch_column(sql, (), "read the topics of the changes that were told").await
    }

    /// Returns the first changes to tell with an id above `after`.
    pub(crate) async fn notice_changes(&mut self, after: ChangeId, limit: i64) -> Result<Vec<ChangeSummary>> {
        let sql = concat!(
            "SELECT id, key, sku, warehouse_id, state, reason, detail FROM (",
            told_changes!(),
            ") c WHERE id > $1 AND NOT EXISTS ( \
                 SELECT 1 FROM notice_change n WHERE n.change_id = c.id AND n.state = c.state) \
             ORDER BY id LIMIT $2"
        );
        self.fetch_all(sql, (after.0, limit), "read the changes to tell").await
    }

    /// Notes changes as told: id, state and topic.
    pub(crate) async fn notice_changes_store(
        &mut self,
        told: &[(ChangeId, ChangeState, &str)],
    ) -> Result<()> {
        let sql = "INSERT INTO notice_change (change_id, state, topic) \
                   SELECT CAST(value->>0 AS BIGINT), value->>1, value->>2 FROM json_each($1) WHERE TRUE \
                   ON CONFLICT (change_id) DO UPDATE SET state = excluded.state, topic = excluded.topic";
        self.execute(sql, (json_rows(told),), "note the changes that were told").await
    }

    /// Returns the notice of a notifier that still collects items.
    pub(crate) async fn notice_open(&mut self, notifier: &str, now: Timestamp) -> Result<Option<NoticeRow>> {
        let sql = "SELECT id, batch, attempts, next_ms FROM notice \
                   WHERE notifier = $1 AND sent_ms IS NULL AND due_ms > $2 ORDER BY id DESC LIMIT 1";
        self.fetch_optional(sql, (notifier, now), "read the open notice").await
    }

    /// Begins a notice that collects items until `due`.
    pub(crate) async fn notice_begin(&mut self, notifier: &str, batch: &str, due: Timestamp) -> Result<()> {
        let Position(id) = self.position_next().await?;
        let sql = "INSERT INTO notice (id, notifier, due_ms, batch, next_ms) VALUES ($1, $2, $3, $4, $3)";
        self.execute(sql, (id, notifier, due, batch), "store a notice").await
    }

    /// Replaces the items of an open notice; it is complete at `due`, or at its own time if that comes before.
    pub(crate) async fn notice_extend(&mut self, id: i64, batch: &str, due: Timestamp) -> Result<()> {
        let sql = "UPDATE notice SET batch = $2, due_ms = CASE WHEN due_ms < $3 THEN due_ms ELSE $3 END, \
                       next_ms = CASE WHEN next_ms < $3 THEN next_ms ELSE $3 END WHERE id = $1";
        self.execute(sql, (id, batch, due), "extend a notice").await
    }

    pub(crate) async fn notice_sent(&mut self, id: i64, at: Timestamp) -> Result<()> {
        let sql = "UPDATE notice SET sent_ms = $2, failure = NULL WHERE id = $1";
        self.execute(sql, (id, at), "record the delivery of a notice").await
    }

    /// Notes a failed attempt at a notice and the time of the next.
    pub(crate) async fn notice_failed(&mut self, id: i64, why: &str, next: Timestamp) -> Result<()> {
        let sql = "UPDATE notice SET attempts = attempts + 1, failure = $2, next_ms = $3 WHERE id = $1";
        self.execute(sql, (id, cut_reason(why), next), "record a failed attempt at a notice").await
    }

    /// Deletes the notices of other notifiers than these, and those that became due before `since`. Returns the
    /// number of those that were never delivered.
    pub(crate) async fn notice_prune(&mut self, notifiers: &[&str], since: Timestamp) -> Result<usize> {
        let sql = "DELETE FROM notice WHERE due_ms < $2 OR notifier NOT IN (SELECT atom FROM json_each($1)) \
                   RETURNING sent_ms IS NULL";
        let values = (json_rows(notifiers), since);
        let deleted: Vec<bool> = self.fetch_column(sql, values, "delete old notices").await?;
        Ok(deleted.into_iter().filter(|unsent| *unsent).count())
    }
}
