//! Delay of a few stock levels, so that they share their reads and their calls.
//!
//! Without it a read and an update for every two or three adjusts took three quarters of the quota. A call
//! that was held until the next read filled it was 9 s late.
//!
//! A few stock levels start together: a read and the calls that follow. They start once in the time of
//! [`START_SPACING_CALLS`](crate::exec::start_budget) calls of the quota. Up to [`STARTS_SAVED`](crate::exec::start_budget)
//! starts accumulate, so single changes do not wait. Some stock levels start at once: two full calls,
//! operators' changes, writes whose stock levels were just read, and calls apart after a failure.

use super::run::PushRun;
use super::snapshot::PendingStockLevel;
use crate::exec::quarantine::Quarantine;
use crate::model::{Moment, StockLevel, UPDATE_MAX_ENTRIES};
use crate::reconcile::StockLevelStep;

const UNDELAYED_MIN: usize = 2 * UPDATE_MAX_ENTRIES;

impl PushRun<'_> {
    /// Returns the stock levels of a batch to be processed now. The others wait in `few`. Stock levels in
    /// `begun` never wait here, because they wait only to fill their call.
    pub(super) fn delay_few<'w>(
        &mut self,
        quarantine: &Quarantine<'_>,
        begun: &[StockLevel],
        batch: Vec<&'w PendingStockLevel>,
    ) -> Vec<&'w PendingStockLevel> {
        let begins = |work: &&PendingStockLevel| match work.step() {
            StockLevelStep::ReadFirst | StockLevelStep::Write { .. } => {
                let goes_on = self.pipeline.own_reads.contains_key(&work.stock_level)
                    || begun.contains(&work.stock_level);
                !goes_on && !work.is_separate(quarantine)
            }
            StockLevelStep::Nothing | StockLevelStep::Agreed(_) => false,
        };
        let few = batch.iter().filter(|work| begins(work)).count();
        if few == 0 || few >= UNDELAYED_MIN || batch.iter().any(|work| work.is_urgent) {
            return batch;
        }
        let calls_per_minute = self.context.limiter.quota_usage().limit;
        if self.context.start_budget().try_take(self.context.moment(), calls_per_minute) {
            return batch;
        }
        let (waiting, now): (Vec<&PendingStockLevel>, Vec<&PendingStockLevel>) =
            batch.into_iter().partition(begins);
        self.pipeline.delayed_levels.extend(waiting.into_iter().map(|work| work.stock_level.clone()));
        now
    }

    /// Returns the end of the wait of a few stock levels, if any wait.
    pub(super) fn delay_end(&self) -> Option<Moment> {
        (!self.pipeline.delayed_levels.is_empty()).then(|| self.context.start_budget().next_at())
    }

    /// Puts the waiting stock levels back to the backlog once they may start. They may start at their time,
    /// or once they are [`UNDELAYED_MIN`].
    pub(super) fn release_delayed(&mut self) {
        let is_over = self.delay_end().is_some_and(|end| end <= self.context.moment());
        if is_over || self.pipeline.delayed_levels.len() >= UNDELAYED_MIN {
            let levels = std::mem::take(&mut self.pipeline.delayed_levels);
            self.pipeline.backlog.put_back(levels.into_iter().map(|level| (level, false)));
        }
    }

    /// Returns the end of the drain's next pause. `None` if nothing is in flight and nothing is tried again. A few
    /// waiting stock levels do not keep the drain open, so that the changes behind the quantities are sent.
    pub(super) fn drain_pause_end(&self) -> Option<Moment> {
        let waits = !self.pipeline.is_part_in_flight && !self.pipeline.failed_pages.is_empty();
        let again = self.pipeline.failed_pages.not_before().filter(|_| waits);
        let goes_on = again.is_some() || self.pipeline.is_in_flight();
        again.into_iter().chain(self.delay_end().filter(|_| goes_on)).min()
    }
}
