//! Brakes of a push: the whole backlog is judged before any of it is sent, and the changes of a trip are held.
//! Behind the window of a push the backlog is taken to zero as many stock levels as within.
//!
//! The judgement uses the known facts. A single batch would hide a flood: 200 of 5,000 stock levels seem to
//! be ordinary work each time. The plan of each stock level therefore stays in [`ProjectedBacklog`] until its
//! call completes; from then on the rolling hour counts it. Dropping it when the call starts would leave
//! calls that wait for the limiter uncounted.
//!
//! An update of a product writes quantities too and is judged before its claim.

use super::snapshot::PendingStockLevel;
use crate::exec::{JobContext, JobError};
use crate::model::{ChangeId, Sku, StockLevel, Timestamp, WarehouseId, counted};
use crate::reconcile::StockLevelStep;
use crate::reconcile::brake::{self, BrakeTrip, ProjectedWrite, judge_brakes};
use crate::store::{Durability, StockLevelWrite, Store, StoreError};
use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Window in which zeroings count, together with the projected backlog (docs/rules.md 17).
const ZEROING_WINDOW: Duration = Duration::from_secs(60 * 60);

/// Plans of the stock levels at work.
#[derive(Debug, Default)]
pub(super) struct ProjectedBacklog {
    plans: BTreeMap<StockLevel, PendingStockLevel>,
    /// Stock levels whose plan still counts, but must be made again before anything is done.
    outdated: BTreeSet<StockLevel>,
    /// True if a planned write changed since the last judgement. Without a change the result would be the same. A
    /// judgement reads the whole backlog, so a call must not cause one each time.
    has_changed: bool,
}

impl ProjectedBacklog {
    /// Replaces the plans of `levels` by new ones.
    pub(super) fn replace_plans(&mut self, levels: &[StockLevel], works: Vec<PendingStockLevel>) {
        let mut before: BTreeMap<StockLevel, ProjectedWrite> = BTreeMap::new();
        for level in levels {
            self.outdated.remove(level);
            let write = self.plans.remove(level).as_ref().and_then(projected_entry);
            before.extend(write.map(|write| (level.clone(), write)));
        }
        for work in works {
            let write = projected_entry(&work);
            self.has_changed |= write.is_some() && before.get(&work.stock_level) != write.as_ref();
            self.plans.insert(work.stock_level.clone(), work);
        }
    }

    /// Returns the plan of a stock level, unless it must be made again.
    pub(super) fn plan(&self, level: &StockLevel) -> Option<&PendingStockLevel> {
        self.plans.get(level).filter(|_| !self.outdated.contains(level))
    }

    /// Marks the plans to be made again that `is_old` selects.
    pub(super) fn outdate(&mut self, is_old: impl Fn(&StockLevel) -> bool) {
        self.outdated.extend(self.plans.keys().filter(|level| is_old(level)).cloned());
    }

    pub(super) fn stock_levels(&self) -> Vec<StockLevel> {
        self.plans.keys().cloned().collect()
    }

    fn writes(&self) -> Vec<ProjectedWrite> {
        self.plans.values().filter_map(projected_entry).collect()
    }

    /// Records a judgement. Removes the plans with held changes, because they would trip the brakes again
    /// with the next batch.
    fn record_trips(&mut self, trips: &[BrakeTrip]) {
        let held: BTreeSet<ChangeId> = trips.iter().flat_map(BrakeTrip::changes).copied().collect();
        self.plans.retain(|_, work| !work.plan.completed_changes().any(|id| held.contains(&id)));
        self.has_changed = false;
    }

    /// Removes stock levels whose call is completed or that need no write any more.
    pub(super) fn remove_levels(&mut self, levels: &[StockLevel]) {
        for level in levels {
            self.plans.remove(level);
        }
    }
}

