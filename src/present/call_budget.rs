//! The account's budget: the calls of the last hour, the waits in force, and the bad-request budget.

use super::{DecisionSentences, ViewError};
use crate::config::Config;
use crate::exec;
use crate::health::{HealthReport, hold_text};
use crate::limiter::{BadRequestStatus, EndingHold};
use crate::model::Timestamp;
use crate::store::{CallInterval, Store, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const MINUTE_MS: i64 = 60_000;

pub(crate) struct CallBudgetReport {
    pub(crate) limit: u32,
    pub(crate) now: Timestamp,
    /// The calls of the last 60 minutes.
    pub(crate) calls: Vec<CallInterval>,
}

/// Calls, answers 429 and answers 400.
pub(crate) type CallSum = (i64, i64, i64);

/// Returns the sums of calls by a key.
pub(crate) fn sum_calls<'a, K: Ord>(
    calls: impl IntoIterator<Item = &'a CallInterval>,
    key: impl Fn(&'a CallInterval) -> K,
) -> BTreeMap<K, CallSum> {
    let mut sums: BTreeMap<K, CallSum> = BTreeMap::new();
    for row in calls {
        let sum = sums.entry(key(row)).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.throttled, sum.2 + row.bad_requests);
    }
    sums
}

impl CallBudgetReport {
    pub(crate) async fn read(config: &Config, store: &Store, now: Timestamp) -> Result<Self, StoreError> {
        let calls = store.call_intervals(now, MINUTE_MS, 60).await?;
        Ok(Self { limit: config.limits.own_limit(), now, calls })
    }

    /// Returns the calls of the last minute by lane.
    fn last_minute(&self) -> BTreeMap<&str, CallSum> {
        sum_calls(self.calls.iter().filter(|row| row.ago == 0), |row| row.lane.as_str())
    }

    /// Returns the calls of the last hour by lane and operation.
    pub(crate) fn last_hour(&self) -> BTreeMap<(&str, &str), CallSum> {
        sum_calls(&self.calls, |row| (row.lane.as_str(), row.operation.as_str()))
    }

    /// Returns the number of calls in each minute of the last hour, oldest first.
    pub(crate) fn minutes(&self) -> Vec<i64> {
        let by_minute = sum_calls(&self.calls, |row| row.ago);
        (0..60).rev().map(|ago| by_minute.get(&ago).map_or(0, |(calls, ..)| *calls)).collect()
    }

    pub(crate) fn to_json(&self, health: &HealthReport) -> Value {
        let HealthReport { quota, bad_requests, .. } = health;
        let lane = |(lane, (calls, throttled, _)): (&str, CallSum)| json!({"lane": lane, "calls": calls, "throttled": throttled});
        let operation = |((lane, operation), (calls, throttled, _)): ((&str, &str), CallSum)| json!({"lane": lane, "operation": operation, "calls": calls, "throttled": throttled});
        let hold = |hold: &EndingHold| {
            json!({"what": hold.what, "reason": hold.reason.as_str(), "since": hold.since.to_rfc3339(),
                   "until": hold.until.to_rfc3339()})
        };
        json!({
            "limit": self.limit,
            "last_60_s": self.last_minute().into_iter().map(lane).collect::<Vec<_>>(),
            "last_hour": self.last_hour().into_iter().map(operation).collect::<Vec<_>>(),
            "minutes": self.minutes(),
            "share_permille": quota.share_permille,
            "holds": quota.holds.iter().map(hold).collect::<Vec<_>>(),
            "reads_only_until": quota.reads_only_until.map(Timestamp::to_rfc3339),
            "bad_requests": {
                "last_24_h": bad_requests.count, "soft_line": bad_requests.soft, "hard_line": bad_requests.hard,
            },
        })
    }
}

/// Returns the calls of the last minute, the waits in force and the bad-request budget in sentences.
pub(crate) fn budget_sentences(budget: &CallBudgetReport, health: &HealthReport) -> Vec<String> {
    let HealthReport { quota, bad_requests, .. } = health;
    let (calls, throttled) =
        budget.last_minute().values().fold((0, 0), |sum, minute| (sum.0 + minute.0, sum.1 + minute.1));
    let mut all =
        vec![format!("{calls} of {} calls in the last 60 s, {throttled} answered 429", budget.limit)];
    if quota.share_permille < 1000 {
        let left = u64::from(budget.limit) * u64::from(quota.share_permille) / 1000;
        all.push(format!("other software uses the account: the adaptive limit is {left} calls a minute"));
    }
    all.extend(quota.holds.iter().map(|hold| hold_text(hold, budget.now)));
    all.extend(
        quota.reads_only_until.map(|until| format!("only reads are sent until {}", until.to_rfc3339())),
    );
    let BadRequestStatus { count, soft, hard } = bad_requests;
    if *count > 0 {
        all.push(format!(
            "{count} answers of 400 in 24 h (bulk pushes stop at {soft}, requests that had a 400 at {hard})"
        ));
    }
    all
}

pub(crate) async fn lift_wait(store: &Store, now: Timestamp) -> DecisionSentences {
    let wait = exec::lift_wait(store, now).await?;
    let wait = wait.ok_or_else(|| ViewError::Refused("no wait of the account is in force".into()))?;
    let wait = hold_text(&wait, now);
    Ok(vec![format!("ended: {wait}; if the wait was intended, the platform orders it again")])
}
