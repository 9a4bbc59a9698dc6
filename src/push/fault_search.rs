//! Search for the SKU that makes a read fail ([`isolation`](crate::reconcile::isolation)).
//!
//! Parts of the failed page are read one by one until the SKU is isolated. Its changes wait. All other
//! changes are delivered, and new ones are read at the same time.

use crate::exec::{JobError, call};
use crate::model::{Moment, RetryDelays, Sku, StockLevel};
use crate::reconcile::isolation::FailedGroups;
use std::collections::{BTreeMap, BTreeSet};

/// Consecutive failures that need no pause. A single bad SKU causes two or three failures.
const UNPAUSED_FAILURES: usize = 2;
/// Limit of isolated attempts per run at a SKU without proof against it.
const ISOLATED_MAX: u32 = 4;

#[derive(Debug)]
pub(super) struct LevelToRead {
    pub(super) stock_level: StockLevel,
    pub(super) is_urgent: bool,
}

type SkuPart = (Sku, Vec<LevelToRead>);

#[derive(Debug, Default)]
pub(super) struct FaultSearch {
    parts: FailedGroups<SkuPart>,
    pub(super) is_reading: bool,
    /// Consecutive failed reads, of any SKUs.
    failures: usize,
    /// Delays between failed reads, since the last success.
    delays: Option<RetryDelays>,
    not_before: Option<Moment>,
    isolated_failures: BTreeMap<Sku, u32>,
    pub(super) given_up: BTreeSet<Sku>,
}

impl FaultSearch {
    /// Records a successful read, which ends the pause.
    pub(super) fn record_success(&mut self) {
        (self.failures, self.delays, self.not_before) = (0, None, None);
    }

    /// Adds stock levels that are to be read in a call of their own.
    pub(super) fn add_levels(&mut self, levels: Vec<LevelToRead>) {
        self.parts.retry_together(by_sku(levels));
    }

    /// Splits a failed page into halves to be read. Returns the stock levels of a page of one SKU if that SKU
    /// is quarantined or was tried [`ISOLATED_MAX`] times.
    pub(super) fn split_page(&mut self, page: Vec<LevelToRead>, is_set_aside: bool) -> Vec<LevelToRead> {
        let Some((sku, levels)) = self.parts.split_failed(by_sku(page)) else { return Vec::new() };
        let tried = self.isolated_failures.entry(sku.clone()).or_default();
        *tried += 1;
        if is_set_aside {
            return levels;
        }
        if *tried >= ISOLATED_MAX {
            self.given_up.insert(sku);
            return levels;
        }
        self.parts.retry_together(vec![(sku, levels)]);
        Vec::new()
    }

    /// Counts a failed read and sets the pause.
    ///
    /// # Errors
    /// [`JobError::GivenUp`] after [`call::READ_ATTEMPTS`] consecutive failures, because then the platform fails.
    pub(super) fn record_failure(&mut self, why: String, now: Moment) -> Result<(), JobError> {
        self.failures += 1;
        if self.failures >= call::READ_ATTEMPTS {
            return Err(JobError::GivenUp { what: "balances before a push".into(), why });
        }
        if self.failures > UNPAUSED_FAILURES {
            self.not_before =
                self.delays.get_or_insert_with(RetryDelays::page_retry).next().map(|delay| now.plus(delay));
        }
        Ok(())
    }

    /// Returns the next part. `None` while another part is read or the pause lasts.
    pub(super) fn next_part(&mut self, now: Moment) -> Option<Vec<LevelToRead>> {
        if self.is_reading || self.not_before.is_some_and(|at| at > now) {
            return None;
        }
        let part = self.parts.next_part()?;
        self.is_reading = true;
        Some(part.into_iter().flat_map(|(_, levels)| levels).collect())
    }

    /// Returns the end of the pause if a part waits for it.
    pub(super) fn pause_ends(&self) -> Option<Moment> {
        let waits = !self.is_reading && !self.parts.is_empty();
        self.not_before.filter(|_| waits)
    }
}

fn by_sku(levels: Vec<LevelToRead>) -> Vec<SkuPart> {
    let mut parts = BTreeMap::<Sku, Vec<LevelToRead>>::new();
    for asked in levels {
        parts.entry(asked.stock_level.sku.clone()).or_default().push(asked);
    }
    parts.into_iter().collect()
}
