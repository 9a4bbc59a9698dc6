//! The account's budget as text of `status`.

use crate::cli::local_time::local_sentence;
use crate::cli::output::{TextTable, columns};
use crate::health::HealthReport;
use crate::present::call_budget::{CallBudgetReport, budget_sentences};
use crate::store::CallCount;

const BAR_CHARACTERS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MINUTES_PER_BAR: usize = 2;

pub(super) fn summary_text(budget: &CallBudgetReport, health: &HealthReport, is_terminal: bool) -> String {
    let line = |sentence: String| local_sentence(sentence) + "\n";
    let lines: Vec<String> = budget_sentences(budget, health).into_iter().map(line).collect();
    let mut text = format!("budget  {}", lines.join("        "));
    if is_terminal && budget.minutes.iter().any(|calls| *calls > 0) {
        let (bars, limit) = (minute_bars(&budget.minutes, budget.limit), budget.limit);
        text.push_str(&format!("        {bars} the last hour; a full bar is {limit} calls a minute\n"));
    }
    text
}

pub(super) fn last_hour_table(budget: &CallBudgetReport) -> String {
    let columns = |row: &CallCount| {
        columns! {
            "lane": row.lane, "operation": row.operation, "calls in the last hour": row.calls,
            "answered 429": row.throttled,
        }
    };
    TextTable::new(budget.last_hour.iter().map(columns)).to_text("no call in the last hour")
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
