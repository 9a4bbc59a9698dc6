//! Property test of docs/rules.md 1 and 6: each push gives the platform the units on the shelf.
//!
//! The order of sales, moves, counts and pushes is arbitrary.

use super::*;
use proptest::prelude::*;

/// An event in the warehouse.
#[derive(Clone, Copy, Debug)]
enum WarehouseEvent {
    /// Goods arrive or leave, with an adjust.
    Move(i64),
    /// A count of the shelf, just after a read of the stock level.
    Count,
}

/// An event of the test.
#[derive(Clone, Debug)]
enum TruthEvent {
    /// A sale at the platform.
    Sell(i64),
    Warehouse(WarehouseEvent),
    /// A push of the open changes, with warehouse events meanwhile.
    Push(Vec<WarehouseEvent>),
}

fn any_warehouse_event() -> impl Strategy<Value = WarehouseEvent> {
    prop_oneof![3 => (-9..=9_i64).prop_map(WarehouseEvent::Move), 1 => Just(WarehouseEvent::Count)]
}

fn any_event() -> impl Strategy<Value = TruthEvent> {
    prop_oneof![
        (1..=9_i64).prop_map(TruthEvent::Sell),
        any_warehouse_event().prop_map(TruthEvent::Warehouse),
        prop::collection::vec(any_warehouse_event(), 0..4).prop_map(TruthEvent::Push),
    ]
}

/// The shelf, the platform, and the open changes between them.
struct TruthWorld {
    warehouse_units: i64,
    platform: QuantityState,
    changes: Vec<StockLevelChange>,
    last_set: Option<CountMark>,
    next_id: i64,
}

impl TruthWorld {
    fn new(stock: i64) -> Self {
        let platform = state(stock, 0);
        Self { warehouse_units: stock, platform, changes: Vec::new(), last_set: None, next_id: 1 }
    }

    /// Sells units if both the shelf and the platform have them.
    fn sell_units(&mut self, units: i64) {
        if units <= self.warehouse_units.min(self.platform.quantity.0) {
            self.warehouse_units -= units;
            self.platform.quantity.0 -= units;
        }
    }

    fn apply_event(&mut self, doing: WarehouseEvent, base: QuantityState) {
        let effect = match doing {
            WarehouseEvent::Move(delta) if self.warehouse_units + delta < 0 => return,
            WarehouseEvent::Move(delta) => {
                self.warehouse_units += delta;
                ChangeEffect::Adjust(delta)
            }
            WarehouseEvent::Count => ChangeEffect::Set(count(self.warehouse_units, CountBase::Known(base))),
        };
        self.changes.push(change(self.next_id, effect));
        self.next_id += 1;
    }

    /// Claims, applies the warehouse events, and completes. Only the claimed changes are completed.
    fn push_changes(&mut self, meanwhile: &[WarehouseEvent]) -> Result<(), TestCaseError> {
        let (before, stock) = (self.platform, self.warehouse_units);
        let claimed = std::mem::take(&mut self.changes);
        let plan = plan(StockLevelKnowledge::Known(before), &claimed, CountPolicy::Merge, self.last_set);
        for doing in meanwhile {
            self.apply_event(*doing, before);
        }
        let to = plan.planned_quantity().unwrap_or(before.quantity);
        prop_assert_eq!(to.0, stock, "{:?} at {:?}: {:?}", claimed, before, plan);
        prop_assert_eq!(plan.decisions.len(), claimed.len());
        self.platform = state(to.0, before.own_delta + to.0 - before.quantity.0);
        let sets = claimed
            .iter()
            .filter(|change| plan.completed_changes().any(|id| id == change.id))
            .filter_map(as_count);
        self.last_set = sets.map(|(change, count)| count_mark(change, &count)).next_back().or(self.last_set);
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_push_makes_the_service_hold_what_lies_on_the_shelf(
        stock in 0..60_i64,
        events in prop::collection::vec(any_event(), 0..24),
    ) {
        let mut world = TruthWorld::new(stock);
        for event in events {
            match event {
                TruthEvent::Sell(units) => world.sell_units(units),
                TruthEvent::Warehouse(doing) => world.apply_event(doing, world.platform),
                TruthEvent::Push(meanwhile) => world.push_changes(&meanwhile)?,
            }
        }
        world.push_changes(&[])?;
    }
}
