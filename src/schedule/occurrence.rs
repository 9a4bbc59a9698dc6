//! The occurrences of a schedule as a clock goes through them, also one that jumps: each is handed out once, one that
//! comes too late goes by the policy for missed ones. Pure: who ticks says what the time is, the driver by the host's
//! timers and the simulation by its own.

use super::{Missed, Schedule};
use crate::model::{JobKind, Timestamp};
use std::time::Duration;

/// A clock set back by more than this makes all next ticks wrong; smaller steps only delay one.
const SET_BACK: Duration = Duration::from_secs(10);
/// A tick that comes later than this after its start was missed (the machine slept), and goes by the policy.
const LATE: Duration = Duration::from_secs(60);

/// The occurrences of one job's schedule.
#[derive(Clone, Debug)]
pub struct Occurrences {
    job: JobKind,
    schedule: Schedule,
    fired: Option<Timestamp>,
}

impl Occurrences {
    /// None was handed out yet.
    pub fn new(job: JobKind, schedule: Schedule) -> Self {
        Self { job, schedule, fired: None }
    }

    /// Whose they are.
    pub fn job(&self) -> JobKind {
        self.job
    }

    /// What they follow.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// When the next one starts after `after`.
    pub fn next_start(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next_start(self.job, after)
    }

    /// The due time of the occurrence that a tick at `now` stands for, once: a slow ticker may tick twice for it.
    pub fn due(&mut self, now: Timestamp) -> Option<Timestamp> {
        let due = self.schedule.latest_started(self.job, now)?;
        if self.fired.is_some_and(|fired| due <= fired) {
            return None;
        }
        self.fired = Some(due);
        let late = now.since(self.schedule.start_of(self.job, due)) > LATE;
        (!late || self.schedule.policy() == Missed::RunOnce).then_some(due)
    }

    /// The clock was set back: what comes now comes again.
    pub fn start_again(&mut self) {
        self.fired = None;
    }
}

/// Notices that the clock on the wall was set back: jobs would otherwise wait for a time that has been moved away.
#[derive(Clone, Copy, Debug)]
pub struct Wall(Timestamp);

impl Wall {
    /// It shows this.
    pub fn new(now: Timestamp) -> Self {
        Self(now)
    }

    /// Whether it was set back since the last look.
    pub fn is_set_back(&mut self, now: Timestamp) -> bool {
        let set_back = now.plus(SET_BACK) < self.0;
        self.0 = if set_back { now } else { now.max(self.0) };
        set_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn hourly(missed: Missed) -> Occurrences {
        let schedule = Schedule::parse("0 0 * * * *", "UTC", Duration::ZERO, missed).unwrap();
        Occurrences::new(JobKind::Balances, schedule)
    }

    #[test]
    fn an_occurrence_is_handed_out_once_and_one_that_comes_too_late_goes_by_the_policy() {
        for (missed, late) in [(Missed::RunOnce, Some(at("2027-01-01T09:00:00Z"))), (Missed::Skip, None)] {
            let mut hourly = hourly(missed);
            assert_eq!(hourly.due(at("2027-01-01T05:00:00.300Z")), Some(at("2027-01-01T05:00:00Z")));
            assert_eq!(hourly.due(at("2027-01-01T05:00:00.800Z")), None, "a second tick for the same");
            assert_eq!(hourly.due(at("2027-01-01T09:30:00Z")), late, "however many passed in a suspend");
            assert_eq!(hourly.due(at("2027-01-01T09:31:00Z")), None);
        }
    }

    #[test]
    fn what_a_clock_set_back_shows_again_comes_again() {
        let (mut hourly, mut wall) = (hourly(Missed::Skip), Wall::new(at("2027-01-01T05:00:00Z")));
        assert!(hourly.due(at("2027-01-01T05:00:00Z")).is_some());
        assert!(!wall.is_set_back(at("2027-01-01T05:00:05Z")));
        assert!(!wall.is_set_back(at("2027-01-01T04:59:58Z")), "a small step only delays");
        assert!(wall.is_set_back(at("2027-01-01T04:00:00Z")));
        assert!(!wall.is_set_back(at("2027-01-01T04:00:01Z")), "it is noticed once");
        hourly.start_again();
        assert_eq!(hourly.due(at("2027-01-01T04:00:00Z")), Some(at("2027-01-01T04:00:00Z")));
    }
}
