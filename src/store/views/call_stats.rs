//! Call statistics from the journal.

use crate::model::Timestamp;
use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Calls of one lane and operation in one interval.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize)]
pub(crate) struct CallInterval {
    /// Number of intervals between this one and now.
    pub ago: i64,
    /// Code of the priority class (lane).
    pub lane: String,
    /// Operation, as the interface lists it.
    pub operation: String,
    pub calls: i64,
    pub throttled: i64,
    pub bad_requests: i64,
}

/// Ended calls of one operation and outcome.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct CallOutcomeCount {
    /// Operation, as the interface lists it.
    pub operation: String,
    pub outcome: String,
    pub calls: i64,
    /// Position of the last end among them.
    pub last_end: i64,
}

impl Store {
    /// Returns the calls that ended after a position, by operation and outcome.
    ///
    /// Positions are in the order of commits, so that no call is passed over and none is counted twice.
    pub async fn call_outcomes_after(&self, position: i64) -> Result<Vec<CallOutcomeCount>> {
        let sql = "SELECT operation, verdict AS outcome, count(*) AS calls, max(ended) AS last_end FROM exchange \
                   WHERE ended IS NOT NULL AND ended > $1 GROUP BY operation, verdict";
        self.fetch_all(sql, (position,), "count the calls by outcome").await
    }

    /// Returns the position of the last answer that an earlier session recorded; 0 if there is none.
    ///
    /// The start of a session closes the calls that the one before left open. They are later than this position.
    pub async fn last_answer_before(&self, session_id: i64) -> Result<i64> {
        let sql = "SELECT ended FROM exchange WHERE ended IS NOT NULL AND session_id <> $1 \
                   AND verdict <> 'interrupted' ORDER BY ended DESC LIMIT 1";
        let last: Option<(i64,)> = self.fetch_optional(sql, (session_id,), "read the last call").await?;
        Ok(last.map_or(0, |(ended,)| ended))
    }

    /// Returns the calls of the last `count` intervals of `interval_ms` before `now`.
    pub(crate) async fn call_intervals(
        &self,
        now: Timestamp,
        interval_ms: i64,
        count: i64,
    ) -> Result<Vec<CallInterval>> {
        let sql = "SELECT ($1 - sent_ms) / CAST($2 AS BIGINT) AS ago, lane, operation, count(*) AS calls, \
                          count(*) FILTER (WHERE status = 429) AS throttled, \
                          count(*) FILTER (WHERE status = 400) AS bad_requests FROM exchange \
                   WHERE sent_ms > $1 - $2 * CAST($3 AS BIGINT) AND sent_ms <= $1 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
        self.fetch_all(sql, (now.0, interval_ms, count), "count the calls of each interval").await
    }
}
