//! Brakes of writes: planned writes are judged, and the changes of a trip are held.
//!
//! A push judges its whole backlog (`push/brake.rs`). An update of a product writes quantities too and is
//! judged before its claim.

use crate::exec::{Context, JobError};
use crate::model::{Cell, Sku, Timestamp, WarehouseId, WishId};
use crate::outbox::Reason;
use crate::reconcile::brake::{self, Brake, Entry, Trip, judge};
use crate::store::{CellWrite, Durability, Store, StoreError};
use crate::telemetry::event;
use std::collections::BTreeSet;
use std::time::Duration;

/// Window in which zeroings count, together with the projected backlog (docs/rules.md 27).
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Returns the trips of these writes together with the writes of the last hour.
pub(super) async fn trips_of(
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

/// Judges the writes of a product's update. Returns the number of held changes.
pub(super) async fn judge_update(
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
    let trips = trips_of(&context.store, context.settings().quantities.brakes, now, &flush).await?;
    // If the change moved in the meantime, its claim fails and nothing is sent.
    Ok(hold(context, now, &trips).await?.unwrap_or(0))
}

/// Holds the changes of these trips. Returns their number. `None` if a change moved in the meantime: nothing
/// is held, because the writes are no longer those that were judged.
pub(super) async fn hold(context: &Context, now: Timestamp, trips: &[Trip]) -> Result<Option<u64>, JobError> {
    if trips.is_empty() {
        return Ok(Some(0));
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
    let named: BTreeSet<&WishId> = trips.iter().flat_map(Trip::wishes).collect();
    let held: u64 = tripped.iter().map(|(_, wishes)| wishes).sum();
    if held != named.len() as u64 {
        return Ok(None);
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
    Ok(Some(held))
}
