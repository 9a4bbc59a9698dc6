//! Ground truth of the goods: plain maps, kept from the events and from the writes that arrived at the
//! platform.
//!
//! No code, table or answer of the daemon enters here. All contestants are measured against the same ground
//! truth.

use std::collections::BTreeMap;

/// A SKU in a warehouse.
pub type Level = (String, i64);

/// The true state of a stock level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Real {
    pub shelf: i64,
    /// Units sold and not yet picked.
    pub promised: i64,
    /// Quantity that the platform shows and sells from.
    pub listed: i64,
    /// Units above the sellable ones that the last write left; they are counted in `undone` already.
    counted: i64,
}

impl Real {
    /// Returns the units that can truly be sold: the shelf less what is sold and not yet picked.
    pub fn sellable(&self) -> i64 {
        self.shelf - self.promised
    }
}

/// All stock levels, and the units oversold.
#[derive(Clone, Debug, Default)]
pub struct Books {
    pub levels: BTreeMap<Level, Real>,
    /// Units sold at the platform.
    pub sold: i64,
    /// **Units oversold because of writes.**
    ///
    /// At the arrival of each write, these are the units by which the written quantity exceeds the sellable
    /// units. An excess that an earlier write left in the stock level is not counted again.
    pub undone: i64,
    /// Units sold beyond the shelf, for any reason.
    pub sold_beyond: i64,
    pub writes: u64,
}

impl Books {
    /// Creates a ground truth that agrees with the platform.
    pub fn new(stock: impl IntoIterator<Item = (Level, i64)>) -> Self {
        let real = |units| Real { shelf: units, listed: units, ..Real::default() };
        Self {
            levels: stock.into_iter().map(|(level, units)| (level, real(units))).collect(),
            ..Self::default()
        }
    }

    pub fn level(&self, level: &Level) -> &Real {
        &self.levels[level]
    }

    fn at(&mut self, level: &Level) -> &mut Real {
        self.levels.get_mut(level).expect("a stock level of the shop")
    }

    /// Sells units to a customer, if the platform shows as many; returns true if it does.
    pub fn sale(&mut self, level: &Level, units: i64) -> bool {
        let real = self.at(level);
        if real.listed < units {
            return false;
        }
        let covered = real.sellable().max(0);
        real.listed -= units;
        real.promised += units;
        self.sold += units;
        self.sold_beyond += (units - covered).max(0);
        true
    }

    /// Sells units from any warehouses, in the order of their ids, as the platform does. Returns the units
    /// taken from each stock level, or nothing if the platform shows too few.
    pub fn ordered(&mut self, sku: &str, units: i64) -> Vec<(Level, i64)> {
        let shelves = self.levels.iter().filter(|((of, _), real)| of == sku && real.listed > 0);
        let (mut missing, mut taken) = (units, Vec::new());
        for (level, real) in shelves {
            let part = missing.min(real.listed);
            missing -= part;
            taken.push((level.clone(), part));
        }
        if missing > 0 {
            return Vec::new();
        }
        taken.retain(|(_, part)| *part > 0);
        for (level, part) in &taken {
            self.sale(level, *part);
        }
        taken
    }

    /// Removes sold units from the shelf, as far as the shelf has them.
    pub fn pick(&mut self, level: &Level) -> i64 {
        let real = self.at(level);
        let units = real.promised.min(real.shelf);
        real.promised -= units;
        real.shelf -= units;
        units
    }

    /// Adds or removes goods other than by a sale at the platform; returns the units moved.
    ///
    /// It removes at most the sellable units.
    pub fn moved(&mut self, level: &Level, units: i64) -> i64 {
        let real = self.at(level);
        let moved = units.max(-real.sellable().max(0));
        real.shelf += moved;
        moved
    }

    /// Moves goods for a colleague, who enters the new quantity at the platform.
    pub fn colleague(&mut self, level: &Level, units: i64) -> i64 {
        let listed = self.level(level).listed;
        let moved = self.moved(level, units.max(-listed));
        self.at(level).listed += moved;
        listed + moved
    }

    /// Records a write of the daemon that arrived and was carried out.
    pub fn written(&mut self, level: &Level, quantity: i64) {
        let real = self.at(level);
        let excess = (quantity - real.sellable()).max(0);
        let new = (excess - real.counted).max(0);
        real.counted = excess;
        real.listed = quantity;
        self.undone += new;
        self.writes += 1;
    }

    /// Returns the stock levels for which the platform shows another quantity than can truly be sold.
    pub fn wrong(&self) -> Vec<(&Level, &Real)> {
        self.levels.iter().filter(|(_, real)| real.listed != real.sellable()).collect()
    }
}

#[test]
fn a_sale_that_a_write_undoes_is_counted_once() {
    let level: Level = ("A".into(), 1);
    let mut books = Books::new([(level.clone(), 10)]);
    assert!(books.sale(&level, 2));
    books.written(&level, 10);
    assert_eq!((books.undone, books.level(&level).sellable()), (2, 8));
    books.written(&level, 10);
    assert_eq!(books.undone, 2, "the same two units still stand");
    assert!(books.sale(&level, 10));
    assert_eq!(books.sold_beyond, 2);
    books.written(&level, 0);
    books.written(&level, 1);
    assert_eq!(books.undone, 2 + 1, "the two still stand, sold by now, and 1 is one more");
}
