//! Tests of counts, adjusts and changes by others: the resulting quantity.

use super::*;

/// Covers docs/rules.md 1: the result is Q + D, and own writes are not part of D.
#[test]
fn a_count_keeps_what_others_did_since_and_not_what_we_did() {
    merge_case("counted, nobody moved", (50, 0), [set(1, 47, 50)])
        .gives("write 50 -> 47; 1 counted 47 while the platform showed 50: 47");
    merge_case("two sold since the count", (48, 0), [set(1, 47, 50)])
        .gives("write 48 -> 45; 1 counted 47 while the platform showed 50, 2 sold since: 45");
    merge_case("counted at what was seen, not at the fact", (50, 0), [set(1, 44, 46)]).gives(
        "write 50 -> 48; 1 counted 44 while the platform showed 46, 4 added at the platform since: 48",
    );
    merge_case("our adjust was in flight at the count: R = 47 is our own doing", (47, -3), [set(2, 47, 50)])
        .gives("agreed 47; 2 counted 47 while the platform showed 50: 47");
    merge_case("our adjust in flight, and one sold beside it", (46, -3), [set(2, 47, 50)])
        .gives("agreed 46; 2 counted 47 while the platform showed 50, 1 sold since: 46");
    merge_case("the platform oversold", (-2, 0), [set(1, 10, 3)])
        .gives("write -2 -> 5; 1 counted 10 while the platform showed 3, 5 sold since: 5");
    merge_case("both sides agree", (47, 0), [set(1, 47, 47)])
        .gives("agreed 47; 1 counted 47 while the platform showed 47: 47");
}

/// Covers docs/rules.md 1: the four policies, with and without drift. They differ only with drift.
#[test]
fn a_policy_applies_only_if_others_changed_the_stock_level() {
    let (still, moved) = (known_fact(50, 0), known_fact(48, 0));
    let counted = || [set(1, 47, 50)];
    plan_case("local, still", still.clone(), counted(), Local)
        .gives("write 50 -> 47; 1 counted 47 while the platform showed 50: 47");
    plan_case("remote, still", still.clone(), counted(), Remote)
        .gives("write 50 -> 47; 1 counted 47 while the platform showed 50: 47");
    plan_case("ask, still", still, counted(), Ask)
        .gives("write 50 -> 47; 1 counted 47 while the platform showed 50: 47");
    plan_case("local, moved", moved.clone(), counted(), Local).gives(
        "write 48 -> 47; 1 counted 47 while the platform showed 50, 2 sold since, taken as counted: 47",
    );
    plan_case("remote, moved", moved.clone(), counted(), Remote).gives("nothing; 1 rejected remote_wins");
    plan_case("ask, moved", moved.clone(), counted(), Ask)
        .gives("nothing; 1 held conflict, mine 47 theirs 48");
    plan_case(
        "ask, moved: the adjusts on both sides of the count go on",
        moved,
        [adjust(1, -3), set(2, 47, 50), adjust(3, -1)],
        Ask,
    )
    .gives(
        "write 48 -> 44; 1 adjust -3 on 48: 45; 2 held conflict, mine 47 theirs 48; 3 adjust -1 on 45: 44",
    );
}

/// Covers adjusts: they add up, on top of the platform's sales.
#[test]
fn adjusts_add_up_on_the_fact() {
    merge_case("four of 50 sold, then three gone", (46, 0), [adjust(1, -3)])
        .gives("write 46 -> 43; 1 adjust -3 on 46: 43");
    plan_case("several, one entry", known_fact(10, 0), [adjust(1, -3), adjust(2, 5), adjust(3, -1)], Remote)
        .gives("write 10 -> 11; 1 adjust -3 on 10: 7; 2 adjust +5 on 7: 12; 3 adjust -1 on 12: 11");
    merge_case("they cancel out: nothing to send", (10, 0), [adjust(1, -3), adjust(2, 3)])
        .gives("agreed 10; 1 adjust -3 on 10: 7; 2 adjust +3 on 7: 10");
    merge_case("zero is applied without a call", (10, 0), [adjust(1, 0)])
        .gives("agreed 10; 1 adjust +0 on 10: 10");
}

