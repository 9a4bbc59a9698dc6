//! Brakes of a push: the whole backlog is judged before any of it is sent.
//!
//! The judgement uses the known facts. A single batch would hide a flood: 200 of 5,000 stock levels seem to
//! be ordinary work each time. The planned write of each stock level therefore stays in [`Flush`] until its
//! call completes; from then on the rolling hour counts it. Dropping it when the call starts would leave
//! calls that wait for the limiter uncounted.

use super::snapshot::Work;
use super::trips::{hold, trips_of};
use crate::exec::{Context, JobError};
use crate::model::{Cell, Timestamp, WishId};
use crate::reconcile::Step;
use crate::reconcile::brake::{self, Entry, Trip};
use crate::store::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the brakes that the backlog trips, by the known facts.
pub(super) async fn trips(
    store: &Store,
    settings: brake::Settings,
    now: Timestamp,
    works: &[Work],
) -> Result<Vec<Trip>, StoreError> {
    let flush: Vec<Entry> = works.iter().filter_map(entry).collect();
    trips_of(store, settings, now, &flush).await
}

/// Projected backlog: the planned write of each stock level.
#[derive(Debug, Default)]
pub(super) struct Flush {
    entries: BTreeMap<Cell, Entry>,
    /// True if an entry changed since the last judgement. Without a change the result would be the same. A
    /// judgement reads the whole backlog, so a call must not cause one each time.
    has_moved: bool,
}

impl Flush {
    /// Replaces the entries of `cells` by those of a new snapshot.
    pub(super) fn found(&mut self, cells: &[Cell], works: &[Work]) {
        let before: BTreeMap<Cell, Entry> =
            cells.iter().filter_map(|cell| self.entries.remove_entry(cell)).collect();
        for (cell, entry) in works.iter().filter_map(|work| Some((&work.cell, entry(work)?))) {
            self.has_moved |= before.get(cell) != Some(&entry);
            self.entries.insert(cell.clone(), entry);
        }
    }

    /// Returns the stock levels with a planned write.
    pub(super) fn cells(&self) -> Vec<Cell> {
        self.entries.keys().cloned().collect()
    }

    /// Records a judgement. Removes the entries with held changes, because they would trip the brakes again
    /// with the next batch.
    fn stopped(&mut self, trips: &[Trip]) {
        let held: BTreeSet<&WishId> = trips.iter().flat_map(Trip::wishes).collect();
        self.entries.retain(|_, entry| !entry.wishes.iter().any(|wish| held.contains(wish)));
        self.has_moved = false;
    }

    /// Removes stock levels whose call is completed or that need no write any more.
    pub(super) fn gone(&mut self, cells: &[Cell]) {
        for cell in cells {
            self.entries.remove(cell);
        }
    }
}

/// Judges the backlog if an entry changed. Returns the number of held changes. `None`: a change moved during
/// the judgement, so nothing was held and the whole backlog must be loaded again.
pub(super) async fn judge_backlog(context: &Context, flush: &mut Flush) -> Result<Option<u64>, JobError> {
    if !flush.has_moved {
        return Ok(Some(0));
    }
    let (now, settings) = (context.now(), context.settings());
    let entries: Vec<Entry> = flush.entries.values().cloned().collect();
    let trips = trips_of(&context.store, settings.quantities.brakes, now, &entries).await?;
    let held = hold(context, now, &trips).await?;
    if held.is_some() {
        flush.stopped(&trips);
    }
    Ok(held)
}

/// Returns the planned write of a stock level, by the known facts.
fn entry(work: &Work) -> Option<Entry> {
    let Step::Write { from: Some(from), to } = work.foreseen.step else { return None };
    Some(Entry {
        cell: Cell { sku: work.foreseen_sku.clone(), warehouse_id: work.cell.warehouse_id },
        from,
        to,
        counts: work.counts,
        released: work.released,
        wishes: work.foreseen.settles().collect(),
    })
}
