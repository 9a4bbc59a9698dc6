//! Tests of the merge as a table: fact, changes, policy, decision. A new rule starts as a row.
//!
//! A row expects the step, then a line for each change: id, state, and explanation or reason.

mod limits;
mod merge;
mod truth;

use super::*;
use crate::model::{Sku, StockLevel, Timestamp, WarehouseId};
use crate::reconcile::{CountBase, CountPolicy, CountResolution};

use CountPolicy::{Ask, Local, Merge, Remote};

/// A row of the table.
struct CaseRow {
    name: &'static str,
    fact: StockLevelKnowledge,
    changes: Vec<StockLevelChange>,
    policy: CountPolicy,
    expected: &'static [&'static str],
}

fn case_row(
    name: &'static str,
    fact: StockLevelKnowledge,
    changes: impl Into<Vec<StockLevelChange>>,
    policy: CountPolicy,
    expected: &'static [&'static str],
) -> CaseRow {
    CaseRow { name, fact, changes: changes.into(), policy, expected }
}

fn state(quantity: i64, ours: i64) -> QuantityState {
    QuantityState { quantity: Quantity(quantity), own_delta: ours }
}

/// Returns the fact `quantity` with the own delta `ours`.
fn known_fact(quantity: i64, ours: i64) -> StockLevelKnowledge {
    StockLevelKnowledge::Known(state(quantity, ours))
}

/// Returns a pending change `id` that was inserted at second `id`.
fn change(id: i64, effect: ChangeEffect) -> StockLevelChange {
    StockLevelChange { id: ChangeId(id), created_at: Timestamp(id * 1000), state: OpenState::Pending, effect }
}

fn count(quantity: i64, base: CountBase) -> Count {
    Count { quantity: Quantity(quantity), counted_at: None, base, applied_after: 0, resolution: None }
}

/// Returns a count of `quantity` with the base `seen` and its own delta `ours`.
fn set(id: i64, quantity: i64, (seen, ours): (i64, i64)) -> StockLevelChange {
    change(id, ChangeEffect::Set(count(quantity, CountBase::Known(state(seen, ours)))))
}

fn adjust(id: i64, delta: i64) -> StockLevelChange {
    change(id, ChangeEffect::Adjust(delta))
}

fn held(change: StockLevelChange) -> StockLevelChange {
    StockLevelChange { state: OpenState::Held, ..change }
}

fn with_count(mut change: StockLevelChange, edit: impl FnOnce(&mut Count)) -> StockLevelChange {
    if let ChangeEffect::Set(count) = &mut change.effect {
        edit(count);
    }
    change
}

fn counted_at(second: i64, change: StockLevelChange) -> StockLevelChange {
    with_count(change, |count| count.counted_at = Some(Timestamp(second * 1000)))
}

fn stock_level() -> StockLevel {
    StockLevel { sku: Sku::new("A").unwrap(), warehouse_id: WarehouseId(1) }
}

fn plan(
    fact: StockLevelKnowledge,
    changes: &[StockLevelChange],
    policy: CountPolicy,
    last_set: Option<CountMark>,
) -> StockLevelPlan {
    plan_stock_level(&StockLevelInput { stock_level: &stock_level(), fact, last_set, changes, policy })
}

fn plan_lines(plan: &StockLevelPlan) -> Vec<String> {
    let step = match plan.step {
        StockLevelStep::Nothing => "nothing".into(),
        StockLevelStep::ReadFirst => "read".into(),
        StockLevelStep::Agreed(quantity) => format!("agreed {quantity}"),
        StockLevelStep::Write { from: Some(from), to } => format!("write {from} -> {to}"),
        StockLevelStep::Write { from: None, to } => format!("write {to}"),
    };
    let decision = |decision: &DecidedChange| {
        let id = decision.id;
        match &decision.decision {
            ChangeDecision::Completes { explanation: how } => format!("{id} {how}"),
            ChangeDecision::Held { reason, mine, theirs, .. } => {
                let number = |number: &Option<i64>| number.map_or("-".into(), |number| number.to_string());
                format!("{id} held {reason}, mine {} theirs {}", number(mine), number(theirs))
            }
            ChangeDecision::Rejected { reason, .. } => format!("{id} rejected {reason}"),
            ChangeDecision::Cancelled { reason, .. } => format!("{id} cancelled {reason}"),
        }
    };
    std::iter::once(step).chain(plan.decisions.iter().map(decision)).collect()
}

fn check_rows(rows: Vec<CaseRow>) {
    for CaseRow { name, fact, changes, policy, expected } in rows {
        assert_eq!(plan_lines(&plan(fact, &changes, policy, None)), expected, "{name}");
    }
}
