//! Summary of a run that makes one call for each of many entries ([`super::entry_reads`] makes them).

use crate::exec::RunReport;
use crate::model::JobKind;

/// Most entries named in the summary; the others are counted.
const NAMES_MAX: usize = 5;

/// Counts of many reads.
#[derive(Debug, Default)]
pub(super) struct ReadSummary {
    read_count: usize,
    changed: u64,
    unread: Vec<String>,
    quarantined: Vec<String>,
    anomalies: Vec<String>,
    /// True if a quarantined entry was answered: the changes that wait for it are tried again.
    has_ended_quarantine: bool,
}

impl ReadSummary {
    /// Counts an entry that was read, and the facts that it changed.
    pub(super) fn count_read(&mut self, changed: u64) {
        self.read_count += 1;
        self.changed += changed;
    }

    /// Counts an entry that was not read, by its name and reason.
    pub(super) fn note_unread(&mut self, named: String) {
        self.unread.push(named);
    }

    /// Counts a quarantined entry, which does not make the run partial.
    pub(super) fn note_quarantined(&mut self, named: String) {
        self.quarantined.push(named);
    }

    /// Records an answered entry. `was_quarantined`: it was quarantined before.
    pub(super) fn note_quarantine_end(&mut self, was_quarantined: bool) {
        self.has_ended_quarantine |= was_quarantined;
    }

    /// Returns true if nothing was asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.read_count == 0 && self.unread.is_empty() && self.quarantined.is_empty()
    }

    /// Returns the number of reads that changed no fact, if none of them changed more than one.
    pub(super) fn unchanged_count(&self) -> u64 {
        (self.read_count as u64).saturating_sub(self.changed)
    }

    /// Records the reason why a read is incomplete.
    pub(super) fn note_anomaly(&mut self, anomaly: String) {
        self.anomalies.push(anomaly);
    }

    /// Returns the report of the run, as in "3 order(s) read, 5 line(s) new or changed".
    pub(super) fn run_report(&self, things: &str, facts: &str) -> RunReport {
        let mut summary =
            format!("{} {things} read, {} {facts} new or changed", self.read_count, self.changed);
        if !self.unread.is_empty() {
            let named = join_names(&self.unread);
            summary.push_str(&format!("; {} not read: {named}", self.unread.len()));
        }
        if !self.quarantined.is_empty() {
            let named = join_names(&self.quarantined);
            summary.push_str(&format!("; {} quarantined: {named}", self.quarantined.len()));
        }
        if !self.anomalies.is_empty() {
            summary.push_str(&format!("; {}", join_names(&self.anomalies)));
        }
        let report = match self.unread.is_empty() && self.anomalies.is_empty() {
            true => RunReport::ok(summary),
            false => RunReport::partial(summary),
        };
        RunReport { wakes: self.has_ended_quarantine.then_some(JobKind::Push), ..report }
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
        let mut summary = ReadSummary::default();
        summary.count_read(3);
        summary.note_quarantined("order 7 (no)".into());
        let report = summary.run_report("order(s)", "line(s)");
        assert_eq!(report.outcome, RunOutcome::Ok);
        let expected = "1 order(s) read, 3 line(s) new or changed; 1 quarantined: order 7 (no)";
        assert_eq!(report.summary, expected);
        summary.note_unread("order 2 (no)".into());
        let report = summary.run_report("order(s)", "line(s)");
        assert_eq!(report.outcome, RunOutcome::Partial);
        assert!(report.summary.contains("; 1 not read: order 2 (no); 1 quarantined"), "{}", report.summary);
    }
}
