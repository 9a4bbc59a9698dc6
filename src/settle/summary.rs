//! Summary of a run of `settle`.

use crate::exec::RunReport;
use crate::model::JobKind;

/// Counts of a run, for its summary.
#[derive(Debug, Default)]
pub(crate) struct SettleSummary {
    pub(super) checks: u64,
    pub(crate) took_effect: u64,
    pub(super) had_no_effect: u64,
    /// Held changes that are pending again, because an answer shows their stock level.
    pub(super) shown: u64,
    pub(crate) held: u64,
    /// True if a change may have waited for a read of its stock level.
    pub(super) may_unblock: bool,
    first_failure: Option<String>,
}

impl SettleSummary {
    /// Notes a failure. Only the first one is reported.
    pub(super) fn note_failure(&mut self, why: String) {
        self.first_failure.get_or_insert(why);
    }

    pub(super) fn run_report(self) -> RunReport {
        let Self {
            checks: looks,
            took_effect: landed,
            had_no_effect: not_landed,
            shown,
            held,
            may_unblock: is_waited_for,
            first_failure: trouble,
        } = self;
        let mut summary = format!("{looks} look(s): {landed} change(s) had landed, {not_landed} had not");
        if shown > 0 {
            summary.push_str(&format!(", {shown} go on"));
        }
        if held > 0 {
            summary.push_str(&format!(", {held} wait for a person"));
        }
        let report = match trouble {
            None => RunReport::ok(summary),
            Some(why) => RunReport::partial(format!("{summary}; then: {why}")),
        };
        // The push plans again what had no effect, and other changes may wait for what took effect.
        let wakes = (is_waited_for || landed + not_landed + shown > 0).then_some(JobKind::Push);
        RunReport { wakes, ..report }
    }
}
