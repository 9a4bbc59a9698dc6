//! The account's budget in `status`: the calls of the last hour, the waits in force, and the bad-request
//! budget.

use crate::cli::Failure;
use crate::cli::output::Table;
use crate::config::Config;
use crate::health;
use crate::health::Health;
use crate::limiter::{LedgerForecast, Standing, StandingHold};
use crate::model::Timestamp;
use crate::store::{SpentRow, Store};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// The characters of the bars, from low to full.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MINUTES_A_BAR: usize = 2;

/// The data of the budget in `status`.
pub(super) struct Spent {
    limit: u32,
    now: Timestamp,
    /// The last minute by lane: (lane, calls, calls answered 429).
    last_minute: Vec<(String, i64, i64)>,
    last_hour: Vec<SpentRow>,
    minutes: Vec<u32>,
    standing: Standing,
    ledger: LedgerForecast,
}

impl Spent {
    pub(super) async fn read(
        config: &Config,
        store: &Store,
        (health, now): (&Health, Timestamp),
    ) -> Result<Self, Failure> {
        Ok(Self {
            limit: config.limits.ours_per_minute(),
            now,
            last_minute: store.budget_used(now.minus(MINUTE).0).await?,
            last_hour: store.spent(now.minus(MINUTE * 60)).await?,
            minutes: store.spent_minutes(now, 60).await?,
            standing: health.standing.clone(),
            ledger: health.ledger.clone(),
        })
    }

    pub(super) fn text(&self, is_terminal: bool) -> String {
        let calls: i64 = self.last_minute.iter().map(|(_, calls, _)| calls).sum();
        let throttled: i64 = self.last_minute.iter().map(|(_, _, throttled)| throttled).sum();
        let mut text =
            format!("budget  {calls} of {} calls in the last 60 s, {throttled} answered 429\n", self.limit);
        if self.standing.share_permille < 1000 {
            let left = u64::from(self.limit) * u64::from(self.standing.share_permille) / 1000;
            text.push_str(&format!(
                "        other software uses the account: {left} a minute are ours for now\n"
            ));
        }
        for hold in &self.standing.holds {
            text.push_str(&format!("        {}\n", health::told_hold(hold, self.now)));
        }
        if self.ledger.count > 0 {
            text.push_str(&format!("        {}\n", forecast(&self.ledger)));
        }
        if is_terminal && self.minutes.iter().any(|calls| *calls > 0) {
            text.push_str(&format!("        {} the last hour\n", bars(&self.minutes, self.limit)));
        }
        text
    }

    /// Returns the table of the last hour, by lane and operation.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new(&["lane", "operation", "calls in the last hour", "answered 429"]);
        for row in &self.last_hour {
            let cells =
                [row.lane.clone(), row.operation.clone(), row.calls.to_string(), row.throttled.to_string()];
            table.row(cells);
        }
        table.render("no call in the last hour")
    }

    pub(super) fn json(&self) -> Value {
        let lane = |(lane, calls, throttled): &(String, i64, i64)| json!({"lane": lane, "calls": calls, "throttled": throttled});
        json!({
            "limit": self.limit,
            "last_60_s": self.last_minute.iter().map(lane).collect::<Vec<_>>(),
            "last_hour": self.last_hour,
            "minutes": self.minutes,
            "share_permille": self.standing.share_permille,
            "holds": self.standing.holds.iter().map(hold_json).collect::<Vec<_>>(),
            "reads_only_until": self.standing.reads_only_until.map(Timestamp::rfc3339),
            "bad_requests": {
                "last_24_h": self.ledger.count, "last_hour": self.ledger.last_hour,
                "soft_line": self.ledger.soft, "hard_line": self.ledger.hard,
                "soft_line_at": self.ledger.soft_at.map(Timestamp::rfc3339),
                "hard_line_at": self.ledger.hard_at.map(Timestamp::rfc3339),
            },
        })
    }
}

fn hold_json(hold: &StandingHold) -> Value {
    json!({
        "what": hold.what, "reason": hold.reason.as_str(),
        "since": hold.since.rfc3339(), "until": hold.until.rfc3339(),
    })
}

fn forecast(ledger: &LedgerForecast) -> String {
    let LedgerForecast { count, last_hour, soft, hard, .. } = ledger;
    let at = |at: Timestamp| at.datetime().format("%H:%M UTC").to_string();
    let heading = match (ledger.soft_at, ledger.hard_at) {
        (Some(line), _) => format!("at the last hour's rate ({last_hour}) pushes stop at {}", at(line)),
        (None, Some(line)) => format!("at the last hour's rate ({last_hour}) more stops at {}", at(line)),
        (None, None) => "at the last hour's rate no line is reached within a day".to_owned(),
    };
    format!("{count} answers of 400 in 24 h (bulk pushes stop at {soft}, what had one at {hard}); {heading}")
}

/// Returns a bar for each two minutes: their calls against the limit.
fn bars(minutes: &[u32], limit: u32) -> String {
    let bar = |calls: &[u32]| {
        let sum: u32 = calls.iter().sum();
        let full = limit.saturating_mul(u32::try_from(calls.len()).unwrap_or(1)).max(1);
        match sum {
            0 => ' ',
            _ => BARS[usize::try_from((sum.saturating_mul(8) - 1) / full).unwrap_or(0).min(BARS.len() - 1)],
        }
    };
    minutes.chunks(MINUTES_A_BAR).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_how_full_the_minutes_were() {
        assert_eq!(bars(&[0, 0, 1, 0, 60, 60, 120, 120, 130, 130], 120), " ▁▄██");
    }
}
