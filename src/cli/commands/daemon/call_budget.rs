//! The account's budget in `status`: the calls of the last hour, the waits in force, and the bad-request
//! budget.

use crate::cli::CommandFailure;
use crate::cli::local_time::{local_sentence, local_time};
use crate::cli::output::{TextTable, cells};
use crate::config::Config;
use crate::health::{HealthReport, hold_text};
use crate::limiter::{BadRequestForecast, EndingHold};
use crate::model::Timestamp;
use crate::store::{CallCount, Store};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const BAR_CHARACTERS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MINUTES_PER_BAR: usize = 2;

pub(super) struct CallBudgetReport {
    limit: u32,
    now: Timestamp,
    /// The last minute by lane: (lane, calls, calls answered 429).
    last_minute: Vec<(String, i64, i64)>,
    last_hour: Vec<CallCount>,
    minutes: Vec<u32>,
}

impl CallBudgetReport {
    pub(super) async fn read(config: &Config, store: &Store, now: Timestamp) -> Result<Self, CommandFailure> {
        Ok(Self {
            limit: config.limits.own_limit(),
            now,
            last_minute: store.call_counts_by_lane(now.minus(MINUTE).0).await?,
            last_hour: store.call_counts(now.minus(MINUTE * 60)).await?,
            minutes: store.call_counts_by_minute(now, 60).await?,
        })
    }

    pub(super) fn summary_text(&self, health: &HealthReport, is_terminal: bool) -> String {
        let HealthReport { quota, bad_requests, .. } = health;
        let calls: i64 = self.last_minute.iter().map(|(_, calls, _)| calls).sum();
        let throttled: i64 = self.last_minute.iter().map(|(_, _, throttled)| throttled).sum();
        let mut text =
            format!("budget  {calls} of {} calls in the last 60 s, {throttled} answered 429\n", self.limit);
        if quota.share_permille < 1000 {
            let left = u64::from(self.limit) * u64::from(quota.share_permille) / 1000;
            text.push_str(&format!(
                "        other software uses the account: the adaptive limit is {left} calls a minute\n"
            ));
        }
        for hold in &quota.holds {
            text.push_str(&format!("        {}\n", local_sentence(hold_text(hold, self.now))));
        }
        if bad_requests.count > 0 {
            text.push_str(&format!("        {}\n", bad_request_forecast(bad_requests)));
        }
        if is_terminal && self.minutes.iter().any(|calls| *calls > 0) {
            let bars = minute_bars(&self.minutes, self.limit);
            let limit = self.limit;
            text.push_str(&format!("        {bars} the last hour; a full bar is {limit} calls a minute\n"));
        }
        text
    }

    pub(super) fn last_hour_table(&self) -> String {
        let columns = |row: &CallCount| cells![row.lane, row.operation, row.calls, row.throttled];
        let headings = ["lane", "operation", "calls in the last hour", "answered 429"];
        TextTable::new(headings, self.last_hour.iter().map(columns)).to_text("no call in the last hour")
    }

    pub(super) fn to_json(&self, health: &HealthReport) -> Value {
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

fn bad_request_forecast(budget: &BadRequestForecast) -> String {
    let BadRequestForecast { count, last_hour, soft, hard, .. } = budget;
    let at = local_time;
    let heading = match (budget.soft_at, budget.hard_at) {
        (Some(line), _) => format!("at the last hour's rate ({last_hour}), bulk pushes stop at {}", at(line)),
        (None, Some(line)) => {
            format!("at the last hour's rate ({last_hour}), repeated requests stop at {}", at(line))
        }
        (None, None) => "at the last hour's rate, neither threshold is reached within a day".to_owned(),
    };
    format!(
        "{count} answers of 400 in 24 h (bulk pushes stop at {soft}, requests that had a 400 at {hard}); {heading}"
    )
}

/// Returns a bar for each two minutes: their calls against the limit.
fn minute_bars(minutes: &[u32], limit: u32) -> String {
    let bar = |calls: &[u32]| {
        let sum: u32 = calls.iter().sum();
        let full = limit.saturating_mul(u32::try_from(calls.len()).unwrap_or(1)).max(1);
        let height = sum.saturating_mul(8).checked_sub(1).map(|eighths| (eighths / full).min(7) as usize);
        height.map_or(' ', |height| BAR_CHARACTERS[height])
    };
    minutes.chunks(MINUTES_PER_BAR).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_how_full_the_minutes_were() {
        assert_eq!(minute_bars(&[0, 0, 1, 0, 60, 60, 120, 120, 130, 130], 120), " ▁▄██");
    }
}
