//! Property test of docs/rules.md 1, 2 and 10: each push gives the platform the units on the shelf.
//!
//! The order of sales, moves, counts and pushes is arbitrary.

use super::*;
use proptest::prelude::*;

/// An event in the warehouse.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Goods arrive or leave, with an adjust.
    Move(i64),
    /// A count of the shelf, just after a read of the stock level.
    Count,
}

/// An event of the test.
#[derive(Clone, Debug)]
enum Event {
    /// A sale at the platform.
    Sell(i64),
    Warehouse(Doing),
    /// A push of the open changes, with warehouse events meanwhile.
    Push(Vec<Doing>),
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![3 => (-9..=9_i64).prop_map(Doing::Move), 1 => Just(Doing::Count)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1..=9_i64).prop_map(Event::Sell),
        doing().prop_map(Event::Warehouse),
        prop::collection::vec(doing(), 0..4).prop_map(Event::Push),
    ]
}

/// The shelf, the platform, and the open changes between them.
struct World {
    shelf: i64,
    service: Pair,
    wishes: Vec<CellWish>,
    last_set: Option<CountMark>,
    next_id: i64,
}

impl World {
    fn new(stock: i64) -> Self {
        Self { shelf: stock, service: pair(stock, 0), wishes: Vec::new(), last_set: None, next_id: 1 }
    }

    /// Sells units if both the shelf and the platform have them.
    fn sell(&mut self, units: i64) {
        if units <= self.shelf.min(self.service.quantity.0) {
            self.shelf -= units;
            self.service.quantity.0 -= units;
        }
    }

    fn act(&mut self, doing: Doing, base: Pair) {
        let change = match doing {
            Doing::Move(delta) if self.shelf + delta < 0 => return,
            Doing::Move(delta) => {
                self.shelf += delta;
                Change::Adjust(delta)
            }
            Doing::Count => Change::Set(count(self.shelf, Base::Known(base))),
        };
        self.wishes.push(wish(self.next_id, change));
        self.next_id += 1;
    }

    /// Claims, applies the warehouse events, and completes. Only the claimed changes are completed.
    fn push(&mut self, meanwhile: &[Doing]) -> Result<(), TestCaseError> {
        let (before, shelf) = (self.service, self.shelf);
        let claimed = std::mem::take(&mut self.wishes);
        let plan = plan(CellFact::Known(before), &claimed, Policy::Merge, self.last_set);
        for doing in meanwhile {
            self.act(*doing, before);
        }
        let to = plan.becomes().unwrap_or(before.quantity);
        prop_assert_eq!(to.0, shelf, "{:?} at {:?}: {:?}", claimed, before, plan);
        prop_assert_eq!(plan.decisions.len(), claimed.len());
        self.service = pair(to.0, before.ours + to.0 - before.quantity.0);
        let sets = claimed.iter().filter(|wish| plan.settles().any(|id| id == wish.id)).filter_map(counted);
        self.last_set = sets.map(|(wish, count)| mark(wish, &count)).next_back().or(self.last_set);
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_push_makes_the_service_hold_what_lies_on_the_shelf(
        stock in 0..60_i64,
        events in prop::collection::vec(event(), 0..24),
    ) {
        let mut world = World::new(stock);
        for event in events {
            match event {
                Event::Sell(units) => world.sell(units),
                Event::Warehouse(doing) => world.act(doing, world.service),
                Event::Push(meanwhile) => world.push(&meanwhile)?,
            }
        }
        world.push(&[])?;
    }
}
