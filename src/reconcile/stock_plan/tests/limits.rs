//! Tests of changes that are not written, and of operators' decisions.
//!
//! Causes: no base, an impossible result, an unknown stock level.

use super::*;

/// Covers docs/rules.md 1: a base is fixed once, and without a base no drift exists.
#[test]
fn a_count_without_a_base_waits_or_is_held_unless_the_count_wins_anyway() {
    use CountBase::{Awaited, Missed};
    let counted = |base| [change(1, ChangeEffect::Set(count(47, base)))];
    merge_case("the next read fixes it", (50, 0), counted(Awaited)).gives("read");
    plan_case("ask waits too", known_fact(50, 0), counted(Awaited), Ask).gives("read");
    plan_case("local needs none", known_fact(50, 0), counted(Awaited), Local)
        .gives("write 50 -> 47; 1 counted 47, taken as counted: 47");
    merge_case("down over the weekend, 30 sold", (20, 0), counted(Missed))
        .gives("nothing; 1 held stale_base, mine 47 theirs 20");
    plan_case("remote is held too", known_fact(20, 0), counted(Missed), Remote)
        .gives("nothing; 1 held stale_base, mine 47 theirs 20");
    plan_case("local takes the count", known_fact(20, 0), counted(Missed), Local)
        .gives("write 20 -> 47; 1 counted 47, taken as counted: 47");
    merge_case("an adjust beside it goes on", (20, 0), [counted(Missed)[0], adjust(2, -1)])
        .gives("write 20 -> 19; 1 held stale_base, mine 47 theirs 20; 2 adjust -1 on 20: 19");
}

/// Covers `outbox resolve KEY --use …`: the operator's decision overrides the policy.
#[test]
fn a_decision_on_a_conflict_is_applied() {
    let resolved = |resolution| {
        let resolve = |count: &mut Count| (count.resolution, count.applied_after) = (Some(resolution), -1);
        [with_count(set(1, 47, 50), resolve)]
    };
    let exactly = CountResolution::Exactly { quantity: Quantity(46), base: state(48, -1) };
    plan_case("mine", known_fact(48, -1), resolved(CountResolution::Mine), Ask).gives(
        "write 48 -> 46; 1 counted 47 while the platform showed 50, 1 sold since, taken as counted, \
         adjusted -1 since: 46",
    );
    plan_case("a number", known_fact(48, -1), resolved(exactly), Ask)
        .gives("write 48 -> 46; 1 counted 46 while the platform showed 48: 46");
    plan_case("a number, and one sold since the decision", known_fact(47, -1), resolved(exactly), Ask)
        .gives("write 47 -> 45; 1 counted 46 while the platform showed 48, 1 sold since: 45");
}

/// Covers docs/rules.md 5: only the result is tested, the culprit is held alone, a later count supersedes it.
#[test]
fn only_the_change_that_drives_a_stock_level_below_zero_is_held() {
    merge_case("adjust -70 at 50", (50, 0), [adjust(1, -70)])
        .gives("nothing; 1 held negative, mine -20 theirs 50");
    merge_case("the rest goes", (50, 0), [adjust(1, -3), adjust(2, -70), adjust(3, 4)]).gives(
        "write 50 -> 51; 1 adjust -3 on 50: 47; 2 held negative, mine -19 theirs 50; 3 adjust +4 on 47: 51",
    );
    merge_case("below zero on the way only", (5, 0), [adjust(1, -8), adjust(2, 10)])
        .gives("write 5 -> 7; 1 adjust -8 on 5: -3; 2 adjust +10 on -3: 7");
    merge_case("two are to blame", (50, 0), [adjust(1, -40), adjust(2, -20), adjust(3, -30)]).gives(
        "write 50 -> 10; 1 adjust -40 on 50: 10; 2 held negative, mine -40 theirs 50; \
         3 held negative, mine -20 theirs 50",
    );
    merge_case("more sold than counted", (45, 0), [adjust(1, -4), set(2, 2, 50), adjust(3, 1)]).gives(
        "write 45 -> 42; 1 adjust -4 on 45: 41; 2 held negative, mine -2 theirs 45; 3 adjust +1 on 41: 42",
    );
    merge_case("an adjust after the count is to blame", (50, 0), [set(1, 3, 50), adjust(2, -4)]).gives(
        "write 50 -> 3; 1 counted 3 while the platform showed 50: 3; 2 held negative, mine -1 theirs 50",
    );
    merge_case("oversold there, three come in", (-5, 0), [adjust(1, 3)])
        .gives("nothing; 1 held negative, mine -2 theirs -5");
    merge_case("a later count supersedes the held adjust", (50, 0), [held(adjust(1, -70)), set(2, 0, 50)])
        .gives("write 50 -> 0; 1 cancelled superseded; 2 counted 0 while the platform showed 50: 0");
    merge_case("and the held count", (50, 0), [held(set(1, 9, 0)), set(2, 8, 50)])
        .gives("write 50 -> 8; 1 cancelled superseded; 2 counted 8 while the platform showed 50: 8");
    merge_case("a held adjust is in no sum", (50, 0), [held(adjust(1, -70)), adjust(2, -1)])
        .gives("write 50 -> 49; 2 adjust -1 on 50: 49");
    merge_case("a held adjust after the count stays held", (50, 0), [set(1, 8, 50), held(adjust(2, -70))])
        .gives("write 50 -> 8; 1 counted 8 while the platform showed 50: 8");
    merge_case("above 32 bits", (2_147_483_647, 0), [adjust(1, 1)])
        .gives("nothing; 1 held too_large, mine 2147483648 theirs 2147483647");
}

