//! Tests of the order of counts and adjusts, and of the changes that a plan completes.
//!
//! The order of insertion decides. A clock decides only if a caller stated a time.

use super::*;

fn mark(id: i64, created_at: i64, counted_at: Option<i64>) -> CountMark {
    CountMark { id: id.into(), created_at: Timestamp(created_at), counted_at: counted_at.map(Timestamp) }
}

#[test]
fn no_count_is_before_itself() {
    for count in [mark(5, 100, None), mark(5, 100, Some(60))] {
        assert!(!count.is_before(&count), "{count:?}");
    }
    assert!(mark(5, 100, Some(60)).is_before(&mark(4, 90, None)), "made earlier, said later");
    assert!(mark(5, 100, Some(60)).is_before(&mark(6, 110, Some(60))), "at once: the order of insertion");
}

#[test]
fn goods_moved_at_the_very_moment_of_a_count_are_counted_with_the_rest() {
    let count = mark(5, 100, Some(60));
    for (id, created_at, is_after) in [(4, 60, false), (4, 61, true), (5, 59, false), (6, 59, true)] {
        assert_eq!(count.precedes_adjust(id.into(), Timestamp(created_at)), is_after, "{id} at {created_at}");
    }
}

#[test]
fn a_plan_settles_what_its_step_carries_and_nothing_else() {
    let rejected = ChangeDecision::Rejected { reason: Reason::Kit, detail: String::new() };
    let outcomes = [(1, ChangeDecision::Completes { explanation: String::new() }), (2, rejected)];
    let decide = |(id, outcome): (i64, ChangeDecision)| DecidedChange { id: id.into(), decision: outcome };
    let decisions = outcomes.into_iter().map(decide).collect();
    let plan = StockLevelPlan { step: StockLevelStep::Agreed(Quantity(3)), decisions };
    assert_eq!(plan.completed_changes().collect::<Vec<_>>(), [1.into()]);
}
