//! Brakes of a push: the whole backlog is judged before any of it is sent.
//!
//! The judgement uses the known facts. A single batch would hide a flood: 200 of 5,000 stock levels seem to
//! be ordinary work each time. The planned write of each stock level therefore stays in [`ProjectedBacklog`] until its
//! call completes; from then on the rolling hour counts it. Dropping it when the call starts would leave
//! calls that wait for the limiter uncounted.

use super::snapshot::PendingStockLevel;
use super::trips::{hold_trips, trips_of};
use crate::exec::{JobContext, JobError};
use crate::model::{ChangeId, StockLevel, Timestamp};
use crate::reconcile::StockLevelStep;
use crate::reconcile::brake::{self, BrakeTrip, ProjectedWrite};
use crate::store::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};

pub(super) async fn preview_trips(
    store: &Store,
    settings: brake::BrakeSettings,
    now: Timestamp,
    works: &[PendingStockLevel],
) -> Result<Vec<BrakeTrip>, StoreError> {
    let projected: Vec<ProjectedWrite> = works.iter().filter_map(projected_entry).collect();
    trips_of(store, settings, now, &projected).await
}

#[derive(Debug, Default)]
pub(super) struct ProjectedBacklog {
    entries: BTreeMap<StockLevel, ProjectedWrite>,
    /// True if an entry changed since the last judgement. Without a change the result would be the same. A
    /// judgement reads the whole backlog, so a call must not cause one each time.
    has_changed: bool,
}

impl ProjectedBacklog {
    /// Replaces the entries of `stock_levels` by those of a new snapshot.
    pub(super) fn replace_entries(&mut self, levels: &[StockLevel], works: &[PendingStockLevel]) {
        let before: BTreeMap<StockLevel, ProjectedWrite> =
            levels.iter().filter_map(|level| self.entries.remove_entry(level)).collect();
        for (level, entry) in
            works.iter().filter_map(|work| Some((&work.stock_level, projected_entry(work)?)))
        {
            self.has_changed |= before.get(level) != Some(&entry);
            self.entries.insert(level.clone(), entry);
        }
    }

    pub(super) fn stock_levels(&self) -> Vec<StockLevel> {
        self.entries.keys().cloned().collect()
    }

    /// Records a judgement. Removes the entries with held changes, because they would trip the brakes again
    /// with the next batch.
    fn record_trips(&mut self, trips: &[BrakeTrip]) {
        let held: BTreeSet<&ChangeId> = trips.iter().flat_map(BrakeTrip::changes).collect();
        self.entries.retain(|_, entry| !entry.changes.iter().any(|change| held.contains(change)));
        self.has_changed = false;
    }

    /// Removes stock levels whose call is completed or that need no write any more.
    pub(super) fn remove_levels(&mut self, levels: &[StockLevel]) {
        for level in levels {
            self.entries.remove(level);
        }
    }
}

/// Judges the backlog if an entry changed. Returns the number of held changes. `None`: a change moved during
/// the judgement, so nothing was held and the whole backlog must be loaded again.
pub(super) async fn judge_backlog(
    context: &JobContext,
    projected: &mut ProjectedBacklog,
) -> Result<Option<u64>, JobError> {
    if !projected.has_changed {
        return Ok(Some(0));
    }
    let (now, settings) = (context.now(), context.settings());
    let entries: Vec<ProjectedWrite> = projected.entries.values().cloned().collect();
    let trips = trips_of(&context.store, settings.quantities.brakes, now, &entries).await?;
    let held = hold_trips(context, now, &trips).await?;
    if held.is_some() {
        projected.record_trips(&trips);
    }
    Ok(held)
}

/// Returns the planned write of a stock level, by the known facts.
fn projected_entry(work: &PendingStockLevel) -> Option<ProjectedWrite> {
    let StockLevelStep::Write { from: Some(from), to } = work.projected_plan.step else { return None };
    Some(ProjectedWrite {
        stock_level: StockLevel {
            sku: work.projected_sku.clone(),
            warehouse_id: work.stock_level.warehouse_id,
        },
        from,
        to,
        is_counted: work.is_counted,
        is_released: work.is_released,
        changes: work.projected_plan.completed_changes().collect(),
    })
}