/// Covers docs/rules.md 2, 7, 8: the conditions before a write to a stock level.
#[test]
fn what_the_service_does_not_know_is_not_written() {
    use StockLevelKnowledge::{AmbiguousSku, Disputed, Kit, Unlinked, Unread};
    let both = || [set(1, 47, 50), adjust(2, 1)];
    let miscased_skus = vec![Sku::new("a ").unwrap(), Sku::new(" a").unwrap()];
    plan_case("not read, or too long ago", Unread, both(), Merge).gives("read");
    plan_case("a kit", Kit, both(), Local).gives("nothing; 1 rejected kit; 2 rejected kit");
    plan_case("a kit's held change stays", Kit, [held(adjust(1, -70)), adjust(2, 1)], Local)
        .gives("nothing; 2 rejected kit");
    plan_case("two spellings, neither exact", AmbiguousSku(miscased_skus), both(), Merge)
        .gives("nothing; 1 held ambiguous_sku, mine - theirs -; 2 held ambiguous_sku, mine - theirs -");
    plan_case("not linked: a count is allowed, and what comes after it", Unlinked, both(), Ask).gives(
        "write 48; 1 counted 47 while the platform showed 50, not linked to the warehouse yet: 47; \
         2 adjust +1 on 47: 48",
    );
    plan_case("not linked: an adjust alone is held", Unlinked, [adjust(1, 1)], Merge)
        .gives("nothing; 1 held not_shown, mine - theirs -");
    let disputed = || Disputed(state(50, 0));
    plan_case("disputed: a count is allowed, and what comes after it", disputed(), both(), Merge)
        .gives("write 50 -> 48; 1 counted 47 while the platform showed 50: 47; 2 adjust +1 on 47: 48");
    plan_case("disputed: an adjust alone is held", disputed(), [adjust(1, 1)], Merge)
        .gives("nothing; 1 held mismatch, mine - theirs 50");
    merge_case("no change to decide", (50, 0), [held(adjust(1, -70))]).gives("nothing");
}

#[test]
fn the_planned_quantity_is_the_quantity_that_the_step_writes() {
    let becomes = |fact, changes: &[StockLevelChange]| plan(fact, changes, Merge, None).planned_quantity();
    assert_eq!(becomes(known_fact(50, 0), &[adjust(1, -3)]), Some(Quantity(47)));
    assert_eq!(becomes(known_fact(50, 0), &[adjust(1, 0)]), Some(Quantity(50)));
    assert_eq!(becomes(known_fact(50, 0), &[adjust(1, -70)]), None);
    assert_eq!(becomes(StockLevelKnowledge::Unread, &[adjust(1, -3)]), None);
}

/// Covers the details: each held, rejected or cancelled change has a subject and a reason.
#[test]
fn every_detail_is_a_sentence_with_its_numbers() {
    let drifted = "counted 47 while the platform showed 50, 2 sold since; decide which quantity is correct";
    let cases = [
        (known_fact(48, 0), set(1, 47, 50), drifted),
        (known_fact(50, 0), adjust(1, -70), "A in warehouse 1 would become -20; count it again"),
        (
            known_fact(-3, 0),
            adjust(1, 2),
            "the platform shows -3 for A in warehouse 1: more is sold than there was. With +2 it would become -1, which \
             cannot be written; retry it once more has come in",
        ),
        (
            StockLevelKnowledge::Unlinked,
            adjust(1, 1),
            "adjust +1, but the platform has no link for A in warehouse 1; count it instead",
        ),
    ];
    for (fact, change, expected) in cases {
        let plan = plan(fact, &[change], Ask, None);
        let detail = match &plan.decisions[0].decision {
            ChangeDecision::Completes { explanation } => explanation,
            ChangeDecision::Held { detail, .. }
            | ChangeDecision::Rejected { detail, .. }
            | ChangeDecision::Cancelled { detail, .. } => detail,
        };
        assert_eq!(detail, expected);
    }
}
