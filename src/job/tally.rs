//! Many things, one call each: what the service refuses is named, the others go on. Where it answers none of several in
//! a row, the run ends: each takes its whole patience, and the next run begins with them.

use super::{JobError, Report};
use std::fmt::Display;

/// So many of those not read are named in the summary; the rest is counted.
const NAMED: usize = 5;
/// So many given up in a row end the run.
const GIVEN_UP_MAX: usize = 3;

/// What came of many reads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    read: usize,
    changed: u64,
    given_up: usize,
    not_read: Vec<String>,
    oddities: Vec<String>,
}

impl Tally {
    /// Counts one read: how many facts it changed, or why it brought none. What ends the whole run is returned.
    pub(super) fn count(&mut self, name: impl Display, read: Result<u64, JobError>) -> Result<(), JobError> {
        self.given_up = if matches!(read, Err(JobError::GivenUp { .. })) { self.given_up + 1 } else { 0 };
        match read {
            Err(error @ JobError::GivenUp { .. }) if self.given_up >= GIVEN_UP_MAX => Err(error),
            Ok(changed) => {
                self.read += 1;
                self.changed += changed;
                Ok(())
            }
            Err(
                JobError::Rejected { why, .. } | JobError::GivenUp { why, .. } | JobError::Implausible(why),
            ) => {
                self.not_read.push(format!("{name} ({why})"));
                Ok(())
            }
            Err(error @ (JobError::Stopped | JobError::Refused(_) | JobError::Store(_))) => Err(error),
        }
    }

    /// Notes what keeps a read from being all there is.
    pub(super) fn note(&mut self, oddity: String) {
        self.oddities.push(oddity);
    }

    /// What to say of the run, as in "3 order(s) read, 5 line(s) new or changed".
    pub(super) fn report(&self, things: &str, facts: &str) -> Report {
        let mut summary = format!("{} {things} read, {} {facts} new or changed", self.read, self.changed);
        if !self.not_read.is_empty() {
            let named = named(&self.not_read);
            summary.push_str(&format!("; {} not read: {named}", self.not_read.len()));
        }
        if !self.oddities.is_empty() {
            summary.push_str(&format!("; {}", named(&self.oddities)));
        }
        if self.not_read.is_empty() && self.oddities.is_empty() {
            return Report::ok(summary);
        }
        Report::partial(summary)
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
    fn what_is_refused_is_named_and_what_ends_the_run_is_not_swallowed() {
        let mut tally = Tally::default();
        tally.count(1, Ok(3)).unwrap();
        assert_eq!(tally.report("order(s)", "line(s)").outcome, RunOutcome::Ok);
        let rejected = JobError::Rejected { what: "order 2".into(), why: "no".into(), status: Some(403) };
        tally.count(2, Err(rejected)).unwrap();
        let report = tally.report("order(s)", "line(s)");
        assert_eq!(report.outcome, RunOutcome::Partial);
        assert_eq!(report.summary, "1 order(s) read, 3 line(s) new or changed; 1 not read: 2 (no)");
        assert!(matches!(tally.count(3, Err(JobError::Stopped)), Err(JobError::Stopped)));
    }

    #[test]
    fn a_service_that_answers_nothing_ends_the_run() {
        let given_up = || JobError::GivenUp { what: "an order".into(), why: "too late".into() };
        let mut tally = Tally::default();
        let runs_on = |tally: &mut Tally, read| tally.count(1, read).is_ok();
        let reads = [Err(given_up()), Err(given_up()), Ok(1), Err(given_up()), Err(given_up())];
        assert!(reads.into_iter().all(|read| runs_on(&mut tally, read)), "one answer between starts anew");
        assert!(!runs_on(&mut tally, Err(given_up())));
    }
}
