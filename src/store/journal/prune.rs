//! Pruning of the journal: bodies are deleted by age and size, identities stay.
//!
//! Kept for ever: keys of changes, exchanges of writes, exchanges that changes or parked records name, events.
//! Kept while needed: bodies of requests and checks of an open change. Exchanges of reads are deleted once they are
//! before the last snapshot but one and older than 25 hours. The bad-request budget and the units at risk count a day.

use crate::model::{CallEffect, Operation, Position, Timestamp};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, SnapshotRow, Store, WriteTransaction};
use std::time::Duration;

/// Age up to which exchanges of reads are kept: the day of the bad-request budget and an hour.
const READ_RETENTION: Duration = Duration::from_secs(25 * 60 * 60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedRows {
    pub bodies: u64,
    pub exchanges: u64,
    pub runs: u64,
    pub history: u64,
}

impl Store {
    pub(crate) async fn snapshot_last(&self) -> Result<Option<SnapshotRow>> {
        let sql =
            "SELECT position, taken_ms, pruned_to, by_size FROM snapshot ORDER BY position DESC LIMIT 1";
        self.fetch_optional(sql, (), "read the last snapshot").await
    }

    /// Returns true if exchanges that ended between two positions hold bodies.
    pub(crate) async fn exchange_has_bodies(&self, after: Position, to: Position) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM exchange WHERE ended > $1 AND ended <= $2 \
                       AND (request_body_id IS NOT NULL OR response_body_id IS NOT NULL))";
        self.fetch_value(sql, (after, to), "check for bodies to delete").await
    }

    /// Returns the largest jump of the calendar since the last snapshot, in milliseconds. Within a session,
    /// consecutive calls are compared with the time since boot. Between sessions, only backward jumps count.
    pub(crate) async fn clock_jump(&self) -> Result<i64> {
        let sql = "SELECT coalesce(max(abs(jump)), 0) FROM ( \
                       SELECT CASE WHEN session_id = lag(session_id) OVER after_each \
                                   THEN (sent_ms - lag(sent_ms) OVER after_each) \
                                        - (sent_moment - lag(sent_moment) OVER after_each) \
                                   WHEN sent_ms < lag(sent_ms) OVER after_each \
                                   THEN sent_ms - lag(sent_ms) OVER after_each END AS jump \
                       FROM exchange WHERE id > coalesce((SELECT max(position) FROM snapshot), 0) \
                       WINDOW after_each AS (ORDER BY id)) step";
        self.fetch_value(sql, (), "check for a jump of the clock").await
    }
}

impl WriteTransaction {
    /// Deletes bodies of exchanges that ended up to `to`, and those exchanges of reads that may be deleted. Adds their
    /// numbers to `deleted`.
    pub(crate) async fn journal_prune(
        &mut self,
        to: Position,
        now: Timestamp,
        deleted: &mut PrunedRows,
    ) -> Result<()> {
        let sql = "UPDATE exchange SET request_body_id = NULL, response_body_id = NULL \
                   WHERE ended <= $1 AND (request_body_id IS NOT NULL OR response_body_id IS NOT NULL) \
                     AND id NOT IN (SELECT o.exchange_id FROM outbox o \
                                    WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.exchange_id IS NOT NULL \
                                    UNION ALL SELECT l.exchange_id FROM in_doubt_check l \
                                    JOIN outbox o ON o.id = l.change_id \
                                    WHERE o.state IN ('sending', 'held', 'in_doubt'))";
        self.execute(sql, (to,), "detach bodies from exchanges").await?;
        deleted.exchanges += self.prune_exchanges(to, now).await?;
        let sql = "DELETE FROM body WHERE NOT EXISTS (SELECT 1 FROM exchange WHERE request_body_id = body.id) \
                   AND NOT EXISTS (SELECT 1 FROM exchange WHERE response_body_id = body.id)";
        deleted.bodies += self.execute_counting(sql, (), "delete bodies").await?;
        let sql = "DELETE FROM run WHERE outcome <> 'running' AND started_ms < $1 \
                   AND id < coalesce((SELECT min(run_id) FROM exchange WHERE ended > $2), 0) \
                   AND NOT EXISTS (SELECT 1 FROM exchange e WHERE e.run_id = run.id)";
        let values = (now.minus(READ_RETENTION).0, to.0);
        deleted.runs += self.execute_counting(sql, values, "delete runs without exchanges").await?;
        let sql = "DELETE FROM units_taken WHERE seen_ms < $1";
        self.execute(sql, (now.minus(READ_RETENTION),), "delete the units at risk of earlier days").await
    }

    async fn prune_exchanges(&mut self, to: Position, now: Timestamp) -> Result<u64> {
        let writes = Operation::ALL.iter().filter(|operation| operation.effect() == CallEffect::Write);
        let writes: Vec<&str> = writes.map(|operation| operation.as_str()).collect();
        let sql = "DELETE FROM exchange WHERE ended <= $1 AND answered_ms < $2 \
                     AND ended <= coalesce((SELECT position FROM snapshot ORDER BY position DESC LIMIT 1 OFFSET 1), 0) \
                     AND request_body_id IS NULL AND response_body_id IS NULL \
                     AND operation NOT IN (SELECT atom FROM json_each($3)) \
                     AND NOT EXISTS (SELECT 1 FROM parked p WHERE p.exchange_id = exchange.id) \
                     AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.exchange_id = exchange.id)";
        let values = (to.0, now.minus(READ_RETENTION).0, json_rows(&writes));
        self.execute_counting(sql, values, "delete exchanges of reads").await
    }
}
