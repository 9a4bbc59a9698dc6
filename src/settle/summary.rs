//! Summary of a run of `settle`.

use crate::exec::Report;
use crate::model::JobKind;

/// Counts of a run, for its summary.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(super) looks: u64,
    pub(crate) landed: u64,
    pub(super) not_landed: u64,
    /// Held changes that are pending again, because an answer shows their stock level.
    pub(super) shown: u64,
    pub(crate) held: u64,
    /// True if a change may have waited for a read of its stock level.
    pub(super) is_waited_for: bool,
    trouble: Option<String>,
}

impl Tally {
    /// Notes a failure. Only the first one is reported.
    pub(super) fn note(&mut self, why: String) {
        self.trouble.get_or_insert(why);
    }

    pub(super) fn report(self) -> Report {
        let Self { looks, landed, not_landed, shown, held, is_waited_for, trouble } = self;
        let mut summary = format!("{looks} look(s): {landed} wish(es) had landed, {not_landed} had not");
        if shown > 0 {
            summary.push_str(&format!(", {shown} go on"));
        }
        if held > 0 {
            summary.push_str(&format!(", {held} wait for a person"));
        }
        let report = match trouble {
            None => Report::ok(summary),
            Some(why) => Report::partial(format!("{summary}; then: {why}")),
        };
        // The push plans again what had no effect, and other changes may wait for what took effect.
        let wakes = (is_waited_for || landed + not_landed + shown > 0).then_some(JobKind::Push);
        Report { wakes, ..report }
    }
}
