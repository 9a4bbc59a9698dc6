//! Tests of the merge: fact, changes, policy, decision. A new rule starts as a case.
//!
//! A case expects the step, then a part for each change: id, state, and explanation or reason.

mod limits;
mod merge;
mod truth;

use super::*;
use crate::model::{Sku, StockLevel, Timestamp, WarehouseId};
use crate::reconcile::{CountBase, CountPolicy, CountResolution};

use CountPolicy::{Ask, Local, Merge, Remote};

fn state(quantity: i64, own_delta: i64) -> QuantityState {
    QuantityState { quantity: Quantity(quantity), own_delta }
}

/// Returns the fact `quantity` with the given own delta.
fn known_fact(quantity: i64, own_delta: i64) -> StockLevelKnowledge {
    StockLevelKnowledge::Known(state(quantity, own_delta))
}

/// Returns a pending change `id` that was inserted at second `id`.
fn change(id: i64, effect: ChangeEffect) -> StockLevelChange {
    StockLevelChange { id: ChangeId(id), created_at: Timestamp(id * 1000), state: OpenState::Pending, effect }
}

fn count(quantity: i64, base: CountBase) -> Count {
    Count { quantity: Quantity(quantity), counted_at: None, base, applied_after: 0, resolution: None }
}

/// Returns a count of `quantity` with the base `seen` and its own delta.
fn set(id: i64, quantity: i64, (seen, own_delta): (i64, i64)) -> StockLevelChange {
    change(id, ChangeEffect::Set(count(quantity, CountBase::Known(state(seen, own_delta)))))
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

fn check_plan(
    name: &str,
    fact: StockLevelKnowledge,
    changes: impl AsRef<[StockLevelChange]>,
    policy: CountPolicy,
    expected: &str,
) {
    assert_eq!(plan_lines(&plan(fact, changes.as_ref(), policy, None)).join("; "), expected, "{name}");
}

/// Checks the usual case: a fresh fact with its own delta, and the policy `merge`.
fn check_merge(
    name: &str,
    (fact, own_delta): (i64, i64),
    changes: impl AsRef<[StockLevelChange]>,
    expected: &str,
) {
    check_plan(name, known_fact(fact, own_delta), changes, Merge, expected);
}
