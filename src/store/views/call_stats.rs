//! Call statistics from the journal.

use crate::model::Timestamp;
use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Calls of one priority class and operation.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize)]
pub(crate) struct CallCount {
    /// Code of the priority class (lane).
    pub lane: String,
    /// Operation, as the interface lists it.
    pub operation: String,
    pub calls: i64,
    pub throttled: i64,
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

    /// Returns the calls since `since` by priority class and operation.
    pub(crate) async fn call_counts(&self, since: Timestamp) -> Result<Vec<CallCount>> {
        let sql = "SELECT lane, operation, count(*) AS calls, \
                          count(*) FILTER (WHERE status = 429) AS throttled FROM exchange \
                   WHERE sent_ms >= $1 GROUP BY lane, operation ORDER BY lane, calls DESC, operation";
        self.fetch_all(sql, (since.0,), "count the calls by operation").await
    }

    /// Returns the number of calls in each of the `minutes` minutes before `now`, oldest first.
    pub(crate) async fn call_counts_by_minute(&self, now: Timestamp, minutes: usize) -> Result<Vec<u32>> {
        let mut counts = vec![0; minutes];
        for row in self.call_intervals(now, 60_000, i64::try_from(minutes).unwrap_or(i64::MAX)).await? {
            let index = usize::try_from(row.ago).ok().and_then(|ago| minutes.checked_sub(ago + 1));
            if let Some(minute) = index.and_then(|index| counts.get_mut(index)) {
                *minute += u32::try_from(row.calls).unwrap_or(u32::MAX);
            }
        }
        Ok(counts)
    }
}
