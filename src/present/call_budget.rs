//! The account's budget: the calls of the last hour, the waits in force, and the bad-request budget.

use super::{DecisionSentences, ViewError};
use crate::config::Config;
use crate::exec;
use crate::health::{HealthReport, hold_text};
use crate::limiter::{BadRequestStatus, EndingHold};
use crate::model::Timestamp;
use crate::store::{CallCount, Store, StoreError};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) struct CallBudgetReport {
    pub(crate) limit: u32,
    pub(crate) now: Timestamp,
    /// The last minute by lane: (lane, calls, calls answered 429).
    pub(crate) last_minute: Vec<(String, i64, i64)>,
    pub(crate) last_hour: Vec<CallCount>,
    pub(crate) minutes: Vec<u32>,
}

impl CallBudgetReport {
    pub(crate) async fn read(config: &Config, store: &Store, now: Timestamp) -> Result<Self, StoreError> {
        Ok(Self {
            limit: config.limits.own_limit(),
            now,
            last_minute: store.call_counts_by_lane(now.minus(MINUTE).0).await?,
            last_hour: store.call_counts(now.minus(MINUTE * 60)).await?,
            minutes: store.call_counts_by_minute(now, 60).await?,
        })
    }

    pub(crate) fn to_json(&self, health: &HealthReport) -> Value {
        let HealthReport { quota, bad_requests, .. } = health;
        let lane = |(lane, calls, throttled): &(String, i64, i64)| json!({"lane": lane, "calls": calls, "throttled": throttled});
        let hold = |hold: &EndingHold| {
            json!({"what": hold.what, "reason": hold.reason.as_str(), "since": hold.since.to_rfc3339(),
                   "until": hold.until.to_rfc3339()})
        };
        json!({
            "limit": self.limit,
            "last_60_s": self.last_minute.iter().map(lane).collect::<Vec<_>>(),
            "last_hour": self.last_hour,
            "minutes": self.minutes,
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
    let (calls, throttled) = budget
        .last_minute
        .iter()
        .fold((0, 0), |sum, (_, calls, throttled)| (sum.0 + calls, sum.1 + throttled));
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
