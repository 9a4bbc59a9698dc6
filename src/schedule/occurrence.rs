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

/// The occurrences of one job's schedule that start after a time.
#[derive(Clone, Debug)]
pub struct JobOccurrences {
    pub job: JobKind,
    pub schedule: Schedule,
    next: Option<Timestamp>,
    last_fired: Option<Timestamp>,
}

impl JobOccurrences {
    pub fn new(job: JobKind, schedule: Schedule, now: Timestamp) -> Self {
        let next = schedule.next_start(job, now);
        Self { job, schedule, next, last_fired: None }
    }

    /// Returns the start of the next occurrence; it may have passed.
    pub fn next_start(&self) -> Option<Timestamp> {
        self.next
    }

    /// Returns the due time of the newest occurrence that has started by `now`, once.
    pub fn take_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.next.filter(|next| *next <= now)?;
        self.next = self.schedule.next_start(self.job, now);
        let due = self.schedule.latest_started(self.job, now)?;
        let last_fired = self.last_fired.filter(|fired| *fired <= now.plus(LATE_AFTER));
        if last_fired.is_some_and(|fired| due <= fired) {
            return None;
        }
        self.last_fired = Some(due);
        let late = now.duration_since(self.schedule.start_of(self.job, due)) > LATE_AFTER;
        (!late || self.schedule.missed_policy() == MissedPolicy::RunOnce).then_some(due)
    }

    /// Waits for an earlier start, if the clock was set back; it would otherwise wait for a time that moved away.
    pub fn bring_forward(&mut self, now: Timestamp) {
        let start = self.schedule.next_start(self.job, now);
        self.next = start.filter(|start| self.next.is_none_or(|next| *start < next)).or(self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn occurrences(expression: &str, zone: &str, missed: MissedPolicy, now: &str) -> JobOccurrences {
        let schedule = Schedule::parse(expression, zone, Duration::ZERO, missed).unwrap();
        JobOccurrences::new(JobKind::Balances, schedule, at(now))
    }

    fn hourly(missed: MissedPolicy) -> JobOccurrences {
        occurrences("0 0 * * * *", "UTC", missed, "2027-01-01T04:30:00Z")
    }

    #[test]
    fn an_occurrence_is_handed_out_once_and_one_that_comes_too_late_goes_by_the_policy() {
        let due = at("2027-01-01T09:00:00Z");
        for (missed, late) in [(MissedPolicy::RunOnce, Some(due)), (MissedPolicy::Skip, None)] {
            let mut hourly = hourly(missed);
            assert_eq!(hourly.take_due(at("2027-01-01T04:59:59.999Z")), None, "it has not started");
            assert_eq!(hourly.take_due(at("2027-01-01T05:00:00.300Z")), Some(at("2027-01-01T05:00:00Z")));
            assert_eq!(hourly.take_due(at("2027-01-01T05:00:00.800Z")), None, "a second tick for the same");
            assert_eq!(hourly.take_due(at("2027-01-01T09:30:00Z")), late, "however many passed in a suspend");
            assert_eq!(hourly.take_due(at("2027-01-01T09:31:00Z")), None);
        }
    }

    #[test]
    fn a_tick_is_late_after_a_minute_and_not_before() {
        for (now, is_fired) in [("2027-01-01T05:01:00Z", true), ("2027-01-01T05:01:00.001Z", false)] {
            assert_eq!(hourly(MissedPolicy::Skip).take_due(at(now)).is_some(), is_fired, "{now}");
        }
    }

    #[test]
    fn starts_keep_the_wall_clock_through_a_clock_change_without_a_restart() {
        let mut daily =
            occurrences("0 30 8 * * *", "Europe/Berlin", MissedPolicy::Skip, "2027-03-26T12:00:00Z");
        assert_eq!(daily.next_start(), Some(at("2027-03-27T07:30:00Z")));
        assert!(daily.take_due(at("2027-03-27T07:30:00.400Z")).is_some());
        assert_eq!(daily.next_start(), Some(at("2027-03-28T06:30:00Z")));
    }

    #[test]
    fn a_clock_set_back_stops_no_occurrence_and_repeats_only_those_of_longer_ago() {
        let mut hourly = hourly(MissedPolicy::Skip);
        let five = at("2027-01-01T05:00:00Z");
        assert!(hourly.take_due(five).is_some());
        hourly.bring_forward(at("2027-01-01T04:59:30Z"));
        assert_eq!(hourly.next_start(), Some(five));
        assert_eq!(hourly.take_due(five), None, "the same occurrence");
        hourly.bring_forward(at("2027-01-01T03:59:00Z"));
        let earlier = at("2027-01-01T04:00:00Z");
        assert_eq!(hourly.take_due(earlier), Some(earlier));
        assert_eq!(hourly.take_due(five), Some(five));
    }
}
