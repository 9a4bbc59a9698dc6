//! Projection versions, and the exchanges that another version may read better.
//!
//! Each session stores its projection version. If a session's version differs from the last one, the journal
//! holds the event [`PROJECTION_CHANGED`]. The event names the exchanges that were applied again, and a replay
//! applies them there too.

use super::reader::RECORDED_EXCHANGES;
use crate::model::{CallEffect, ExchangeId, Operation, Position};
use crate::store::engine::error::SqlContext;
use crate::store::mirror::stock_levels;
use crate::store::{JournalReader, RecordedEnd, RecordedRequest, StoreError, WriteTransaction};
use sqlx::{AssertSqlSafe, FromRow};

/// Event of a mirror that continues with another projection version.
pub const PROJECTION_CHANGED: &str = "projection.changed";

/// Record that could not be read.
#[derive(Clone, Debug, FromRow)]
pub struct ParkedRow {
    /// Index in the answer, from 0.
    pub record: i64,
    /// Part that could not be read.
    pub why: String,
    /// Record as received, truncated.
    pub raw: String,
}

/// Returns true for operations whose answers are not applied again. The answer of a write was used when its
/// change was decided. A page of SKUs shares them with other, possibly newer pages, and the next poll reads
/// them within minutes.
fn is_not_reapplied(operation: Operation) -> bool {
    operation.effect() == CallEffect::Write
        || matches!(operation, Operation::GetProductBalances | Operation::GetProducts)
}

impl JournalReader {
    /// Returns the projection version that recorded the mirror last; `None`: there was no session.
    pub async fn projection_version(&mut self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT projection_version FROM session ORDER BY id DESC LIMIT 1";
        let version = sqlx::query_scalar(sql).fetch_optional(&mut self.connection).await;
        version.context("read which version of the fold recorded the mirror")
    }

    /// Refuses a position before the last change of the projection version. This version reads the journal
    /// before that change differently.
    pub(super) async fn projection_reaches(&mut self, to: Position) -> Result<(), StoreError> {
        let sql = "SELECT max(position) FROM event WHERE kind = ?1";
        let query = sqlx::query_scalar(sql).bind(PROJECTION_CHANGED);
        let changed: Option<i64> =
            query.fetch_one(&mut self.connection).await.context("look for a change of the fold")?;
        match changed.map(Position).filter(|changed| to < *changed) {
            Some(first) => Err(StoreError::OtherProjection { requested: to, first }),
            None => Ok(()),
        }
    }

    /// Returns the exchanges with parked records that may be applied again, in order.
    ///
    /// Their bodies must exist, and no later exchange may have an equal request.
    pub async fn exchanges_parked(&mut self) -> Result<Vec<ExchangeId>, StoreError> {
        let left = Operation::ALL.iter().filter(|operation| is_not_reapplied(**operation));
        let left: Vec<&str> = left.map(|operation| operation.as_str()).collect();
        let sql = "WITH odd AS (SELECT DISTINCT exchange_id AS id FROM parked), \
                       asked AS (SELECT DISTINCT e.operation, e.target FROM odd JOIN exchange e USING (id) \
                                 WHERE e.operation NOT IN (SELECT value FROM json_each(?1))) \
                   SELECT max(e.id) AS newest FROM exchange e JOIN asked USING (operation, target) \
                   WHERE EXISTS (SELECT 1 FROM odd) AND e.verdict = 'accepted' AND NOT e.is_ignored \
                   GROUP BY e.operation, e.target, e.request_body_id \
                   HAVING newest IN (SELECT id FROM odd) AND e.response_body_id IS NOT NULL ORDER BY newest";
        let query = sqlx::query_scalar(sql).bind(stock_levels::json_rows(&left));
        let ids: Vec<i64> =
            query.fetch_all(&mut self.connection).await.context("find exchanges to fold again")?;
        Ok(ids.into_iter().map(ExchangeId).collect())
    }

    /// Returns the exchanges with these ids, a JSON list, in order.
    pub async fn exchanges_by_ids(
        &mut self,
        ids: &str,
    ) -> Result<Vec<(RecordedRequest, RecordedEnd)>, StoreError> {
        let sql =
            format!("{RECORDED_EXCHANGES} WHERE e.id IN (SELECT value FROM json_each(?1)) ORDER BY e.id");
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(ids);
        let rows: Vec<super::reader::RecordedExchangeRow> =
            query.fetch_all(&mut self.connection).await.context("read exchanges to fold again")?;
        rows.iter().map(|row| Ok((row.to_request()?, row.to_end()?))).collect()
    }
}

impl WriteTransaction {
    /// Stores the projection version of a session.
    pub async fn session_projection_store(
        &mut self,
        session_id: i64,
        version: i64,
    ) -> Result<(), StoreError> {
        let query = sqlx::query("UPDATE session SET projection_version = ?2 WHERE id = ?1")
            .bind(session_id)
            .bind(version);
        let done = query.execute(&mut *self.tx).await;
        done.map(drop).context("note which version of the fold works")
    }

    /// Deletes and returns the parked records of an exchange that is applied again.
    pub async fn parked_remove(&mut self, id: ExchangeId) -> Result<Vec<ParkedRow>, StoreError> {
        let sql = "DELETE FROM parked WHERE exchange_id = ?1 RETURNING record, why, raw";
        let taken = sqlx::query_as(sql).bind(id.0).fetch_all(&mut *self.tx).await;
        let taken = taken.context("take parked records")?;
        let sql = "UPDATE exchange SET parked = 0 WHERE id = ?1";
        sqlx::query(sql).bind(id.0).execute(&mut *self.tx).await.context("count parked records anew")?;
        let sql = "DELETE FROM parked_subject WHERE exchange_id = ?1";
        sqlx::query(sql)
            .bind(id.0)
            .execute(&mut *self.tx)
            .await
            .context("forget the names of parked records")?;
        Ok(taken)
    }
}
