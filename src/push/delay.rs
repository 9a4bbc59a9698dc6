//! Delay of a few stock levels, so that they share their reads and their calls.
//!
//! Without it a read and an update for every two or three adjusts took three quarters of the quota. A call
//! that was held until the next read filled it was 9 s late.
//!
//! A few stock levels start together: a read and the calls that follow. They start once in the time of
//! [`CALLS_APART`](crate::exec::start_budget) calls of the quota. Up to [`SAVED`](crate::exec::start_budget)
//! starts accumulate, so single changes do not wait. Some stock levels start at once: two full calls,
//! operators' changes, writes whose stock levels were just read, and calls apart after a failure.

use super::routes::Ways;
use super::snapshot::Work;
use super::{ENTRIES_MAX, Push};
use crate::exec::Context;
use crate::model::{Cell, Moment};
use crate::reconcile::Step;

/// Number of stock levels that start without a delay.
const MANY: usize = 2 * ENTRIES_MAX;

impl Push<'_> {
    /// Returns the stock levels of a batch to be processed now. The others wait in `few`. Stock levels in
    /// `begun` never wait here, because they wait only to fill their call.
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

    /// Returns the end of the wait of a few stock levels, if any wait.
    pub(super) fn few_until(&self) -> Option<Moment> {
        (!self.pipe.few.is_empty()).then(|| self.context.starts().next_at())
    }

    /// Puts the waiting stock levels back to the backlog once they may start. They may start at their time,
    /// or once they are [`MANY`].
    pub(super) fn release_few(&mut self) {
        let is_over = self.few_until().is_some_and(|end| end <= self.context.moment());
        if is_over || self.pipe.few.len() >= MANY || self.context.is_stopping() {
            let cells = std::mem::take(&mut self.pipe.few);
            self.pipe.backlog.put_back(cells.into_iter().map(|cell| (cell, false)).collect());
        }
    }

    /// Returns the end of the pipeline's next pause. `None` if nothing is in flight and nothing is tried
    /// again. A few waiting stock levels do not keep the pipeline running, so that the changes behind the
    /// quantities are sent.
    pub(super) fn pause_ends(&self) -> Option<Moment> {
        let again = self.pipe.search.pause_ends();
        let goes_on = again.is_some() || !self.pipe.flying.is_empty();
        again.into_iter().chain(self.few_until().filter(|_| goes_on)).min()
    }
}

/// Waits until a pause ends or the daemon stops. After a stop the next reservation returns the error.
pub(super) async fn until(context: &Context, pause: Option<Moment>) {
    let Some(end) = pause else { return };
    tokio::select! {
        () = context.clock.sleep(end.since(context.moment())) => {}
        () = context.stopped() => {}
    }
}
