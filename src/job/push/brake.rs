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
use std::collections::BTreeMap;
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
pub(super) struct Flush(BTreeMap<Cell, Entry>);

impl Flush {
    /// Takes in what a look at some cells found.
    pub(super) fn found(&mut self, cells: &[Cell], works: &[Work]) {
        self.gone(cells);
        self.0.extend(works.iter().filter_map(|work| Some((work.cell.clone(), entry(work)?))));
    }

    /// The calls of these cells are over, or there is nothing to do for them any more.
    pub(super) fn gone(&mut self, cells: &[Cell]) {
        for cell in cells {
            self.0.remove(cell);
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

/// Judges the backlog; how many wishes were held is returned. After a trip its cells are looked at anew.
pub(super) async fn judge_backlog(context: &Context, flush: &Flush) -> Result<u64, JobError> {
    let (now, settings) = (context.now(), context.settings());
    let flush: Vec<Entry> = flush.0.values().cloned().collect();
    let trips = flush_trips(&context.store, settings.quantities.brakes, now, &flush).await?;
    hold(context, now, &trips).await
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
    let mut held = 0;
    for trip in trips {
        let reason = match trip {
            Trip::Zeroing { .. } => Reason::Brake,
            Trip::Jump { .. } => Reason::Jump,
        };
        held += write.brake_trip(reason, &trip.to_string(), trip.wishes(), now).await?;
    }
    write.commit().await?;
    for trip in trips {
        let wishes = trip.wishes().len();
        tracing::error!(
            event = event::BRAKE_TRIPPED,
            wishes,
            "{trip}; {wishes} wish(es) are held: look at them, then tallyd outbox release --all, or cancel them"
        );
    }
    Ok(held)
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
