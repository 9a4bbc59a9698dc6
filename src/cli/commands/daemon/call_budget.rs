//! The account's budget as text of `status`.

use crate::cli::local_time::{local_sentence, local_time};
use crate::cli::output::{TextTable, cells};
use crate::health::{HealthReport, hold_text};
use crate::limiter::BadRequestForecast;
use crate::present::call_budget::CallBudgetReport;
use crate::store::CallCount;

const BAR_CHARACTERS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MINUTES_PER_BAR: usize = 2;

pub(super) fn summary_text(budget: &CallBudgetReport, health: &HealthReport, is_terminal: bool) -> String {
    let HealthReport { quota, bad_requests, .. } = health;
    let calls: i64 = budget.last_minute.iter().map(|(_, calls, _)| calls).sum();
    let throttled: i64 = budget.last_minute.iter().map(|(_, _, throttled)| throttled).sum();
    let mut text =
        format!("budget  {calls} of {} calls in the last 60 s, {throttled} answered 429\n", budget.limit);
    if quota.share_permille < 1000 {
        let left = u64::from(budget.limit) * u64::from(quota.share_permille) / 1000;
        text.push_str(&format!(
            "        other software uses the account: the adaptive limit is {left} calls a minute\n"
        ));
    }
    for hold in &quota.holds {
        text.push_str(&format!("        {}\n", local_sentence(hold_text(hold, budget.now))));
    }
    if bad_requests.count > 0 {
        text.push_str(&format!("        {}\n", bad_request_forecast(bad_requests)));
    }
    if is_terminal && budget.minutes.iter().any(|calls| *calls > 0) {
        let (bars, limit) = (minute_bars(&budget.minutes, budget.limit), budget.limit);
        text.push_str(&format!("        {bars} the last hour; a full bar is {limit} calls a minute\n"));
    }
    text
}

pub(super) fn last_hour_table(budget: &CallBudgetReport) -> String {
    let columns = |row: &CallCount| cells![row.lane, row.operation, row.calls, row.throttled];
    let headings = ["lane", "operation", "calls in the last hour", "answered 429"];
    TextTable::new(headings, budget.last_hour.iter().map(columns)).to_text("no call in the last hour")
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
