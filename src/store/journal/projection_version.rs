//! Projection versions, and the exchanges that another version may read better.
//!
//! Each session stores its projection version. If a session's version differs from the last one, the
//! journal holds the event [`PROJECTION_CHANGED`]. The event names the exchanges that were applied again,
//! and a replay applies them there too.

use super::detail::{ExchangeDetail, exchange_details};
use crate::model::{CallEffect, ExchangeId, Operation, Position};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{JournalReader, Result, StoreError, WriteTransaction};
use sqlx_macros::FromRow;

/// Event of a mirror that continues with another projection version.
pub(crate) const PROJECTION_CHANGED: &str = "projection.changed";

/// Record that could not be read.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct ParkedRow {
    /// Index in the answer, from 0.
    pub record: i64,
    /// Part that could not be read.
    pub why: String,
    pub raw: String,
}

/// Returns true for operations whose answers are not applied again: the answer of a write was used when its
/// change was decided, and SKUs may be on newer pages.
fn is_not_reapplied(operation: Operation) -> bool {
    operation.effect() == CallEffect::Write
        || matches!(operation, Operation::GetProductBalances | Operation::GetProducts)
}

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

    /// Returns the exchanges with parked records that may be applied again, in order.
    ///
    /// Their bodies must exist, and no later exchange may have an equal request.
    pub(crate) async fn exchanges_parked(&mut self) -> Result<Vec<ExchangeId>> {
        let excluded = Operation::ALL.iter().filter(|operation| is_not_reapplied(**operation));
        let excluded: Vec<&str> = excluded.map(|operation| operation.as_str()).collect();
        let sql = "WITH odd AS (SELECT DISTINCT exchange_id AS id FROM parked), \
                       asked AS (SELECT DISTINCT e.operation, e.target FROM odd JOIN exchange e USING (id) \
                                 WHERE e.operation NOT IN (SELECT atom FROM json_each($1))) \
                   SELECT n.id FROM exchange n JOIN ( \
                       SELECT max(e.id) AS id FROM exchange e JOIN asked USING (operation, target) \
                       WHERE EXISTS (SELECT 1 FROM odd) AND e.verdict = 'accepted' AND NOT e.is_ignored \
                       GROUP BY e.operation, e.target, e.request_body_id \
                       HAVING max(e.id) IN (SELECT id FROM odd)) newest ON newest.id = n.id \
                   WHERE n.response_body_id IS NOT NULL ORDER BY n.id";
        self.fetch_column(sql, (json_rows(&excluded),), "find exchanges to apply again").await
    }

    /// Returns the exchanges with these ids, a JSON list, in order.
    pub(crate) async fn exchanges_by_ids(&mut self, ids: &str) -> Result<Vec<ExchangeDetail>> {
        let sql = concat!(
            exchange_details!(),
            " WHERE e.id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) ORDER BY e.id"
        );
        self.fetch_all(sql, (ids,), "read the journal's exchanges").await
    }
}

impl WriteTransaction {
    /// Deletes and returns the parked records of an exchange that is applied again.
    pub(crate) async fn parked_remove(&mut self, id: ExchangeId) -> Result<Vec<ParkedRow>> {
        let sql = "DELETE FROM parked WHERE exchange_id = $1 RETURNING record, why, raw";
        let removed = self.fetch_all(sql, (id.0,), "delete parked records").await?;
        let sql = "UPDATE exchange SET parked = 0 WHERE id = $1";
        self.execute(sql, (id.0,), "reset the count of parked records").await?;
        let sql = "DELETE FROM parked_subject WHERE exchange_id = $1";
        self.execute(sql, (id.0,), "delete the names of parked records").await?;
        Ok(removed)
    }
}
