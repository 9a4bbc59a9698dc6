//! Summary of a run that makes one call for each of many entries ([`super::entry_reads`] makes them).

use crate::exec::Report;
use crate::model::JobKind;

/// Most entries named in the summary; the others are counted.
const NAMED: usize = 5;

/// Counts of many reads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    read: usize,
    changed: u64,
    not_read: Vec<String>,
    set_aside: Vec<String>,
    oddities: Vec<String>,
    /// True if a quarantined entry was answered: the changes that wait for it are tried again.
    is_taken_back: bool,
}

impl Tally {
    /// Counts an entry that was read, and the facts that it changed.
    pub(super) fn read(&mut self, changed: u64) {
        self.read += 1;
        self.changed += changed;
    }

    /// Counts an entry that was not read, by its name and reason.
    pub(super) fn not_read(&mut self, named: String) {
        self.not_read.push(named);
    }

    /// Counts a quarantined entry, which does not make the run partial.
    pub(super) fn set_aside(&mut self, named: String) {
        self.set_aside.push(named);
    }

    /// Records an answered entry. `was_aside`: it was quarantined before.
    pub(super) fn taken_back(&mut self, was_aside: bool) {
        self.is_taken_back |= was_aside;
    }

    /// Returns true if nothing was asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.read == 0 && self.not_read.is_empty() && self.set_aside.is_empty()
    }

    /// Records the reason why a read is incomplete.
    pub(super) fn note(&mut self, oddity: String) {
        self.oddities.push(oddity);
    }

    /// Returns the report of the run, as in "3 order(s) read, 5 line(s) new or changed".
    pub(super) fn report(&self, things: &str, facts: &str) -> Report {
        let mut summary = format!("{} {things} read, {} {facts} new or changed", self.read, self.changed);
        if !self.not_read.is_empty() {
            let named = named(&self.not_read);
            summary.push_str(&format!("; {} not read: {named}", self.not_read.len()));
        }
        if !self.set_aside.is_empty() {
            let named = named(&self.set_aside);
            summary.push_str(&format!("; {} set aside, tried by themselves: {named}", self.set_aside.len()));
        }
        if !self.oddities.is_empty() {
            summary.push_str(&format!("; {}", named(&self.oddities)));
        }
        let report = match self.not_read.is_empty() && self.oddities.is_empty() {
            true => Report::ok(summary),
            false => Report::partial(summary),
        };
        Report { wakes: self.is_taken_back.then_some(JobKind::Push), ..report }
    }
}

fn named(all: &[String]) -> String {
    all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::RunOutcome;

    #[test]
    fn what_is_not_read_is_named_and_what_is_set_aside_makes_no_run_bad() {
        let mut tally = Tally::default();
        tally.read(3);
        tally.set_aside("order 7 (no)".into());
        let report = tally.report("order(s)", "line(s)");
        assert_eq!(report.outcome, RunOutcome::Ok);
        let expected =
            "1 order(s) read, 3 line(s) new or changed; 1 set aside, tried by themselves: order 7 (no)";
        assert_eq!(report.summary, expected);
        tally.not_read("order 2 (no)".into());
        let report = tally.report("order(s)", "line(s)");
        assert_eq!(report.outcome, RunOutcome::Partial);
        assert!(report.summary.contains("; 1 not read: order 2 (no); 1 set aside"), "{}", report.summary);
    }
}
