//! The daemon's schedules in a world, by the real rules (`tallyd::schedule`).
//!
//! The world's clock drives them, instead of the scheduler library of the daemon.

use tallyd::model::{JobKind, Timestamp};
use tallyd::schedule::{JobOccurrences, Schedule};

/// The schedules of one start of the daemon.
pub struct Timetable {
    jobs: Vec<JobOccurrences>,
}

impl Timetable {
    pub fn new(schedules: Vec<(JobKind, Schedule)>, now: Timestamp) -> Self {
        let jobs = schedules.into_iter().map(|(kind, schedule)| JobOccurrences::new(kind, schedule, now));
        Self { jobs: jobs.collect() }
    }

    /// Returns the calendar time of the next start.
    pub fn next(&self) -> Option<Timestamp> {
        self.jobs.iter().filter_map(JobOccurrences::next_start).min()
    }

    /// Returns the jobs due now with their due times; each due time is returned once.
    pub fn due(&mut self, now: Timestamp) -> Vec<(JobKind, Timestamp, Option<Timestamp>)> {
        let due = |job: &mut JobOccurrences| job.take_due(now).map(|at| (job.job, at, job.next_start()));
        self.jobs.iter_mut().filter_map(due).collect()
    }

    /// Recomputes the due times if the calendar was set back.
    pub fn look(&mut self, now: Timestamp) {
        self.jobs.iter_mut().for_each(|job| job.bring_forward(now));
    }

    /// Returns the jobs that a start of the daemon runs once after downtime.
    pub fn missed(
        &self,
        now: Timestamp,
        last: impl Fn(JobKind) -> Option<Timestamp>,
    ) -> Vec<(JobKind, Timestamp)> {
        let jobs = self.jobs.iter().map(|job| (job.job, &job.schedule));
        jobs.filter_map(|(job, schedule)| Some((job, schedule.catch_up(job, last(job), now)?))).collect()
    }
}
