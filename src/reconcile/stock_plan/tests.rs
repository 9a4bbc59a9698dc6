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

fn known_fact(quantity: i64, own_delta: i64) -> StockLevelKnowledge {
    StockLevelKnowledge::Known(state(quantity, own_delta))
}

/// Returns a pending change `id` that was inserted at second `id`.
fn change(id: i64, effect: ChangeEffect) -> StockLevelChange {
    StockLevelChange { id: ChangeId(id), created_at: Timestamp(id * 1000), is_pending: true, effect }
}

fn count(quantity: i64, base: CountBase) -> Count {
    Count { quantity: Quantity(quantity), counted_at: None, base, applied_after: 0, resolution: None }
}

/// Returns a count of `quantity` with the base `seen`, before any own delta.
fn set(id: i64, quantity: i64, seen: i64) -> StockLevelChange {
    change(id, ChangeEffect::Set(count(quantity, CountBase::Known(state(seen, 0)))))
}

fn adjust(id: i64, delta: i64) -> StockLevelChange {
    change(id, ChangeEffect::Adjust(delta))
}

fn held(change: StockLevelChange) -> StockLevelChange {
    StockLevelChange { is_pending: false, ..change }
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
            ChangeDecision::Completes { explanation } => format!("{id} {explanation}"),
            ChangeDecision::Held { reason, mine, theirs, .. } => {
                let units = |units: &Option<i64>| units.map_or("-".into(), |units| units.to_string());
                format!("{id} held {reason}, mine {} theirs {}", units(mine), units(theirs))
            }
            ChangeDecision::Rejected { reason, .. } => format!("{id} rejected {reason}"),
            ChangeDecision::Cancelled { reason, .. } => format!("{id} cancelled {reason}"),
        }
    };
    std::iter::once(step).chain(plan.decisions.iter().map(decision)).collect()
}

/// A plan to compare, with the name of its case.
struct PlanCase {
    name: &'static str,
    plan: String,
}

fn plan_case(
    name: &'static str,
    fact: StockLevelKnowledge,
    changes: impl AsRef<[StockLevelChange]>,
    policy: CountPolicy,
) -> PlanCase {
    PlanCase { name, plan: plan_lines(&plan(fact, changes.as_ref(), policy, None)).join("; ") }
}

/// Plans the usual case: a fresh fact with its own delta, and the policy `merge`.
fn merge_case(
    name: &'static str,
    (fact, own_delta): (i64, i64),
    changes: impl AsRef<[StockLevelChange]>,
) -> PlanCase {
    plan_case(name, known_fact(fact, own_delta), changes, Merge)
}

impl PlanCase {
    fn gives(self, expected: &str) {
        assert_eq!(self.plan, expected, "{}", self.name);
    }
}
