//! Search for the SKU that makes a read fail ([`isolation`](crate::reconcile::isolation)).
//!
//! Parts of the failed page are read one by one until the SKU is isolated. Its changes wait. All other
//! changes are delivered, and new ones are read at the same time.

use crate::model::{Moment, Sku, StockLevel};
use crate::reconcile::isolation::SuspectQueue;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct LevelToRead {
    pub(super) stock_level: StockLevel,
    pub(super) is_urgent: bool,
}

#[derive(Debug, Default)]
pub(super) struct FaultSearch {
    pub(super) suspects: SuspectQueue<(Sku, Vec<LevelToRead>)>,
    pub(super) is_reading: bool,
    /// SKUs that are not tried again in this run.
    pub(super) given_up: BTreeSet<Sku>,
}

impl FaultSearch {
    /// Adds stock levels that are to be read in a call of their own.
    pub(super) fn add_levels(&mut self, levels: Vec<LevelToRead>) {
        self.suspects.add(by_sku(levels));
    }

    /// Splits a failed page into halves to be read. Returns the stock levels of a page of one SKU if that SKU
    /// is quarantined.
    pub(super) fn split_page(
        &mut self,
        page: Vec<LevelToRead>,
        is_quarantined: bool,
        now: Moment,
    ) -> Vec<LevelToRead> {
        let Some((sku, levels)) = self.suspects.failed(by_sku(page), now) else { return Vec::new() };
        if is_quarantined {
            return levels;
        }
        // The success of others is the missing proof. Without any, the search is exhausted.
        self.suspects.add(vec![(sku, levels)]);
        Vec::new()
    }

    /// Returns the next part. `None` while another part is read or the pause lasts.
    pub(super) fn next_part(&mut self, now: Moment) -> Option<Vec<LevelToRead>> {
        if self.is_reading || self.suspects.not_before().is_some_and(|at| at > now) {
            return None;
        }
        let part = self.suspects.take()?;
        self.is_reading = true;
        Some(part.into_iter().flat_map(|(_, levels)| levels).collect())
    }

    /// Returns the end of the pause if a part waits for it.
    pub(super) fn pause_ends(&self) -> Option<Moment> {
        let waits = !self.is_reading && !self.suspects.is_empty();
        self.suspects.not_before().filter(|_| waits)
    }
}

fn by_sku(levels: Vec<LevelToRead>) -> Vec<(Sku, Vec<LevelToRead>)> {
    let mut parts = BTreeMap::<Sku, Vec<LevelToRead>>::new();
    for asked in levels {
        parts.entry(asked.stock_level.sku.clone()).or_default().push(asked);
    }
    parts.into_iter().collect()
}
