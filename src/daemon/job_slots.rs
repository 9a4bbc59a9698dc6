//! Job slots: the running jobs, their pending triggers, and the retries.
//!
//! Pure: the loop ([`supervise`](super)) starts jobs and reports their end. `T` is any point in time, so that
//! a test can count time itself.

use crate::journal::RunOutcome;
use crate::model::{JobKind, RetryDelays, RunTrigger};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The slots of all kinds of job.
#[derive(Clone, Debug)]
pub struct JobSlots<T> {
    /// Running jobs, each with the trigger for its next run, if one came.
    slots: BTreeMap<JobKind, Option<RunTrigger>>,
    /// Failed jobs, each with the time of its retry and the delays after that.
    retries: BTreeMap<JobKind, (T, RetryDelays)>,
    /// Jobs stopped by a refused key; they run when the key works again.
    refused: BTreeSet<JobKind>,
    /// Triggered jobs that start after the job whose facts they read from.
    deferred: BTreeMap<JobKind, RunTrigger>,
}

/// Returns the job whose facts name the entries that the job reads.
fn source_of(kind: JobKind) -> Option<JobKind> {
    match kind {
        JobKind::ListingTemplates => Some(JobKind::Storefronts),
        // An allocation of an order shows that a product is a kit.
        JobKind::KitComponents => Some(JobKind::OrderLines),
        _ => None,
    }
}

impl<T> Default for JobSlots<T> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            retries: BTreeMap::new(),
            refused: BTreeSet::new(),
            deferred: BTreeMap::new(),
        }
    }
}

impl<T: Copy + Ord> JobSlots<T> {
    /// Returns true if the job is to start now. A job that already runs is run once more afterwards. A job that
    /// reads from the facts of a running one starts after it ([`Self::take_ready`]).
    pub fn take_slot(&mut self, kind: JobKind, trigger: RunTrigger) -> bool {
        if self.waits_for_source(kind, trigger) {
            self.deferred.insert(kind, trigger);
            return false;
        }
        if let Some(again) = self.slots.get_mut(&kind) {
            *again = Some(trigger);
            return false;
        }
        self.slots.insert(kind, None);
        true
    }

    /// Ends a run of the job. Returns the trigger for the next run and the delay until the retry, if any.
    ///
    /// `after` converts a delay from now into a point in time. A failed job is retried with growing delays,
    /// because a daily job must not wait for the next day and nothing else would wake a push. A job stopped
    /// by a refused key is run when the key works again.
    pub fn end_run(
        &mut self,
        kind: JobKind,
        outcome: RunOutcome,
        is_refused: bool,
        after: impl Fn(Duration) -> T,
    ) -> (Option<RunTrigger>, Option<Duration>) {
        let mut retry = None;
        let delays = self.retries.remove(&kind).map(|(_, delays)| delays);
        if is_refused {
            self.refused.insert(kind);
        } else if matches!(outcome, RunOutcome::Partial | RunOutcome::Failed) {
            let mut delays = delays.unwrap_or_else(|| first_delays(kind));
            retry = delays.next();
            if let Some(delay) = retry {
                self.retries.insert(kind, (after(delay), delays));
            }
        }
        (self.slots.remove(&kind).flatten(), retry)
    }

    /// Returns and forgets the deferred jobs that may start now.
    pub(crate) fn take_ready(&mut self) -> Vec<(JobKind, RunTrigger)> {
        let deferred = std::mem::take(&mut self.deferred);
        let (waiting, ready): (BTreeMap<_, _>, BTreeMap<_, _>) =
            deferred.into_iter().partition(|(kind, trigger)| self.waits_for_source(*kind, *trigger));
        self.deferred = waiting;
        ready.into_iter().collect()
    }

    /// Returns true if the job's source runs; at the start of the daemon also if its first run failed and is
    /// retried, because the job would read nothing and be due a day later.
    fn waits_for_source(&self, kind: JobKind, trigger: RunTrigger) -> bool {
        source_of(kind).is_some_and(|source| match trigger {
            RunTrigger::Missed => self.is_active(source),
            _ => self.is_busy(source),
        })
    }

    /// Returns the time of the first retry.
    pub fn next_retry(&self) -> Option<T> {
        self.retries.values().map(|(at, _)| *at).min()
    }

    /// Returns the jobs to retry at `now` and postpones each to `later`, until its run ends.
    pub fn retries_due(&mut self, now: T, later: T) -> Vec<JobKind> {
        let mut due = Vec::new();
        for (kind, (at, _)) in &mut self.retries {
            if now >= *at {
                *at = later;
                due.push(*kind);
            }
        }
        due
    }

    /// Returns and forgets the jobs stopped by the refused key.
    pub fn take_refused(&mut self) -> BTreeSet<JobKind> {
        std::mem::take(&mut self.refused)
    }

    /// Returns true if the job runs or has a retry planned.
    pub(crate) fn is_active(&self, kind: JobKind) -> bool {
        self.is_busy(kind) || self.retries.contains_key(&kind)
    }

    /// Returns true if the job runs.
    pub fn is_busy(&self, kind: JobKind) -> bool {
        self.slots.contains_key(&kind)
    }
}

/// Returns the delays between retries: short for a push, longer for a poll, because a failed poll costs
/// quota.
fn first_delays(kind: JobKind) -> RetryDelays {
    if kind == JobKind::Push { RetryDelays::push_retry() } else { RetryDelays::slow_retry() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_starts_after_the_job_whose_facts_it_reads_from() {
        let mut slots = JobSlots::<u64>::default();
        let after = |delay: Duration| delay.as_secs();
        let missed = RunTrigger::Missed;
        assert!(slots.take_slot(JobKind::Storefronts, missed));
        assert!(slots.take_slot(JobKind::OrderLines, missed));
        assert!(!slots.take_slot(JobKind::ListingTemplates, missed), "its storefronts are being read");
        assert!(!slots.take_slot(JobKind::KitComponents, missed), "its orders are being read");
        assert!(slots.take_slot(JobKind::Suppliers, missed), "others do not wait");
        slots.end_run(JobKind::OrderLines, RunOutcome::Ok, false, after);
        assert_eq!(slots.take_ready(), [(JobKind::KitComponents, missed)]);
        // A source that failed at the start is read first, however long that takes.
        slots.end_run(JobKind::Storefronts, RunOutcome::Failed, false, after);
        assert_eq!(slots.take_ready(), []);
        assert!(slots.take_slot(JobKind::Storefronts, RunTrigger::Retry));
        slots.end_run(JobKind::Storefronts, RunOutcome::Ok, false, after);
        assert_eq!(slots.take_ready(), [(JobKind::ListingTemplates, missed)]);
        // Later, a source that fails keeps no schedule waiting.
        assert!(slots.take_slot(JobKind::Storefronts, RunTrigger::Schedule));
        slots.end_run(JobKind::Storefronts, RunOutcome::Failed, false, after);
        assert!(slots.take_slot(JobKind::ListingTemplates, RunTrigger::Schedule));
    }
}
