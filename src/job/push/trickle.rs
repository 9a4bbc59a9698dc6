//! Cells of a trickle wait for each other, so that their reads and their calls are shared. *A read and an update for each two
//! or three movements took three quarters of the quota, and a call that waited for the next read to fill it 9 s.*
//!
//! A few cells begin together, a read and the calls that follow, once in the time of [`CALLS_APART`] calls of the quota.
//! Changes that come alone wait for nobody: some of these times are saved up. Two full calls go at once, as do what an
//! operator waits for, what was read for its write, and what goes apart because its last call failed.

use super::turn::Ways;
use super::work::Work;
use super::{ENTRIES_MAX, Push};
use crate::job::Context;
use crate::model::{Cell, Moment};
use crate::reconcile::Step;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// A read and two updates once in the time of so many calls: a quarter of the quota. At 120 calls a minute that is every
/// 6 s, in which 6 movements a second fill a call and a half.
const CALLS_APART: u32 = 12;
/// The longest wait, also where few calls are ours.
const APART_MAX: Duration = Duration::from_secs(6);
/// The number that is saved up.
const SAVED: u32 = 3;
/// This number of cells waits for no more.
const MANY: usize = 2 * ENTRIES_MAX;

/// Times at which few cells may begin, for all runs of a daemon.
#[derive(Debug)]
pub(in crate::job) struct Starts {
    /// All that is saved up is back at this time.
    full_at: Moment,
    apart: Duration,
}

impl Default for Starts {
    fn default() -> Self {
        Self { full_at: Moment(0), apart: Duration::ZERO }
    }
}

impl Starts {
    /// True if a few cells may begin now; that is counted.
    fn take(&mut self, now: Moment, calls_per_minute: u32) -> bool {
        self.apart = (MINUTE * CALLS_APART / calls_per_minute.max(1)).min(APART_MAX);
        let may = now >= self.next_at();
        if may {
            self.full_at = self.full_at.max(now).plus(self.apart);
        }
        may
    }

    fn next_at(&self) -> Moment {
        self.full_at.minus(self.apart * (SAVED - 1))
    }
}

impl Push<'_> {
    /// The cells of a batch that go on now; the others wait for more of their kind. What has `begun` waits only to fill its
    /// call.
    pub(super) fn few<'w>(&mut self, ways: &Ways, begun: &[Cell], batch: Vec<&'w Work>) -> Vec<&'w Work> {
        let begins = |work: &&Work| match work.plan.step {
            Step::Read | Step::Write { .. } => {
                let goes_on = self.pipe.own_reads.contains_key(&work.cell) || begun.contains(&work.cell);
                !goes_on && !ways.is_apart(work)
            }
            Step::Nothing | Step::Agreed(_) => false,
        };
        let few = batch.iter().filter(|work| begins(work)).count();
        if few == 0 || few >= MANY || self.context.is_stopping() || batch.iter().any(|work| work.urgent) {
            return batch;
        }
        let calls_per_minute = self.context.limiter.budget().limit;
        if self.context.starts().take(self.context.moment(), calls_per_minute) {
            return batch;
        }
        let (waiting, now): (Vec<&Work>, Vec<&Work>) = batch.into_iter().partition(begins);
        self.pipe.few.extend(waiting.into_iter().map(|work| work.cell.clone()));
        now
    }

    /// The time at which few cells go on, if any wait for more.
    pub(super) fn few_until(&self) -> Option<Moment> {
        (!self.pipe.few.is_empty()).then(|| self.context.starts().next_at())
    }

    /// Few cells go on when their time has come, or when they are many.
    pub(super) fn release_few(&mut self) {
        let is_over = self.few_until().is_some_and(|end| end <= self.context.moment());
        if is_over || self.pipe.few.len() >= MANY || self.context.is_stopping() {
            let cells = std::mem::take(&mut self.pipe.few);
            self.pipe.backlog.put_back(cells.into_iter().map(|cell| (cell, false)).collect());
        }
    }

    /// The end of the next pause of the line; none where nothing is under way and nothing is tried again. *Few cells alone
    /// do not keep it: what comes behind the stock has its turn meanwhile.*
    pub(super) fn pause_ends(&self) -> Option<Moment> {
        let again = self.pipe.search.pause_ends();
        let goes_on = again.is_some() || !self.pipe.flying.is_empty();
        again.into_iter().chain(self.few_until().filter(|_| goes_on)).min()
    }
}

/// Until a pause ends, or the daemon stops: then the next call for a place says so.
pub(super) async fn until(context: &Context, pause: Option<Moment>) {
    let Some(end) = pause else { return };
    tokio::select! {
        () = context.clock.sleep(end.since(context.moment())) => {}
        () = context.stopped() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_changes_begin_at_once_and_a_stream_of_them_every_six_seconds() {
        let mut starts = Starts::default();
        let begun = (100_000..130_000).step_by(500).filter(|ms| starts.take(Moment(*ms), 120));
        let begun: Vec<i64> = begun.map(|ms| ms - 100_000).collect();
        assert_eq!(begun, [0, 500, 1_000, 6_000, 12_000, 18_000, 24_000]);
        assert!(starts.take(Moment(200_000), 120), "they are saved up again");
    }

    #[test]
    fn no_quota_is_so_small_that_a_change_waits_longer_and_a_large_one_makes_it_shorter() {
        for (calls_per_minute, apart) in [(0, 6_000), (2, 6_000), (120, 6_000), (240, 3_000), (6_000, 120)] {
            let mut starts = Starts::default();
            assert!((0..3).all(|_| starts.take(Moment(100_000), calls_per_minute)));
            assert!(!starts.take(Moment(99_999 + apart), calls_per_minute), "{calls_per_minute}");
            assert!(starts.take(Moment(100_000 + apart), calls_per_minute), "{calls_per_minute}");
        }
    }
}
