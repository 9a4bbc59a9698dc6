//! Brakes of writes: planned writes are judged, and the changes of a trip are held.
//!
//! A push judges its whole backlog (`push/brake.rs`). An update of a product writes quantities too and is
//! judged before its claim.

use crate::exec::{JobContext, JobError};
use crate::model::{ChangeId, Sku, StockLevel, Timestamp, WarehouseId};
use crate::outbox::Reason;
use crate::reconcile::brake::{self, BrakeDecision, BrakeTrip, ProjectedWrite, judge_brakes};
use crate::store::{Durability, StockLevelWrite, Store, StoreError};
use crate::telemetry::event;
use std::collections::BTreeSet;
use std::time::Duration;

/// Window in which zeroings count, together with the projected backlog (docs/rules.md 27).
const ZEROING_WINDOW: Duration = Duration::from_secs(60 * 60);

/// Returns the trips of these writes together with the writes of the last hour.
pub(super) async fn trips_of(
    store: &Store,
    settings: brake::BrakeSettings,
    now: Timestamp,
    projected: &[ProjectedWrite],
) -> Result<Vec<BrakeTrip>, StoreError> {
    let is_suspect =
        |entry: &ProjectedWrite| (entry.from.0 > 0 && entry.to.0 == 0) || settings.max_quantity_jump > 0;
    if !projected.iter().any(is_suspect) {
        return Ok(Vec::new());
    }
    let zeroing = projected.iter().filter(|entry| entry.to.0 == 0);
    let levels: Vec<(&str, i64)> =
        zeroing.map(|entry| (entry.stock_level.sku.as_str(), entry.stock_level.warehouse_id.0)).collect();
    let hours = store.brake_hour_counts(now.minus(ZEROING_WINDOW), &levels).await?;
    match judge_brakes(projected, &hours, settings) {
        BrakeDecision::Tripped(trips) => Ok(trips),
        BrakeDecision::Clear => Ok(Vec::new()),
    }
}

/// Judges the writes of a product's update. Returns the number of held changes.
pub(super) async fn judge_update(
    context: &JobContext,
    change: ChangeId,
    released: bool,
    sku: &Sku,
    writes: &[StockLevelWrite],
) -> Result<u64, JobError> {
    let entry = |write: &StockLevelWrite| {
        let level = StockLevel { sku: sku.clone(), warehouse_id: WarehouseId(write.warehouse_id) };
        let (from, to) = (write.before?, write.written);
        Some(ProjectedWrite {
            stock_level: level,
            from,
            to,
            is_counted: true,
            is_released: released,
            changes: vec![change],
        })
    };
    let projected: Vec<ProjectedWrite> = writes.iter().filter_map(entry).collect();
    let now = context.now();
    let trips = trips_of(&context.store, context.settings().quantities.brakes, now, &projected).await?;
    // If the change moved in the meantime, its claim fails and nothing is sent.
    Ok(hold_trips(context, now, &trips).await?.unwrap_or(0))
}

/// Holds the changes of these trips. Returns their number. `None` if a change moved in the meantime: nothing
/// is held, because the writes are no longer those that were judged.
pub(super) async fn hold_trips(
    context: &JobContext,
    now: Timestamp,
    trips: &[BrakeTrip],
) -> Result<Option<u64>, JobError> {
    if trips.is_empty() {
        return Ok(Some(0));
    }
    let mut write = context.store.begin_write(Durability::Full).await?;
    let mut tripped = Vec::new();
    for trip in trips {
        let reason = match trip {
            BrakeTrip::Zeroing { .. } => Reason::Brake,
            BrakeTrip::Jump { .. } => Reason::Jump,
        };
        tripped.push(write.brake_trip_hold(reason, &trip.to_string(), trip.changes(), now).await?);
    }
    let named: BTreeSet<&ChangeId> = trips.iter().flat_map(BrakeTrip::changes).collect();
    let held: u64 = tripped.iter().map(|(_, changes)| changes).sum();
    if held != named.len() as u64 {
        return Ok(None);
    }
    write.commit().await?;
    for (what, (trip, changes)) in trips.iter().zip(&tripped) {
        tracing::error!(
            event = event::BRAKE_TRIPPED,
            trip,
            changes,
            "{what}; {changes} change(s) are held: look at them, then tallyd outbox release --all, or cancel them"
        );
    }
    Ok(Some(held))
}
