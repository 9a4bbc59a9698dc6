//! Call statistics from the journal.

use crate::model::Timestamp;
use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Calls of one priority class and operation.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize)]
pub struct CallCount {
    /// Code of the priority class (lane).
    pub lane: String,
    /// Operation, as the interface lists it.
    pub operation: String,
    /// Number of calls.
    pub calls: i64,
    /// Number of calls answered 429.
    pub throttled: i64,
}

impl Store {
    /// Returns the calls since `since` by priority class and operation.
    pub async fn call_counts(&self, since: Timestamp) -> Result<Vec<CallCount>> {
        let sql = "SELECT lane, operation, count(*) AS calls, \
                          count(*) FILTER (WHERE status = 429) AS throttled FROM exchange \
                   WHERE sent_ms >= $1 GROUP BY lane, operation ORDER BY lane, calls DESC, operation";
        self.fetch_all(sql, (since.0,), "count the calls by operation").await
    }

    /// Returns the number of calls in each of the `minutes` minutes before `now`, oldest first.
    pub async fn call_counts_by_minute(&self, now: Timestamp, minutes: usize) -> Result<Vec<u32>> {
        let sql = "SELECT ($1 - sent_ms) / 60000, count(*) FROM exchange \
                   WHERE sent_ms > $1 - 60000 * CAST($2 AS BIGINT) AND sent_ms <= $1 GROUP BY 1";
        let values = (now.0, i64::try_from(minutes).unwrap_or(i64::MAX));
        let rows: Vec<(i64, i64)> = self.fetch_all(sql, values, "count the calls by minute").await?;
        let mut counts = vec![0; minutes];
        for (ago, calls) in rows {
            let index = usize::try_from(ago).ok().and_then(|ago| minutes.checked_sub(ago + 1));
            if let Some(minute) = index.and_then(|index| counts.get_mut(index)) {
                *minute = u32::try_from(calls).unwrap_or(u32::MAX);
            }
        }
        Ok(counts)
    }
}