/// Judges the backlog up to the end of the window if an entry changed. Returns the number of held changes. `None`: a
/// change moved during the judgement, so nothing was held and the whole backlog must be loaded again.
pub(super) async fn judge_backlog(
    context: &JobContext,
    projected: &mut ProjectedBacklog,
    window_end: Option<ChangeId>,
) -> Result<Option<u64>, JobError> {
    if !projected.has_changed {
        return Ok(Some(0));
    }
    let (now, settings) = (context.now(), context.settings());
    let writes = projected.writes();
    let judged = (writes.as_slice(), window_end);
    let trips = trips_of(&context.store, settings.quantities.brakes, now, judged).await?;
    let held = hold_trips(context, now, &trips).await?;
    if held.is_some() {
        projected.record_trips(&trips);
    }
    Ok(held)
}

/// Returns the planned write of a stock level, by the known facts.
pub(super) fn projected_entry(work: &PendingStockLevel) -> Option<ProjectedWrite> {
    let StockLevelStep::Write { from: Some(from), to } = work.plan.step else { return None };
    Some(ProjectedWrite {
        stock_level: StockLevel {
            sku: work.projected_sku.clone(),
            warehouse_id: work.stock_level.warehouse_id,
        },
        from,
        to,
        is_counted: work.is_counted,
        is_released: work.is_released,
        changes: work.plan.completed_changes().collect(),
    })
}

/// Returns the trips of these writes together with the writes of the last hour. They are the part of the backlog up to
/// `window_end`.
pub(super) async fn trips_of(
    store: &Store,
    settings: brake::BrakeSettings,
    now: Timestamp,
    (projected, window_end): (&[ProjectedWrite], Option<ChangeId>),
) -> Result<Vec<BrakeTrip>, StoreError> {
    let zeroing = || projected.iter().filter(|entry| entry.to.0 == 0);
    let mut planned_of_all = (1, 1);
    // Only the zeroing brake counts the hour, so that other writes cost no read.
    let hours = if zeroing().any(|entry| entry.from.0 > 0) {
        if let Some(end) = window_end {
            let (within, behind) = store.outbox_pending_around(end).await?;
            planned_of_all = (within, within + behind);
        }
        let levels: Vec<(&str, i64)> = zeroing()
            .map(|entry| (entry.stock_level.sku.as_str(), entry.stock_level.warehouse_id.0))
            .collect();
        store.brake_hour_counts(now.minus(ZEROING_WINDOW), &levels).await?
    } else {
        BTreeMap::new()
    };
    Ok(judge_brakes(projected, planned_of_all, &hours, settings))
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
    let settings = context.settings().quantities.brakes;
    let trips = trips_of(&context.store, settings, now, (&projected, None)).await?;
    // If the change moved in the meantime, its claim fails and nothing is sent.
    Ok(hold_trips(context, now, &trips).await?.unwrap_or(0))
}

/// Holds the changes of these trips. Returns their number. `None` if a change moved in the meantime: nothing
/// is held, because the writes are no longer those that were judged.
async fn hold_trips(
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
        tripped.push(write.brake_trip_hold(&trip.to_string(), trip.changes(), now).await?);
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
            "{what}; {} held: check them, then tallyd outbox release --all, or cancel them",
            counted(changes, "change")
        );
    }
    Ok(Some(held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Quantity;

    #[tokio::test]
    async fn every_backlog_is_judged_also_without_a_zeroing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create_unlocked(&dir.path().join("t.db")).await.unwrap();
        let settings = brake::BrakeSettings { max_zeroing_fraction: 0.2, max_quantity_jump: 5 };
        let write = |id: i64, from, to| ProjectedWrite {
            stock_level: StockLevel {
                sku: Sku::new(format!("S{id}")).unwrap(),
                warehouse_id: WarehouseId(1),
            },
            from: Quantity(from),
            to: Quantity(to),
            is_counted: true,
            is_released: false,
            changes: vec![ChangeId(id)],
        };
        for (from, to, held) in [(1, 9, 10), (1, 0, 10), (1, 3, 0), (0, 0, 0)] {
            let projected: Vec<ProjectedWrite> = (0..10).map(|id| write(id, from, to)).collect();
            let trips = trips_of(&store, settings, Timestamp(0), (&projected, None)).await.unwrap();
            assert_eq!(trips.iter().map(|trip| trip.changes().len()).sum::<usize>(), held, "{from} to {to}");
        }
    }
}
