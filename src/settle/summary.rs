//! Summary of a run of `settle`.

use crate::exec::balances_reader::BalancesReader;
use crate::exec::{JobError, RunReport};
use crate::model::{JobKind, counted};

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
    /// Counts the checks of a read, or notes its failure, which does not stop other checks.
    pub(super) fn note_read(&mut self, read: Result<u64, JobError>) -> Result<(), JobError> {
        match read {
            Ok(checks) => self.checks += checks,
            Err(error) if error.entry_failure().is_some() => self.note_failure(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Counts the pages of a read of stock levels; `which` completes "all stock levels".
    pub(super) fn note_pages(&mut self, reader: BalancesReader<'_>, which: &str) {
        self.checks += reader.pages_read;
        if let Some(why) = reader.unread_reason {
            self.note_failure(format!("cannot read all stock levels {which}: {why}"));
        }
    }

    /// Notes a failure. Only the first one is reported.
    fn note_failure(&mut self, why: String) {
        self.first_failure.get_or_insert(why);
    }

    pub(super) fn run_report(self) -> RunReport {
        let Self { checks, took_effect, had_no_effect, shown, held, may_unblock, first_failure } = self;
        let (checked, effective) = (counted(checks, "check"), counted(took_effect, "change"));
        let mut summary = format!("{checked}: {effective} took effect, {had_no_effect} had no effect");
        if shown > 0 {
            summary.push_str(&format!(", {shown} pending again"));
        }
        if held > 0 {
            summary.push_str(&format!(", {held} wait for a decision"));
        }
        let report = match first_failure {
            None => RunReport::ok(summary),
            Some(why) => RunReport::partial(format!("{summary}; then: {why}")),
        };
        // The push plans again what had no effect, and other changes may wait for what took effect.
        let wakes = (may_unblock || took_effect + had_no_effect + shown > 0).then_some(JobKind::Push);
        let has_effect = took_effect + had_no_effect + shown + held > 0;
        RunReport { wakes, ..report.with_effect(has_effect) }
    }
}
