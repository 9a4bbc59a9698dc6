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
pub(crate) struct JobSlots<T> {
    /// Running jobs, each with the trigger for its next run, if one came.
    slots: BTreeMap<JobKind, Option<RunTrigger>>,
    /// Failed jobs, each with the time of its retry and the delays after that.
    retries: BTreeMap<JobKind, (T, RetryDelays)>,
    /// Jobs stopped by a refused key; they run when the key works again.
    refused: BTreeSet<JobKind>,
}

impl<T> Default for JobSlots<T> {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), retries: BTreeMap::new(), refused: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> JobSlots<T> {
    /// Returns true if the job is to start now. A job that already runs is run once more afterwards.
    pub(crate) fn take_slot(&mut self, kind: JobKind, trigger: RunTrigger) -> bool {
        if let Some(again) = self.slots.get_mut(&kind) {
            *again = Some(trigger);
            return false;
        }
        self.slots.insert(kind, None);
        true
    }

    /// Ends a run of the job. Returns the trigger for the next run and the delay until the retry, if any.
    /// `after` converts a delay from now into a point in time. A failed job is retried with growing delays,
    /// because a daily job must not wait for the next day and nothing else would wake a push. A job stopped
    /// by a refused key is run when the key works again.
    pub(crate) fn end_run(
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
            // Longer for a poll, because a failed poll costs quota.
            let first = if kind == JobKind::Push { RetryDelays::push_retry } else { RetryDelays::slow_retry };
            let mut delays = delays.unwrap_or_else(first);
            retry = delays.next();
            if let Some(delay) = retry {
                self.retries.insert(kind, (after(delay), delays));
            }
        }
        (self.slots.remove(&kind).flatten(), retry)
    }

    /// Returns the time of the first retry.
    pub(crate) fn next_retry(&self) -> Option<T> {
        self.retries.values().map(|(at, _)| *at).min()
    }

    /// Returns the jobs to retry at `now` and postpones each to `later`, until its run ends. A run under way is the retry:
    /// runs longer than their delays would otherwise follow each other without a pause.
    pub(crate) fn retries_due(&mut self, now: T, later: T) -> Vec<JobKind> {
        let mut due = Vec::new();
        for (kind, (at, _)) in &mut self.retries {
            if now >= *at {
                *at = later;
                if !self.slots.contains_key(kind) {
                    due.push(*kind);
                }
            }
        }
        due
    }

    /// Returns and forgets the jobs stopped by the refused key.
    pub(crate) fn take_refused(&mut self) -> BTreeSet<JobKind> {
        std::mem::take(&mut self.refused)
    }

    /// Returns true if the job runs or has a retry planned.
    pub(crate) fn is_active(&self, kind: JobKind) -> bool {
        self.is_busy(kind) || self.retries.contains_key(&kind)
    }

    /// Returns true if the job runs.
    pub(crate) fn is_busy(&self, kind: JobKind) -> bool {
        self.slots.contains_key(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_that_falls_due_while_its_job_runs_does_not_run_it_again() {
        let mut slots = JobSlots::default();
        let (push, after) = (JobKind::Push, |now: u64| move |delay: Duration| now + delay.as_secs());
        assert!(slots.take_slot(push, RunTrigger::Outbox));
        assert_eq!(slots.end_run(push, RunOutcome::Failed, false, after(0)).0, None);
        assert!(slots.take_slot(push, RunTrigger::Outbox), "before the retry");
        assert_eq!(slots.retries_due(60, 120), []);
        let (again, retry) = slots.end_run(push, RunOutcome::Failed, false, after(60));
        assert_eq!(
            (again, retry.map(|delay| slots.next_retry() == Some(60 + delay.as_secs()))),
            (None, Some(true))
        );
    }
}
