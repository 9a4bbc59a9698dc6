//! Queue of stock levels that wait to be planned. Pure.
//!
//! Operators' stock levels come first, then all others in the order of arrival. A stock level is queued at
//! most once. A stock level that was planned and not started goes back to the front.

use crate::model::{Sku, StockLevel};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct PushBacklog {
    urgent: VecDeque<StockLevel>,
    bulk: VecDeque<StockLevel>,
    known: BTreeSet<StockLevel>,
}

impl PushBacklog {
    /// Queues a stock level. If `is_urgent`, it moves before all bulk stock levels, also if it was queued
    /// already.
    pub(super) fn add_level(&mut self, level: StockLevel, is_urgent: bool) {
        let is_new = self.known.insert(level.clone());
        if is_urgent {
            self.bulk.retain(|known| is_new || *known != level);
            if is_new || !self.urgent.contains(&level) {
                self.urgent.push_back(level);
            }
        } else if is_new {
            self.bulk.push_back(level);
        }
    }

    /// Puts stock levels back to the front, in their order. A queued one stays in its position.
    pub(super) fn put_back(&mut self, levels: impl DoubleEndedIterator<Item = (StockLevel, bool)>) {
        for (level, is_urgent) in levels.rev() {
            if self.known.insert(level.clone()) {
                let line = if is_urgent { &mut self.urgent } else { &mut self.bulk };
                line.push_front(level);
            }
        }
    }

    /// Takes out the stock levels of the first `limit` SKUs, and those before them that do not count.
    pub(super) fn take_page(
        &mut self,
        limit: usize,
        counts: impl Fn(&StockLevel) -> bool,
    ) -> Vec<StockLevel> {
        let (mut skus, mut page) = (BTreeSet::<Sku>::new(), Vec::new());
        while let Some(level) = self.urgent.front().or(self.bulk.front()) {
            if counts(level) && !skus.contains(&level.sku) {
                if skus.len() >= limit {
                    break;
                }
                skus.insert(level.sku.clone());
            }
            let line = if self.urgent.is_empty() { &mut self.bulk } else { &mut self.urgent };
            let Some(level) = line.pop_front() else { break };
            self.known.remove(&level);
            page.push(level);
        }
        page
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WarehouseId;

    fn level(sku: &str, warehouse: i64) -> StockLevel {
        StockLevel { sku: Sku::new(sku).unwrap(), warehouse_id: WarehouseId(warehouse) }
    }

    fn names(levels: &[StockLevel]) -> Vec<String> {
        levels.iter().map(|level| format!("{}{}", level.sku, level.warehouse_id.0)).collect()
    }

    #[test]
    fn a_page_holds_whole_skus_as_far_as_they_stand_together_and_operators_stock_levels_come_first() {
        let mut backlog = PushBacklog::default();
        for (sku, warehouse) in [("A", 1), ("A", 2), ("B", 1), ("A", 3), ("C", 1)] {
            backlog.add_level(level(sku, warehouse), false);
        }
        backlog.add_level(level("C", 1), true);
        backlog.add_level(level("A", 1), false);
        assert!(backlog.has_urgent());
        assert_eq!(names(&backlog.take_page(2, |_| true)), ["C1", "A1", "A2"]);
        assert!(!backlog.has_urgent());
        assert_eq!(names(&backlog.take_page(2, |_| true)), ["B1", "A3"]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn a_page_has_stock_levels_that_do_not_count_beside_the_others() {
        let mut backlog = PushBacklog::default();
        for sku in ["done 1", "A", "done 2", "B", "C", "done 3"] {
            backlog.add_level(level(sku, 1), false);
        }
        let page = backlog.take_page(2, |level| !level.sku.as_str().starts_with("done"));
        assert_eq!(names(&page), ["done 11", "A1", "done 21", "B1"]);
        assert_eq!(names(&backlog.take_page(2, |_| true)), ["C1", "done 31"]);
    }

    #[test]
    fn what_was_not_begun_goes_back_to_the_front_once() {
        let mut backlog = PushBacklog::default();
        for sku in ["A", "B", "C"] {
            backlog.add_level(level(sku, 1), false);
        }
        let page = backlog.take_page(2, |_| true);
        backlog.put_back(page.into_iter().map(|level| (level, false)));
        backlog.put_back([(level("B", 1), false), (level("D", 1), true)].into_iter());
        assert_eq!(names(&backlog.take_page(9, |_| true)), ["D1", "A1", "B1", "C1"]);
    }
}
