//! Whose turn it is: one slot per kind of job, what is to run again behind it, and what is tried again later.
//!
//! Pure: the loop ([`supervise`](super)) starts what it is told to start and says how it ended. Time is any point that a
//! delay leads to, so that a test may count it as it likes.

use crate::journal::RunOutcome;
use crate::model::{JobKind, Trigger};
use crate::outbox::Delays;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The slots of all kinds of job.
#[derive(Clone, Debug)]
pub struct Turns<T> {
    /// Running jobs, and the trigger to run them again with.
    slots: BTreeMap<JobKind, Option<Trigger>>,
    /// Jobs that failed, when they are run again, and the delays after that.
    retries: BTreeMap<JobKind, (T, Delays)>,
    /// Jobs that the refused key stopped: they run as soon as it works again.
    refused: BTreeSet<JobKind>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), retries: BTreeMap::new(), refused: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> Turns<T> {
    /// Whether the job is to be started now. One that runs already is run once more afterwards, however often it is
    /// asked for.
    pub fn begin(&mut self, kind: JobKind, trigger: Trigger) -> bool {
        let busy = self.slots.get_mut(&kind);
        let is_free = busy.is_none();
        match busy {
            Some(again) => *again = Some(trigger),
            None => drop(self.slots.insert(kind, None)),
        }
        is_free
    }

    /// The job's run is over: the trigger to begin it with again, if one came meanwhile, and in how long it is tried again.
    /// `after` makes a point in time of a delay from now.
    ///
    /// A job that failed is run again, slower each time: a daily one must not wait for tomorrow, and nobody else would
    /// wake a push. One that the refused key stopped waits until that works again.
    pub fn ended(
        &mut self,
        kind: JobKind,
        outcome: RunOutcome,
        is_refused: bool,
        after: impl Fn(Duration) -> T,
    ) -> (Option<Trigger>, Option<Duration>) {
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

    /// When the first job is to be tried again.
    pub fn next_retry(&self) -> Option<T> {
        self.retries.values().map(|(at, _)| *at).min()
    }

    /// The jobs to be tried again at `now`; each is put off to `later`, until its run says how it went.
    pub fn retries_due(&mut self, now: T, later: T) -> Vec<JobKind> {
        let due: Vec<JobKind> =
            self.retries.iter().filter(|(_, (at, _))| now >= *at).map(|(kind, _)| *kind).collect();
        for kind in &due {
            if let Some((at, _)) = self.retries.get_mut(kind) {
                *at = later;
            }
        }
        due
    }

    /// The key works again: the jobs that it stopped.
    pub fn healed(&mut self) -> BTreeSet<JobKind> {
        std::mem::take(&mut self.refused)
    }

    /// Whether a run of the job is under way, or to be tried again.
    pub fn is_taken(&self, kind: JobKind) -> bool {
        self.is_busy(kind) || self.retries.contains_key(&kind)
    }

    /// Whether a run of the job is under way.
    pub fn is_busy(&self, kind: JobKind) -> bool {
        self.slots.contains_key(&kind)
    }
}

/// Wishes wait for nothing but their turn; a poll that failed costs quota each time.
fn first_delays(kind: JobKind) -> Delays {
    if kind == JobKind::Push { Delays::concurrency() } else { Delays::probe() }
}
