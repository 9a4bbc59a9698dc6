//! Search for the SKU that makes a read fail ([`isolation`](crate::reconcile::isolation)).
//!
//! Parts of the failed page are read one by one until the SKU is isolated. Its changes wait. All other
//! changes are delivered, and new ones are read at the same time.

use super::pipeline::Asked;
use crate::exec::{JobError, call};
use crate::model::{Moment, Sku};
use crate::outbox::Delays;
use crate::reconcile::isolation::Groups;
use std::collections::{BTreeMap, BTreeSet};

/// Consecutive failures that need no pause. A single bad SKU causes two or three failures.
const FAILURES_OF_ONE: usize = 2;
/// Limit of isolated attempts per run at a SKU without proof against it.
const ALONE_MAX: u32 = 4;

/// SKU and the stock levels that it is read for.
type Part = (Sku, Vec<Asked>);

/// SKUs of failed pages that are still to be read.
#[derive(Debug)]
pub(super) struct Search {
    parts: Groups<Part>,
    /// True while a part is being read.
    pub(super) is_reading: bool,
    /// Consecutive failed reads, of any SKUs.
    failures: usize,
    delays: Delays,
    not_before: Option<Moment>,
    /// Number of failures of each isolated SKU.
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
    /// Records a successful read, which ends the pause.
    pub(super) fn succeeded(&mut self) {
        (self.failures, self.delays, self.not_before) = (0, Delays::page_retry(), None);
    }

    /// Adds stock levels that are to be read in a call of their own.
    pub(super) fn add(&mut self, cells: Vec<Asked>) {
        self.parts.again(by_sku(cells));
    }

    /// Splits a failed page into halves to be read. Returns the stock levels of a page of one SKU if that SKU
    /// is quarantined or was tried [`ALONE_MAX`] times.
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

    /// Counts a failed read and sets the pause.
    ///
    /// # Errors
    /// [`JobError::GivenUp`] after [`call::ATTEMPTS`] consecutive failures, because then the platform fails.
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

    /// Returns the next part. `None` while another part is read or the pause lasts.
    pub(super) fn next_part(&mut self, now: Moment) -> Option<Vec<Asked>> {
        if self.is_reading || self.not_before.is_some_and(|at| at > now) {
            return None;
        }
        let part = self.parts.next_part()?;
        self.is_reading = true;
        Some(part.into_iter().flat_map(|(_, cells)| cells).collect())
    }

    /// Returns the end of the pause if a part waits for it.
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