/// Covers docs/rules.md 1: the adjusts that a count includes, and those added to it.
#[test]
fn a_count_includes_what_was_created_before_it_and_nothing_after() {
    merge_case("set, then adjust: one entry", (20, 0), [set(1, 30, 20), adjust(2, 5)])
        .gives("write 20 -> 35; 1 counted 30 while the platform showed 20: 30; 2 adjust +5 on 30: 35");
    merge_case("adjust, then set: counted already", (50, 0), [adjust(1, -3), set(2, 47, 50)])
        .gives("write 50 -> 47; 1 cancelled superseded; 2 counted 47 while the platform showed 50: 47");
    merge_case("adjust, set, adjust", (50, 0), [adjust(1, -3), set(2, 47, 50), adjust(3, -1)]).gives(
        "write 50 -> 46; 1 cancelled superseded; 2 counted 47 while the platform showed 50: 47; \
             3 adjust -1 on 47: 46",
    );
    merge_case(
        "an applied adjust after the count",
        (48, -2),
        [with_count(set(1, 47, 50), |count| count.applied_after = -2)],
    )
    .gives("write 48 -> 45; 1 counted 47 while the platform showed 50, adjusted -2 since: 45");
    merge_case(
        "inserted late: the adjust between count and insertion comes on top",
        (50, 0),
        [adjust(1, -10), adjust(5, -3), counted_at(4, set(6, 47, 50))],
    )
    .gives(
        "write 50 -> 44; 1 cancelled superseded; 5 adjust -3 on 47: 44; \
         6 counted 47 while the platform showed 50: 47",
    );
    merge_case(
        "a count from the future includes nothing inserted after it",
        (50, 0),
        [counted_at(900, set(1, 47, 50)), adjust(2, -3)],
    )
    .gives("write 50 -> 44; 1 counted 47 while the platform showed 50: 47; 2 adjust -3 on 47: 44");
}

/// Covers docs/rules.md 1: the latest count is effective.
#[test]
fn a_later_count_supersedes_the_earlier() {
    merge_case("two counts", (50, 0), [set(1, 40, 50), set(2, 47, 50)])
        .gives("write 50 -> 47; 1 cancelled superseded; 2 counted 47 while the platform showed 50: 47");
    merge_case("counted earlier, inserted later", (50, 0), [set(3, 47, 50), counted_at(1, set(4, 40, 50))])
        .gives("write 50 -> 47; 3 counted 47 while the platform showed 50: 47; 4 cancelled superseded");
    merge_case(
        "three, the middle one latest",
        (9, 0),
        [counted_at(10, set(11, 1, 9)), counted_at(12, set(13, 2, 9)), counted_at(5, set(14, 3, 9))],
    )
    .gives(
        "write 9 -> 2; 11 cancelled superseded; 13 counted 2 while the platform showed 9: 2; \
         14 cancelled superseded",
    );
    merge_case(
        "a later count that is held supersedes an older one",
        (50, 0),
        [held(set(3, 47, 40)), counted_at(1, set(4, 40, 50))],
    )
    .gives("nothing; 4 cancelled superseded");
}

/// Covers docs/rules.md 1: the last applied count supersedes older counts and all that it includes.
#[test]
fn nothing_older_than_the_last_applied_count_is_applied() {
    let last = |id, counted_at: Option<i64>| CountMark {
        id: ChangeId(id),
        created_at: Timestamp(id * 1000),
        counted_at: counted_at.map(|second| Timestamp(second * 1000)),
    };
    let accepted = "6 counted 40 while the platform showed 50: 40";
    let cases = [
        ("inserted later", last(5, None), set(6, 40, 50), accepted),
        ("inserted earlier, released only now", last(5, None), set(4, 40, 50), "4 cancelled superseded"),
        ("made before the last one", last(5, None), counted_at(3, set(6, 40, 50)), "6 cancelled superseded"),
        ("the last was made earlier", last(5, Some(2)), counted_at(3, set(6, 40, 50)), accepted),
        ("an adjust before the last count", last(5, None), adjust(4, -1), "4 cancelled superseded"),
        ("an adjust after the last count's making", last(5, Some(2)), adjust(4, -1), "4 adjust -1 on 50: 49"),
    ];
    for (name, last, change, expected) in cases {
        assert_eq!(plan_lines(&plan(known_fact(50, 0), &[change], Merge, Some(last)))[1], expected, "{name}");
    }
}
