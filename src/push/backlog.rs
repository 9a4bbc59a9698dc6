//! Queue of stock levels that wait to be planned. Pure.
//!
//! Operators' stock levels come first, then all others in the order of arrival. A stock level is queued at
//! most once. A stock level that was planned and not started goes back to the front.

use crate::model::{Cell, Sku};
use std::collections::{BTreeSet, VecDeque};

/// Stock levels that wait.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    urgent: VecDeque<Cell>,
    bulk: VecDeque<Cell>,
    known: BTreeSet<Cell>,
}

impl Backlog {
    /// Queues a stock level. If `is_urgent`, it moves before all bulk stock levels, also if it was queued
    /// already.
    pub(super) fn add(&mut self, cell: Cell, is_urgent: bool) {
        let is_new = self.known.insert(cell.clone());
        if is_urgent {
            self.bulk.retain(|known| is_new || *known != cell);
            if is_new || !self.urgent.contains(&cell) {
                self.urgent.push_back(cell);
            }
        } else if is_new {
            self.bulk.push_back(cell);
        }
    }

    /// Puts stock levels back to the front, in their order. A queued one stays in its position.
    pub(super) fn put_back(&mut self, cells: Vec<(Cell, bool)>) {
        for (cell, is_urgent) in cells.into_iter().rev() {
            if self.known.insert(cell.clone()) {
                let line = if is_urgent { &mut self.urgent } else { &mut self.bulk };
                line.push_front(cell);
            }
        }
    }

    /// Takes out the stock levels of the first `limit` SKUs.
    pub(super) fn page(&mut self, limit: usize) -> Vec<Cell> {
        let (mut skus, mut page) = (BTreeSet::<Sku>::new(), Vec::new());
        while let Some(cell) = self.urgent.front().or(self.bulk.front()) {
            if skus.len() >= limit && !skus.contains(&cell.sku) {
                break;
            }
            let line = if self.urgent.is_empty() { &mut self.bulk } else { &mut self.urgent };
            let Some(cell) = line.pop_front() else { break };
            self.known.remove(&cell);
            skus.insert(cell.sku.clone());
            page.push(cell);
        }
        page
    }

    /// Returns true if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns true if an operator's change waits.
    pub(super) fn is_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WarehouseId;

    fn cell(sku: &str, warehouse: i64) -> Cell {
        Cell { sku: Sku::new(sku).unwrap(), warehouse_id: WarehouseId(warehouse) }
    }

    fn names(cells: &[Cell]) -> Vec<String> {
        cells.iter().map(|cell| format!("{}{}", cell.sku, cell.warehouse_id.0)).collect()
    }

    #[test]
    fn a_page_holds_whole_skus_as_far_as_they_stand_together_and_operators_cells_come_first() {
        let mut backlog = Backlog::default();
        for (sku, warehouse) in [("A", 1), ("A", 2), ("B", 1), ("A", 3), ("C", 1)] {
            backlog.add(cell(sku, warehouse), false);
        }
        backlog.add(cell("C", 1), true);
        backlog.add(cell("A", 1), false);
        assert!(backlog.is_urgent());
        assert_eq!(names(&backlog.page(2)), ["C1", "A1", "A2"]);
        assert!(!backlog.is_urgent());
        assert_eq!(names(&backlog.page(2)), ["B1", "A3"]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn what_was_not_begun_goes_back_to_the_front_once() {
        let mut backlog = Backlog::default();
        for sku in ["A", "B", "C"] {
            backlog.add(cell(sku, 1), false);
        }
        let page = backlog.page(2);
        backlog.put_back(page.into_iter().map(|cell| (cell, false)).collect());
        backlog.put_back(vec![(cell("B", 1), false), (cell("D", 1), true)]);
        assert_eq!(names(&backlog.page(9)), ["D1", "A1", "B1", "C1"]);
    }
}
