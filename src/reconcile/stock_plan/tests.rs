//! Tests of the merge as a table: fact, changes, policy, decision. A new rule starts as a row.
//!
//! A row expects the step, then a line for each change: id, state, and explanation or reason.

mod limits;
mod merge;
mod truth;

use super::*;
use crate::model::{Cell, Sku, Timestamp, WarehouseId};
use crate::reconcile::{Base, Policy, Word};

use Policy::{Ask, Local, Merge, Remote};

/// A row of the table.
struct Row {
    name: &'static str,
    fact: CellFact,
    wishes: Vec<CellWish>,
    policy: Policy,
    expected: &'static [&'static str],
}

fn row(
    name: &'static str,
    fact: CellFact,
    wishes: impl Into<Vec<CellWish>>,
    policy: Policy,
    expected: &'static [&'static str],
) -> Row {
    Row { name, fact, wishes: wishes.into(), policy, expected }
}

fn pair(quantity: i64, ours: i64) -> Pair {
    Pair { quantity: Quantity(quantity), ours }
}

/// Returns the fact `quantity` with the own delta `ours`.
fn at(quantity: i64, ours: i64) -> CellFact {
    CellFact::Known(pair(quantity, ours))
}

/// Returns a pending change `id` that was inserted at second `id`.
fn wish(id: i64, change: Change) -> CellWish {
    CellWish { id: WishId(id), created_at: Timestamp(id * 1000), standing: Standing::Pending, change }
}

fn count(quantity: i64, base: Base) -> Count {
    Count { quantity: Quantity(quantity), counted_at: None, base, applied_after: 0, word: None }
}

/// Returns a count of `quantity` with the base `seen` and its own delta `ours`.
fn set(id: i64, quantity: i64, (seen, ours): (i64, i64)) -> CellWish {
    wish(id, Change::Set(count(quantity, Base::Known(pair(seen, ours)))))
}

fn adjust(id: i64, delta: i64) -> CellWish {
    wish(id, Change::Adjust(delta))
}

fn held(wish: CellWish) -> CellWish {
    CellWish { standing: Standing::Held, ..wish }
}

fn with(mut wish: CellWish, change: impl FnOnce(&mut Count)) -> CellWish {
    if let Change::Set(count) = &mut wish.change {
        change(count);
    }
    wish
}

fn counted_at(second: i64, wish: CellWish) -> CellWish {
    with(wish, |count| count.counted_at = Some(Timestamp(second * 1000)))
}

fn cell() -> Cell {
    Cell { sku: Sku::new("A").unwrap(), warehouse_id: WarehouseId(1) }
}

fn plan(fact: CellFact, wishes: &[CellWish], policy: Policy, last_set: Option<CountMark>) -> CellPlan {
    decide(&CellInput { cell: &cell(), fact, last_set, wishes, policy })
}

fn shown(plan: &CellPlan) -> Vec<String> {
    let step = match plan.step {
        Step::Nothing => "nothing".into(),
        Step::Read => "read".into(),
        Step::Agreed(quantity) => format!("agreed {quantity}"),
        Step::Write { from: Some(from), to } => format!("write {from} -> {to}"),
        Step::Write { from: None, to } => format!("write {to}"),
    };
    let decision = |decision: &Decision| {
        let id = decision.id;
        match &decision.outcome {
            Outcome::Settles { how } => format!("{id} {how}"),
            Outcome::Held { reason, mine, theirs, .. } => {
                let number = |number: &Option<i64>| number.map_or("-".into(), |number| number.to_string());
                format!("{id} held {reason}, mine {} theirs {}", number(mine), number(theirs))
            }
            Outcome::Rejected { reason, .. } => format!("{id} rejected {reason}"),
            Outcome::Cancelled { reason, .. } => format!("{id} cancelled {reason}"),
        }
    };
    std::iter::once(step).chain(plan.decisions.iter().map(decision)).collect()
}

fn check(rows: Vec<Row>) {
    for Row { name, fact, wishes, policy, expected } in rows {
        assert_eq!(shown(&plan(fact, &wishes, policy, None)), expected, "{name}");
    }
}
