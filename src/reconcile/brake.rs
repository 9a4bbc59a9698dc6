//! Brakes: a stop before mass damage (docs/rules.md 17).
//!
//! A wrong import or an emptied account consists of writes that are ordinary one by one. Only their number
//! shows the fault. Zeroings are counted over a rolling hour plus the projected backlog, so that a slow
//! series trips the brake too. A brake does not prove the quantities wrong; it asks the operator once.

use crate::model::{ChangeId, Quantity, StockLevel, WarehouseId, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Minimum number of zeroings that are no sales. Fewer are usual in an hour.
pub(crate) const ZEROED_MIN: u64 = 10;

/// A write of the projected backlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectedWrite {
    pub stock_level: StockLevel,
    pub from: Quantity,
    pub to: Quantity,
    /// False for kits, inactive and missing stock levels, which do not count.
    pub is_counted: bool,
    /// True if the operator released the entry.
    ///
    /// A released entry neither counts nor trips until it is final (docs/rules.md 17).
    pub is_released: bool,
    /// Changes that the write completes, and that a trip holds.
    pub changes: Vec<ChangeId>,
}

/// Stock levels of one warehouse over the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HourCounts {
    /// Counted stock levels that went from above 0 to 0 within the hour.
    pub zeroed: u64,
    /// Counted stock levels above 0 at the start of the hour.
    pub non_zero: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BrakeSettings {
    /// `max_zeroing_fraction`: fraction of the non-zero stock levels, 0 to 1.
    pub max_zeroing_fraction: f64,
    /// `max_quantity_jump`: largest change of a stock level by one write, in units; 0 disables it.
    pub max_quantity_jump: u64,
}

/// The warehouses over which zeroings are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BrakeScope {
    Everywhere,
    Warehouse(WarehouseId),
}

/// A tripped brake with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrakeTrip {
    /// Too many stock levels would become zero.
    Zeroing {
        scope: BrakeScope,
        /// Stock levels that the backlog would set to zero. Estimated if more than the changes.
        zeroed_by_backlog: u64,
        /// Zeroings within the hour, and non-zero stock levels at its start.
        hour: HourCounts,
        /// Held changes, frozen so that a release covers no later change.
        changes: BTreeSet<ChangeId>,
    },
    /// Writes that change a stock level by more than the limit.
    Jump {
        /// Largest change, with the quantities before and after.
        largest: (StockLevel, Quantity, Quantity),
        changes: BTreeSet<ChangeId>,
    },
}

impl BrakeTrip {
    pub(crate) fn changes(&self) -> &BTreeSet<ChangeId> {
        match self {
            BrakeTrip::Zeroing { changes, .. } | BrakeTrip::Jump { changes, .. } => changes,
        }
    }
}

impl fmt::Display for BrakeTrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrakeTrip::Zeroing { scope, zeroed_by_backlog: now, hour, changes } => {
                let about = if *now > changes.len() as u64 { "about " } else { "" };
                let HourCounts { zeroed, non_zero } = hour;
                let place = match scope {
                    BrakeScope::Everywhere => String::new(),
                    BrakeScope::Warehouse(id) => format!(" in warehouse {id}"),
                };
                let [now, of] = [*now, *non_zero].map(|levels| counted(levels, "stock level"));
                write!(
                    f,
                    "{about}{now} would become 0, after {zeroed} within the last hour, of {of} above 0{place}"
                )?;
                f.write_str("; so many at once may be a mistake")
            }
            BrakeTrip::Jump { largest: (level, from, to), changes } => {
                let count = counted(changes.len(), "change");
                write!(f, "{count} beyond the largest allowed jump, most of all {level} from {from} to {to}")
            }
        }
    }
}

/// Judges the projected backlog against the last hour, by warehouse. `planned_of_all`: the number of pending
/// changes that are projected, and of all. Entries that change nothing trip no brake. The changes of the returned
/// trips are held; all other changes are sent.
pub(crate) fn judge_brakes(
    projected: &[ProjectedWrite],
    planned_of_all: (u64, u64),
    hours: &BTreeMap<WarehouseId, HourCounts>,
    settings: BrakeSettings,
) -> Vec<BrakeTrip> {
    let judged: Vec<&ProjectedWrite> = projected.iter().filter(|entry| !entry.is_released).collect();
    let zeroing: Vec<&ProjectedWrite> = judged.iter().copied().filter(|entry| entry.is_zeroing()).collect();
    let mut trips = zeroing_trips(&zeroing, planned_of_all, hours, settings);
    let counted: Vec<&ProjectedWrite> = judged.into_iter().filter(|entry| entry.is_counted).collect();
    trips.extend(jump_trip(&counted, settings.max_quantity_jump));
    trips
}

