//! What the goods really did: plain maps, kept from the events alone and from what arrived at the service.
//!
//! None of the daemon's code, tables or answers goes in here. The same books judge every contestant.

use std::collections::BTreeMap;

/// A SKU in a warehouse.
pub type Cell = (String, i64);

/// One cell as it really is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Real {
    /// Units on the shelf.
    pub shelf: i64,
    /// Units sold and not yet picked.
    pub promised: i64,
    /// The number the service shows, from which it sells.
    pub listed: i64,
    /// Units above what can be sold that the last write left, and that are counted already.
    counted: i64,
}

impl Real {
    /// What can truly be sold: the shelf less what is sold and not yet picked.
    pub fn sellable(&self) -> i64 {
        self.shelf - self.promised
    }
}

/// All cells, and what went wrong with them.
#[derive(Clone, Debug, Default)]
pub struct Books {
    pub cells: BTreeMap<Cell, Real>,
    /// Units sold at the service.
    pub sold: i64,
    /// **Units oversold because of writes**: at the arrival of each write, the units by which the written number exceeds
    /// what is truly sellable, as far as an earlier write's excess in that cell is not still standing.
    pub undone: i64,
    /// Units that were sold beyond the shelf, whatever the reason.
    pub sold_beyond: i64,
    /// Writes that arrived.
    pub writes: u64,
}

impl Books {
    /// Books that agree with the service at the beginning.
    pub fn new(stock: impl IntoIterator<Item = (Cell, i64)>) -> Self {
        let real = |units| Real { shelf: units, listed: units, ..Real::default() };
        Self {
            cells: stock.into_iter().map(|(cell, units)| (cell, real(units))).collect(),
            ..Self::default()
        }
    }

    pub fn cell(&self, cell: &Cell) -> &Real {
        &self.cells[cell]
    }

    fn at(&mut self, cell: &Cell) -> &mut Real {
        self.cells.get_mut(cell).expect("a cell of the shop")
    }

    /// A customer wants so many; the service sells if it shows as many.
    pub fn sale(&mut self, cell: &Cell, units: i64) -> bool {
        let real = self.at(cell);
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

    /// A customer wants so many, wherever they are: the service takes from the warehouses in the order of their ids. What
    /// was taken where is returned; empty: too little is shown.
    pub fn ordered(&mut self, sku: &str, units: i64) -> Vec<(Cell, i64)> {
        let shelves = self.cells.iter().filter(|((of, _), real)| of == sku && real.listed > 0);
        let (mut missing, mut taken) = (units, Vec::new());
        for (cell, real) in shelves {
            let part = missing.min(real.listed);
            missing -= part;
            taken.push((cell.clone(), part));
        }
        if missing > 0 {
            return Vec::new();
        }
        taken.retain(|(_, part)| *part > 0);
        for (cell, part) in &taken {
            self.sale(cell, *part);
        }
        taken
    }

    /// What was sold leaves the shelf, as far as it is there.
    pub fn pick(&mut self, cell: &Cell) -> i64 {
        let real = self.at(cell);
        let units = real.promised.min(real.shelf);
        real.promised -= units;
        real.shelf -= units;
        units
    }

    /// Goods come, or go otherwise than by a sale at the service; never more than can be spared. How many moved is
    /// returned.
    pub fn moved(&mut self, cell: &Cell, units: i64) -> i64 {
        let real = self.at(cell);
        let moved = units.max(-real.sellable().max(0));
        real.shelf += moved;
        moved
    }

    /// A colleague moves goods and enters the new number at the service himself.
    pub fn colleague(&mut self, cell: &Cell, units: i64) -> i64 {
        let listed = self.cell(cell).listed;
        let moved = self.moved(cell, units.max(-listed));
        self.at(cell).listed += moved;
        listed + moved
    }

    /// A write of ours arrived and was carried out.
    pub fn written(&mut self, cell: &Cell, quantity: i64) {
        let real = self.at(cell);
        let excess = (quantity - real.sellable()).max(0);
        let new = (excess - real.counted).max(0);
        real.counted = excess;
        real.listed = quantity;
        self.undone += new;
        self.writes += 1;
    }

    /// Cells in which the service shows another number than can truly be sold.
    pub fn wrong(&self) -> Vec<(&Cell, &Real)> {
        self.cells.iter().filter(|(_, real)| real.listed != real.sellable()).collect()
    }
}

#[test]
fn a_sale_that_a_write_undoes_is_counted_once() {
    let cell: Cell = ("A".into(), 1);
    let mut books = Books::new([(cell.clone(), 10)]);
    assert!(books.sale(&cell, 2));
    books.written(&cell, 10);
    assert_eq!((books.undone, books.cell(&cell).sellable()), (2, 8));
    books.written(&cell, 10);
    assert_eq!(books.undone, 2, "the same two units still stand");
    assert!(books.sale(&cell, 10));
    assert_eq!(books.sold_beyond, 2);
    books.written(&cell, 0);
    books.written(&cell, 1);
    assert_eq!(books.undone, 2 + 1, "the two still stand, sold by now, and 1 is one more");
}
