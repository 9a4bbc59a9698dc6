//! Brakes: a stop before mass damage (rules.md 27–29).
//!
//! A wrong import or an emptied account looks, cell by cell, like ordinary work; only the numbers tell. A dribble
//! tells no less than a flood, so zeroings are counted over a rolling hour plus this flush. What is no brake: a
//! proof that the numbers are right. It only makes a person look, once.

use crate::model::{Cell, Quantity, WarehouseId, WishId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Fewer zeroings than this are a day's work in any shop.
const ZEROED_MIN: u64 = 10;

/// One write of the flush that is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is written.
    pub cell: Cell,
    /// What the service holds.
    pub from: Quantity,
    /// What it is to hold.
    pub to: Quantity,
    /// False for kits, inactive and missing cells, which do not count.
    pub counts: bool,
    /// Whether a person released it: then it neither counts nor trips, until it is settled (rules.md 28).
    pub released: bool,
    /// The wishes it settles: what a trip holds.
    pub wishes: Vec<WishId>,
}

/// Cells of one warehouse: those zeroed within the last hour, and those above zero at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hour {
    /// Counted cells that went from above 0 to 0 within the hour.
    pub zeroed: u64,
    /// Counted cells that were above 0 when it began.
    pub non_zero: u64,
}

/// When a brake trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `hold_zeroing_over`: the part of the non-zero cells, 0 to 1.
    pub hold_zeroing_over: f64,
    /// `hold_jump_over`: units by which one write may change a cell; 0 is off.
    pub hold_jump_over: u64,
}

/// Where zeroings are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In all warehouses together.
    Everywhere,
    /// In one.
    Warehouse(WarehouseId),
}

/// Why a brake tripped, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trip {
    /// Too many cells would be empty.
    Zeroing {
        /// Where.
        scope: Scope,
        /// How many this flush would zero.
        now: u64,
        /// How many were zeroed within the hour, and how many were above zero at its start.
        hour: Hour,
        /// Whom it holds: frozen, so that what comes later is not released with it.
        wishes: BTreeSet<WishId>,
    },
    /// Writes that change a cell by more than is plausible.
    Jump {
        /// The widest of them, and from and to.
        widest: (Cell, Quantity, Quantity),
        /// Whom it holds.
        wishes: BTreeSet<WishId>,
    },
}

/// The judgement on a flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brake {
    /// It may go.
    Clear,
    /// What the trips name is held; the rest may go.
    Tripped(Vec<Trip>),
}

impl Trip {
    /// The wishes it holds.
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

/// Judges a flush against the last hour, by warehouse. Entries that change nothing never trip a brake.
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

/// A trip everywhere holds every zeroing already; so a wish is never in two trips for the same cause. What does not
/// count is held with the rest: it comes from the same feed.
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

/// True if an answer that returned so few, where so much was known, is a failure and no fact: in a shop of any size.
pub fn looks_emptied(known: u64, returned: u64) -> bool {
    returned == 0 && known > 0
}

/// True if an answer was silently cut: more than a tenth of the SKUs asked for is absent. It is halved and read
/// again.
pub fn looks_cut(asked: u64, absent: u64) -> bool {
    absent.saturating_mul(10) > asked
}

#[cfg(test)]
mod tests;
