//! The brakes of a push: the whole backlog is judged before any of it is sent, from the facts at hand.
//!
//! A batch alone would not show a flood: two hundred of five thousand cells look like ordinary work each time. So what
//! each cell is heading for is remembered until its call is over ([`Flush`]); from then on the hour counts it. *Remembered
//! only until the call begins, what waits for its place would be counted by nobody.*

use super::work::Work;
use crate::job::brake::{hold, trips_of};
use crate::job::{Context, JobError};
use crate::model::{Cell, Timestamp, WishId};
use crate::reconcile::Step;
use crate::reconcile::brake::{self, Entry, Trip};
use crate::store::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// The brakes that the backlog trips, by the facts at hand.
pub(super) async fn trips(
    store: &Store,
    settings: brake::Settings,
    now: Timestamp,
    works: &[Work],
) -> Result<Vec<Trip>, StoreError> {
    let flush: Vec<Entry> = works.iter().filter_map(entry).collect();
    trips_of(store, settings, now, &flush).await
}

/// Where the cells of the backlog are heading for.
#[derive(Debug, Default)]
pub(super) struct Flush {
    entries: BTreeMap<Cell, Entry>,
    /// A cell heads elsewhere than when the brakes were last asked. Without it they would say what they said: asking
    /// them looks through the whole backlog, and a call must not cost more for what waits behind it.
    has_moved: bool,
}

impl Flush {
    /// Takes in what a look at some cells found.
    pub(super) fn found(&mut self, cells: &[Cell], works: &[Work]) {
        let before: BTreeMap<Cell, Entry> =
            cells.iter().filter_map(|cell| self.entries.remove_entry(cell)).collect();
        for (cell, entry) in works.iter().filter_map(|work| Some((&work.cell, entry(work)?))) {
            self.has_moved |= before.get(cell) != Some(&entry);
            self.entries.insert(cell.clone(), entry);
        }
    }

    /// The cells that head for something.
    pub(super) fn cells(&self) -> Vec<Cell> {
        self.entries.keys().cloned().collect()
    }

    /// The brakes were asked. What they hold goes nowhere: left in, it would trip them again with the next batch.
    fn stopped(&mut self, trips: &[Trip]) {
        let held: BTreeSet<&WishId> = trips.iter().flat_map(Trip::wishes).collect();
        self.entries.retain(|_, entry| !entry.wishes.iter().any(|wish| held.contains(wish)));
        self.has_moved = false;
    }

    /// The calls of these cells are over, or there is nothing to do for them any more.
    pub(super) fn gone(&mut self, cells: &[Cell]) {
        for cell in cells {
            self.entries.remove(cell);
        }
    }
}

/// Judges the backlog, if anything in it moved; how many wishes were held is returned. After a trip its cells are looked
/// at anew. None where a wish was moved while it was judged: then the whole backlog is to be looked at again.
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

/// The write a cell is heading for, as far as the facts at hand tell.
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
