//! The daemon's schedules in a world, by the real rules (`tallyd::schedule`).
//!
//! The world's clock drives them, instead of the scheduler library of the daemon.

use tallyd::model::{JobKind, Timestamp};
use tallyd::schedule::{JobOccurrences, Schedule};

/// The schedules of one start of the daemon.
pub struct Timetable {
    rows: Vec<(JobOccurrences, Option<Timestamp>)>,
}

impl Timetable {
    pub fn new(schedules: Vec<(JobKind, Schedule)>, now: Timestamp) -> Self {
        let row = |(kind, schedule)| {
            let occurrences = JobOccurrences::new(kind, schedule);
            let next = occurrences.next_start(now);
            (occurrences, next)
        };
        Self { rows: schedules.into_iter().map(row).collect() }
    }

    /// Returns the calendar time of the next start.
    pub fn next(&self) -> Option<Timestamp> {
        self.rows.iter().filter_map(|(_, next)| *next).min()
    }

    /// Returns the jobs due now with their due times; each due time is returned once.
    pub fn due(&mut self, now: Timestamp) -> Vec<(JobKind, Timestamp, Option<Timestamp>)> {
        let mut due = Vec::new();
        for (occurrences, next) in self.rows.iter_mut().filter(|(_, next)| next.is_some_and(|at| at <= now)) {
            *next = occurrences.next_start(now);
            due.extend(occurrences.take_due(now).map(|at| (occurrences.job, at, *next)));
        }
        due
    }

    /// Brings forward the starts that belong to a time before the calendar was set back.
    pub fn look(&mut self, now: Timestamp) {
        for (occurrences, next) in &mut self.rows {
            *next = (*next).min(occurrences.next_start(now));
        }
    }

    /// Returns the jobs that a start of the daemon runs once after downtime.
    pub fn missed(
        &self,
        now: Timestamp,
        last: impl Fn(JobKind) -> Option<Timestamp>,
    ) -> Vec<(JobKind, Timestamp)> {
        let jobs = self.rows.iter().map(|(occurrences, _)| (occurrences.job, &occurrences.schedule));
        jobs.filter_map(|(job, schedule)| Some((job, schedule.catch_up(job, last(job), now)?))).collect()
    }
}
