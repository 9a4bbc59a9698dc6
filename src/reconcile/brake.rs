//! Brakes: a stop before mass damage (docs/rules.md 27–29).
//!
//! A wrong import or an emptied account consists of writes that are ordinary one by one. Only their number
//! shows the fault. Zeroings are counted over a rolling hour plus the projected backlog, so that a slow
//! series trips the brake too. A brake does not prove the quantities wrong; it asks the operator once.

use crate::model::{Cell, Quantity, WarehouseId, WishId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Minimum number of zeroings that trips the brake. Fewer are usual in an hour.
const ZEROED_MIN: u64 = 10;

/// A write of the projected backlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Written stock level.
    pub cell: Cell,
    /// Quantity at the platform.
    pub from: Quantity,
    /// Quantity after the write.
    pub to: Quantity,
    /// False for kits, inactive and missing stock levels, which do not count.
    pub counts: bool,
    /// True if the operator released the entry.
    ///
    /// A released entry neither counts nor trips until it is final (docs/rules.md 28).
    pub released: bool,
    /// Changes that the write completes, and that a trip holds.
    pub wishes: Vec<WishId>,
}

/// Stock levels of one warehouse over the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hour {
    /// Counted stock levels that went from above 0 to 0 within the hour.
    pub zeroed: u64,
    /// Counted stock levels above 0 at the start of the hour.
    pub non_zero: u64,
}

/// Thresholds of the brakes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `hold_zeroing_over`: fraction of the non-zero stock levels, 0 to 1.
    pub hold_zeroing_over: f64,
    /// `hold_jump_over`: largest change of a stock level by one write, in units; 0 disables it.
    pub hold_jump_over: u64,
}

/// The warehouses over which zeroings are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All warehouses together.
    Everywhere,
    /// A single warehouse.
    Warehouse(WarehouseId),
}

/// A tripped brake with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trip {
    /// Too many stock levels would become zero.
    Zeroing {
        /// Counted warehouses.
        scope: Scope,
        /// Stock levels that the backlog would set to zero.
        now: u64,
        /// Zeroings within the hour, and non-zero stock levels at its start.
        hour: Hour,
        /// Held changes, frozen so that a release covers no later change.
        wishes: BTreeSet<WishId>,
    },
    /// Writes that change a stock level by more than the limit.
    Jump {
        /// Largest change, with the quantities before and after.
        widest: (Cell, Quantity, Quantity),
        /// Held changes.
        wishes: BTreeSet<WishId>,
    },
}

/// The decision on a backlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brake {
    /// No brake tripped.
    Clear,
    /// Changes of the trips are held; all other changes are sent.
    Tripped(Vec<Trip>),
}

impl Trip {
    /// Returns the held changes.
    pub fn wishes(&self) -> &BTreeSet<WishId> {
        match self {
            Trip::Zeroing { wishes, .. } | Trip::Jump { wishes, .. } => wishes,
        }
    }
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trip::Zeroing { scope, now, hour, wishes: _ } => {
                let Hour { zeroed, non_zero } = hour;
                write!(f, "{now} cells would become empty and {zeroed} did within the hour, of {non_zero} ")?;
                match scope {
                    Scope::Everywhere => f.write_str("that were not"),
                    Scope::Warehouse(id) => write!(f, "that were not in warehouse {id}"),
                }
            }
            Trip::Jump { widest: (cell, from, to), wishes } => {
                write!(f, "{} wishes change a cell widely, {cell} from {from} to {to}", wishes.len())
            }
        }
    }
}

/// Judges the projected backlog against the last hour, by warehouse.
///
/// Entries that change nothing trip no brake.
pub fn judge(flush: &[Entry], hours: &BTreeMap<WarehouseId, Hour>, settings: Settings) -> Brake {
    let judged: Vec<&Entry> = flush.iter().filter(|entry| !entry.released).collect();
    let zeroing: Vec<&Entry> = judged.iter().copied().filter(|entry| entry.zeroes()).collect();
    let mut trips = floods(&zeroing, hours, settings);
    let counted: Vec<&Entry> = judged.into_iter().filter(|entry| entry.counts).collect();
    trips.extend(jump(&counted, settings.hold_jump_over));
    if trips.is_empty() { Brake::Clear } else { Brake::Tripped(trips) }
}

impl Entry {
    fn zeroes(&self) -> bool {
        self.from.0 > 0 && self.to.0 == 0
    }

    fn width(&self) -> u64 {
        self.to.0.abs_diff(self.from.0)
    }
}

/// Returns the zeroing trips, overall or by warehouse.
///
/// An overall trip holds every zeroing, so no change is in two zeroing trips. Zeroings that do not count are
/// held too, because they come from the same source.
fn floods(zeroing: &[&Entry], hours: &BTreeMap<WarehouseId, Hour>, settings: Settings) -> Vec<Trip> {
    if let Some(trip) = flood(Scope::Everywhere, zeroing, hours, settings) {
        return vec![trip];
    }
    let warehouses: BTreeSet<WarehouseId> = zeroing.iter().map(|entry| entry.cell.warehouse_id).collect();
    let scopes = warehouses.into_iter().map(Scope::Warehouse);
    scopes.filter_map(|scope| flood(scope, zeroing, hours, settings)).collect()
}

fn flood(
    scope: Scope,
    zeroing: &[&Entry],
    hours: &BTreeMap<WarehouseId, Hour>,
    settings: Settings,
) -> Option<Trip> {
    let within = |id: WarehouseId| scope == Scope::Everywhere || scope == Scope::Warehouse(id);
    let hour = hours.iter().filter(|(id, _)| within(**id)).fold(Hour::default(), |sum, (_, hour)| Hour {
        zeroed: sum.zeroed + hour.zeroed,
        non_zero: sum.non_zero + hour.non_zero,
    });
    let here: Vec<&Entry> = zeroing.iter().copied().filter(|entry| within(entry.cell.warehouse_id)).collect();
    let now = here.iter().filter(|entry| entry.counts).count() as u64;
    let zeroed = hour.zeroed + now;
    let too_many = zeroed as f64 > settings.hold_zeroing_over * hour.non_zero as f64;
    (now > 0 && zeroed >= ZEROED_MIN && too_many).then(|| Trip::Zeroing {
        scope,
        now,
        hour,
        wishes: wishes(&here),
    })
}

fn jump(judged: &[&Entry], over: u64) -> Option<Trip> {
    let wide = |entry: &&Entry| over > 0 && entry.width() > over;
    let wide: Vec<&Entry> = judged.iter().copied().filter(wide).collect();
    let widest = wide.iter().max_by_key(|entry| entry.width())?;
    Some(Trip::Jump { widest: (widest.cell.clone(), widest.from, widest.to), wishes: wishes(&wide) })
}

fn wishes(entries: &[&Entry]) -> BTreeSet<WishId> {
    entries.iter().flat_map(|entry| entry.wishes.iter().copied()).collect()
}

/// Returns true if an empty answer, where `known` rows exist, is a failure and no fact.
pub fn looks_emptied(known: u64, returned: u64) -> bool {
    returned == 0 && known > 0
}

/// Returns true if an answer was silently cut: more than a tenth of the requested SKUs is absent.
///
/// The caller halves the request and reads again.
pub fn looks_cut(asked: u64, absent: u64) -> bool {
    absent.saturating_mul(10) > asked
}

#[cfg(test)]
mod tests;