impl ProjectedWrite {
    fn is_zeroing(&self) -> bool {
        self.from.0 > 0 && self.to.0 == 0
    }

    fn jump_size(&self) -> u64 {
        self.to.0.abs_diff(self.from.0)
    }
}

/// Returns the zeroing trips, overall or by warehouse.
///
/// An overall trip holds every zeroing, so no change is in two zeroing trips. Zeroings that do not count are
/// held too, because they come from the same source.
fn zeroing_trips(
    zeroing: &[&ProjectedWrite],
    planned_of_all: (u64, u64),
    hours: &BTreeMap<WarehouseId, HourCounts>,
    settings: BrakeSettings,
) -> Vec<BrakeTrip> {
    let trip_in = |scope| zeroing_trip(scope, zeroing, planned_of_all, hours, settings);
    if let Some(trip) = trip_in(BrakeScope::Everywhere) {
        return vec![trip];
    }
    let warehouses: BTreeSet<WarehouseId> =
        zeroing.iter().map(|entry| entry.stock_level.warehouse_id).collect();
    warehouses.into_iter().map(BrakeScope::Warehouse).filter_map(trip_in).collect()
}

fn zeroing_trip(
    scope: BrakeScope,
    zeroing: &[&ProjectedWrite],
    planned_of_all: (u64, u64),
    hours: &BTreeMap<WarehouseId, HourCounts>,
    settings: BrakeSettings,
) -> Option<BrakeTrip> {
    let within = |id: WarehouseId| scope == BrakeScope::Everywhere || scope == BrakeScope::Warehouse(id);
    let hour = hours.iter().filter(|(id, _)| within(**id)).fold(HourCounts::default(), |sum, (_, hour)| {
        HourCounts { zeroed: sum.zeroed + hour.zeroed, non_zero: sum.non_zero + hour.non_zero }
    });
    let here: Vec<&ProjectedWrite> =
        zeroing.iter().copied().filter(|entry| within(entry.stock_level.warehouse_id)).collect();
    let (planned, all) = planned_of_all;
    let zeroed_by_backlog =
        here.iter().filter(|entry| entry.is_counted).count() as u64 * all / planned.max(1);
    let zeroed = hour.zeroed + zeroed_by_backlog;
    let too_many = zeroed as f64 > settings.max_zeroing_fraction * hour.non_zero as f64;
    let is_tripped = zeroed_by_backlog > 0 && zeroed >= ZEROED_MIN && too_many;
    is_tripped.then(|| BrakeTrip::Zeroing { scope, zeroed_by_backlog, hour, changes: held_changes(&here) })
}

fn jump_trip(judged: &[&ProjectedWrite], over: u64) -> Option<BrakeTrip> {
    let wide = |entry: &&ProjectedWrite| over > 0 && entry.jump_size() > over;
    let wide: Vec<&ProjectedWrite> = judged.iter().copied().filter(wide).collect();
    let widest = wide.iter().max_by_key(|entry| entry.jump_size())?;
    let largest = (widest.stock_level.clone(), widest.from, widest.to);
    Some(BrakeTrip::Jump { largest, changes: held_changes(&wide) })
}

fn held_changes(entries: &[&ProjectedWrite]) -> BTreeSet<ChangeId> {
    entries.iter().flat_map(|entry| entry.changes.iter().copied()).collect()
}

/// Returns true if an empty answer, where `known` rows exist, is a failure and no fact.
pub(crate) fn is_emptied_answer(known: u64, returned: u64) -> bool {
    returned == 0 && known > 0
}

/// Returns true if an answer was silently cut: more than a tenth of the requested SKUs is absent.
///
/// The caller halves the request and reads again.
pub(crate) fn is_cut_answer(asked: u64, absent: u64) -> bool {
    absent.saturating_mul(10) > asked
}

#[cfg(test)]
mod tests;
