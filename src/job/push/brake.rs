//! The brakes of a push: the whole backlog is judged before any of it is sent, from the facts at hand.
//!
//! A batch alone would not show a flood: two hundred of five thousand cells look like ordinary work each time. So what
//! each cell is heading for is remembered until its call is over ([`Flush`]); from then on the hour counts it. *Remembered
//! only until the call begins, what waits for its place would be counted by nobody.* A product's update carries quantities too and is judged alone, by what it would claim.

use super::work::Work;
use crate::job::{Context, JobError};
use crate::model::{Cell, Sku, Timestamp, WarehouseId, WishId};
use crate::outbox::Reason;
use crate::reconcile::Step;
use crate::reconcile::brake::{self, Brake, Entry, Trip, judge};
use crate::store::{CellWrite, Durability, Store, StoreError};
use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Zeroings are counted over a rolling hour plus the flush (rules.md 27).
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The brakes that the backlog trips, by the facts at hand.
pub(super) async fn trips(
    store: &Store,
    settings: brake::Settings,
    now: Timestamp,
    works: &[Work],
) -> Result<Vec<Trip>, StoreError> {
    let flush: Vec<Entry> = works.iter().filter_map(entry).collect();
    flush_trips(store, settings, now, &flush).await
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

async fn flush_trips(
    store: &Store,
    settings: brake::Settings,
    now: Timestamp,
    flush: &[Entry],
) -> Result<Vec<Trip>, StoreError> {
    let is_suspect = |entry: &Entry| (entry.from.0 > 0 && entry.to.0 == 0) || settings.hold_jump_over > 0;
    if !flush.iter().any(is_suspect) {
        return Ok(Vec::new());
    }
    let zeroing = flush.iter().filter(|entry| entry.to.0 == 0);
    let cells: Vec<(&str, i64)> =
        zeroing.map(|entry| (entry.cell.sku.as_str(), entry.cell.warehouse_id.0)).collect();
    let hours = store.brake_hours(now.minus(HOUR), &cells).await?;
    match judge(flush, &hours, settings) {
        Brake::Tripped(trips) => Ok(trips),
        Brake::Clear => Ok(Vec::new()),
    }
}

/// Judges the backlog, if anything in it moved; how many wishes were held is returned. After a trip its cells are looked
/// at anew.
pub(super) async fn judge_backlog(context: &Context, flush: &mut Flush) -> Result<u64, JobError> {
    if !flush.has_moved {
        return Ok(0);
    }
    let (now, settings) = (context.now(), context.settings());
    let entries: Vec<Entry> = flush.entries.values().cloned().collect();
    let trips = flush_trips(&context.store, settings.quantities.brakes, now, &entries).await?;
    let held = hold(context, now, &trips).await?;
    flush.stopped(&trips);
    Ok(held)
}

/// Judges what a product's update would write; how many wishes were held is returned.
pub(in crate::job) async fn judge_update(
    context: &Context,
    wish: WishId,
    released: bool,
    sku: &Sku,
    writes: &[CellWrite],
) -> Result<u64, JobError> {
    let entry = |write: &CellWrite| {
        let cell = Cell { sku: sku.clone(), warehouse_id: WarehouseId(write.warehouse_id) };
        let (from, to) = (write.before?, write.written);
        Some(Entry { cell, from, to, counts: true, released, wishes: vec![wish] })
    };
    let flush: Vec<Entry> = writes.iter().filter_map(entry).collect();
    let now = context.now();
    let trips = flush_trips(&context.store, context.settings().quantities.brakes, now, &flush).await?;
    hold(context, now, &trips).await
}

/// Holds what the trips name; how many wishes that are is returned.
async fn hold(context: &Context, now: Timestamp, trips: &[Trip]) -> Result<u64, JobError> {
    if trips.is_empty() {
        return Ok(0);
    }
    let mut write = context.store.begin(Durability::Full).await?;
    let mut tripped = Vec::new();
    for trip in trips {
        let reason = match trip {
            Trip::Zeroing { .. } => Reason::Brake,
            Trip::Jump { .. } => Reason::Jump,
        };
        tripped.push(write.brake_trip(reason, &trip.to_string(), trip.wishes(), now).await?);
    }
    write.commit().await?;
    for (what, (trip, wishes)) in trips.iter().zip(&tripped) {
        tracing::error!(
            event = event::BRAKE_TRIPPED,
            trip,
            wishes,
            "{what}; {wishes} wish(es) are held: look at them, then tallyd outbox release --all, or cancel them"
        );
    }
    Ok(tripped.iter().map(|(_, wishes)| wishes).sum())
}

/// The write a cell is heading for, as far as the facts at hand tell.
fn entry(work: &Work) -> Option<Entry> {
    let Step::Write { from: Some(from), to } = work.foreseen.step else { return None };
    Some(Entry {
        cell: Cell { sku: work.sku.clone(), warehouse_id: work.cell.warehouse_id },
        from,
        to,
        counts: work.counts,
        released: work.released,
        wishes: work.foreseen.settles().collect(),
    })
}
