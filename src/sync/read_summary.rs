//! Summary of a run that makes one call for each of many entries ([`super::entry_reads`] makes them).

use crate::exec::RunReport;
use crate::model::{JobKind, counted};

/// Most entries named in the summary; the others are counted.
const NAMES_MAX: usize = 5;

#[derive(Debug, Default)]
pub(super) struct ReadSummary {
    pub(super) read_count: usize,
    pub(super) changed: u64,
    pub(super) unread: Vec<String>,
    /// Quarantined entries, which do not make the run partial.
    pub(super) quarantined: Vec<String>,
    pub(super) anomalies: Vec<String>,
    /// True if a quarantined entry was answered: the changes that wait for it are tried again.
    pub(super) has_ended_quarantine: bool,
}

impl ReadSummary {
    pub(super) fn is_empty(&self) -> bool {
        self.read_count == 0 && self.unread.is_empty() && self.quarantined.is_empty()
    }

    /// Returns the report of the run, as in "3 orders read, 1 line new or changed".
    pub(super) fn run_report(&self, thing: &str, fact: &str) -> RunReport {
        let (read, changed) = (counted(self.read_count, thing), counted(self.changed, fact));
        let mut summary = format!("{read} read, {changed} new or changed");
        for (entries, fate) in [(&self.unread, "not read"), (&self.quarantined, "quarantined")] {
            if !entries.is_empty() {
                summary.push_str(&format!("; {} {fate}: {}", entries.len(), join_names(entries)));
            }
        }
        if !self.anomalies.is_empty() {
            summary.push_str(&format!("; {}", join_names(&self.anomalies)));
        }
        let report = match self.unread.is_empty() && self.anomalies.is_empty() {
            true => RunReport::ok(summary),
            false => RunReport::partial(summary),
        };
        let wakes = self.has_ended_quarantine.then_some(JobKind::Push);
        RunReport { wakes, ..report.with_effect(self.changed > 0) }
    }
}

fn join_names(all: &[String]) -> String {
    all.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::RunOutcome;

    #[test]
    fn what_is_not_read_is_named_and_what_is_set_aside_makes_no_run_bad() {
        let quarantined = vec!["order 7 (no)".into()];
        let mut summary = ReadSummary { read_count: 1, changed: 3, quarantined, ..ReadSummary::default() };
        let report = summary.run_report("order", "line");
        assert_eq!(report.outcome, RunOutcome::Ok);
        let expected = "1 order read, 3 lines new or changed; 1 quarantined: order 7 (no)";
        assert_eq!(report.summary, expected);
        summary.unread.push("order 2 (no)".into());
        let report = summary.run_report("order", "line");
        assert_eq!(report.outcome, RunOutcome::Partial);
        assert!(report.summary.contains("; 1 not read: order 2 (no); 1 quarantined"), "{}", report.summary);
    }
}
