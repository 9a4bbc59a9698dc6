//! The account's budget: the calls of the last hour, the waits in force, and the bad-request budget.

use crate::config::Config;
use crate::health::HealthReport;
use crate::limiter::EndingHold;
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
        json!({
            "limit": self.limit,
            "last_60_s": self.last_minute.iter().map(lane).collect::<Vec<_>>(),
            "last_hour": self.last_hour,
            "minutes": self.minutes,
            "share_permille": quota.share_permille,
            "holds": quota.holds.iter().map(hold_json).collect::<Vec<_>>(),
            "reads_only_until": quota.reads_only_until.map(Timestamp::to_rfc3339),
            "bad_requests": {
                "last_24_h": bad_requests.count, "last_hour": bad_requests.last_hour,
                "soft_line": bad_requests.soft, "hard_line": bad_requests.hard,
                "soft_line_at": bad_requests.soft_at.map(Timestamp::to_rfc3339),
                "hard_line_at": bad_requests.hard_at.map(Timestamp::to_rfc3339),
            },
        })
    }
}

fn hold_json(hold: &EndingHold) -> Value {
    json!({
        "what": hold.what, "reason": hold.reason.as_str(),
        "since": hold.since.to_rfc3339(), "until": hold.until.to_rfc3339(),
    })
}
