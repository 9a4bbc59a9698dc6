//! The occurrences of a schedule along a clock that may jump. Pure: the caller gives the time.
//!
//! Each occurrence is returned once. A late occurrence follows the policy for missed ones. The driver and the
//! simulation use it.

use super::{MissedPolicy, Schedule};
use crate::model::{JobKind, Timestamp};
use std::time::Duration;

/// The delay after which an occurrence counts as missed, as after a suspend. An occurrence that lies further ahead was
/// returned before the clock was set back.
const LATE_AFTER: Duration = Duration::from_secs(60);

/// The occurrences of one job's schedule.
#[derive(Clone, Debug)]
pub struct JobOccurrences {
    /// The job.
    pub job: JobKind,
    /// The schedule.
    pub schedule: Schedule,
    last_fired: Option<Timestamp>,
}

impl JobOccurrences {
    /// Creates the occurrences; none was returned yet.
    pub fn new(job: JobKind, schedule: Schedule) -> Self {
        Self { job, schedule, last_fired: None }
    }

    /// Returns the next start after `after`.
    pub fn next_start(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next_start(self.job, after)
    }

    /// Returns the due time of the occurrence for a tick at `now`, once, because a slow ticker may tick twice
    /// for it.
    pub fn take_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        let due = self.schedule.latest_started(self.job, now)?;
        let last_fired = self.last_fired.filter(|fired| *fired <= now.plus(LATE_AFTER));
        if last_fired.is_some_and(|fired| due <= fired) {
            return None;
        }
        self.last_fired = Some(due);
        let late = now.duration_since(self.schedule.start_of(self.job, due)) > LATE_AFTER;
        (!late || self.schedule.missed_policy() == MissedPolicy::RunOnce).then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn hourly(missed: MissedPolicy) -> JobOccurrences {
        let schedule = Schedule::parse("0 0 * * * *", "UTC", Duration::ZERO, missed).unwrap();
        JobOccurrences::new(JobKind::Balances, schedule)
    }

    #[test]
    fn an_occurrence_is_handed_out_once_and_one_that_comes_too_late_goes_by_the_policy() {
        let due = at("2027-01-01T09:00:00Z");
        for (missed, late) in [(MissedPolicy::RunOnce, Some(due)), (MissedPolicy::Skip, None)] {
            let mut hourly = hourly(missed);
            assert_eq!(hourly.take_due(at("2027-01-01T05:00:00.300Z")), Some(at("2027-01-01T05:00:00Z")));
            assert_eq!(hourly.take_due(at("2027-01-01T05:00:00.800Z")), None, "a second tick for the same");
            assert_eq!(hourly.take_due(at("2027-01-01T09:30:00Z")), late, "however many passed in a suspend");
            assert_eq!(hourly.take_due(at("2027-01-01T09:31:00Z")), None);
        }
    }

    #[test]
    fn a_clock_set_back_stops_no_occurrence_and_repeats_only_those_of_longer_ago() {
        let mut hourly = hourly(MissedPolicy::Skip);
        assert!(hourly.take_due(at("2027-01-01T05:00:00Z")).is_some());
        assert_eq!(hourly.take_due(at("2027-01-01T04:59:30Z")), None, "a small step is no new hour");
        assert_eq!(hourly.take_due(at("2027-01-01T05:00:00Z")), None, "the same occurrence");
        let earlier = at("2027-01-01T04:00:00Z");
        assert_eq!(hourly.take_due(earlier), Some(earlier));
        assert_eq!(hourly.take_due(at("2027-01-01T05:00:00Z")), Some(at("2027-01-01T05:00:00Z")));
    }
}
