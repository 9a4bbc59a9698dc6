//! The reads of a push that failed, in parts that are read one by one until the SKU that makes them fail is alone
//! ([`isolation`](crate::reconcile::isolation)). Its wishes wait; all others go on, and new ones are read meanwhile.

use super::pipeline::Asked;
use crate::job::{JobError, call};
use crate::model::{Moment, Sku};
use crate::outbox::Delays;
use crate::reconcile::isolation::Groups;
use std::collections::{BTreeMap, BTreeSet};

/// Failures in a row that need no pause: one SKU that always fails brings two or three, and only more than that is
/// worth one.
const FAILURES_OF_ONE: usize = 2;
/// Attempts in a run at a SKU that fails alone and is not proved guilty.
const ALONE_MAX: u32 = 4;

/// A SKU and the cells it is read for.
type Part = (Sku, Vec<Asked>);

/// SKUs left to be read of pages that failed.
#[derive(Debug)]
pub(super) struct Search {
    parts: Groups<Part>,
    /// A part is being read.
    pub(super) is_reading: bool,
    /// Reads that failed in a row, of whatever SKUs.
    failures: usize,
    delays: Delays,
    not_before: Option<Moment>,
    /// Number of failures of each SKU alone.
    tried: BTreeMap<Sku, u32>,
    /// SKUs that are not tried again in this run.
    pub(super) left: BTreeSet<Sku>,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            parts: Groups::default(),
            is_reading: false,
            failures: 0,
            delays: Delays::page_retry(),
            not_before: None,
            tried: BTreeMap::new(),
            left: BTreeSet::new(),
        }
    }
}

impl Search {
    /// A read succeeded, so the platform is well.
    pub(super) fn succeeded(&mut self) {
        (self.failures, self.delays, self.not_before) = (0, Delays::page_retry(), None);
    }

    /// Cells that are to be read in a call of their own.
    pub(super) fn add(&mut self, cells: Vec<Asked>) {
        self.parts.again(by_sku(cells));
    }

    /// A page failed, and its halves are to be read. The cells of a SKU that was alone are given back, if it is set aside
    /// or tried often enough.
    pub(super) fn split(&mut self, page: Vec<Asked>, is_set_aside: bool) -> Vec<Asked> {
        let Some((sku, cells)) = self.parts.split(by_sku(page)) else { return Vec::new() };
        let tried = self.tried.entry(sku.clone()).or_default();
        *tried += 1;
        if is_set_aside {
            return cells;
        }
        if *tried >= ALONE_MAX {
            self.left.insert(sku);
            return cells;
        }
        self.parts.again(vec![(sku, cells)]);
        Vec::new()
    }

    /// Counts a read that failed. An error after too many in a row: then it is the platform, and the run ends.
    pub(super) fn failed(&mut self, why: String, now: Moment) -> Result<(), JobError> {
        self.failures += 1;
        if self.failures >= call::ATTEMPTS {
            return Err(JobError::GivenUp { what: "balances before a push".into(), why });
        }
        if self.failures > FAILURES_OF_ONE {
            self.not_before = self.delays.next().map(|delay| now.plus(delay));
        }
        Ok(())
    }

    /// The next part, unless one is being read or a pause goes on.
    pub(super) fn next_part(&mut self, now: Moment) -> Option<Vec<Asked>> {
        if self.is_reading || self.not_before.is_some_and(|at| at > now) {
            return None;
        }
        let part = self.parts.next_part()?;
        self.is_reading = true;
        Some(part.into_iter().flat_map(|(_, cells)| cells).collect())
    }

    /// The end of the pause, if a part waits for it.
    pub(super) fn pause_ends(&self) -> Option<Moment> {
        let waits = !self.is_reading && !self.parts.is_empty();
        self.not_before.filter(|_| waits)
    }
}

fn by_sku(cells: Vec<Asked>) -> Vec<Part> {
    let mut parts = BTreeMap::<Sku, Vec<Asked>>::new();
    for asked in cells {
        parts.entry(asked.cell.sku.clone()).or_default().push(asked);
    }
    parts.into_iter().collect()
}
