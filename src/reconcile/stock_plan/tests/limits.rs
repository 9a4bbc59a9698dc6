//! Tests of changes that are not written, and of operators' decisions.
//!
//! Causes: no base, an impossible result, an unknown stock level.

use super::*;

/// Covers docs/rules.md 3: a base is fixed once, and without a base no drift exists.
#[test]
fn a_count_without_a_base_waits_or_is_held_unless_the_count_wins_anyway() {
    let counted = |base| [wish(1, Change::Set(count(47, base)))];
    check(vec![
        row("the next read fixes it", at(50, 0), counted(Base::Awaited), Merge, &["read"]),
        row("ask waits too", at(50, 0), counted(Base::Awaited), Ask, &["read"]),
        row(
            "local needs none",
            at(50, 0),
            counted(Base::Awaited),
            Local,
            &["write 50 -> 47", "1 set 47, taken as counted: 47"],
        ),
        row(
            "down over the weekend, 30 sold",
            at(20, 0),
            counted(Base::Missed),
            Merge,
            &["nothing", "1 held stale_base, mine 47 theirs 20"],
        ),
        row(
            "the clock was set back",
            at(20, 0),
            counted(Base::Unsure),
            Merge,
            &["nothing", "1 held stale_base, mine 47 theirs 20"],
        ),
        row(
            "remote is held too",
            at(20, 0),
            counted(Base::Missed),
            Remote,
            &["nothing", "1 held stale_base, mine 47 theirs 20"],
        ),
        row(
            "local takes the count",
            at(20, 0),
            counted(Base::Missed),
            Local,
            &["write 20 -> 47", "1 set 47, taken as counted: 47"],
        ),
        row(
            "an adjust beside it goes on",
            at(20, 0),
            [counted(Base::Missed)[0], adjust(2, -1)],
            Merge,
            &["write 20 -> 19", "1 held stale_base, mine 47 theirs 20", "2 adjust -1 on 20: 19"],
        ),
    ]);
}

/// Covers `outbox resolve KEY --use …`: the operator's decision overrides the policy.
#[test]
fn a_persons_word_on_a_conflict_is_taken() {
    let said =
        |word| [with(set(1, 47, (50, 0)), |count| (count.word, count.applied_after) = (Some(word), -1))];
    let exactly = Word::Exactly { quantity: Quantity(46), base: pair(48, -1) };
    check(vec![
        row(
            "mine",
            at(48, -1),
            said(Word::Mine),
            Ask,
            &[
                "write 48 -> 46",
                "1 set 47 counted at 50, 1 sold since, taken as counted, adjusted -1 since: 46",
            ],
        ),
        row("a number", at(48, -1), said(exactly), Ask, &["write 48 -> 46", "1 set 46 counted at 48: 46"]),
        row(
            "a number, and one sold since the word",
            at(47, -1),
            said(exactly),
            Ask,
            &["write 47 -> 45", "1 set 46 counted at 48, 1 sold since: 45"],
        ),
    ]);
}

/// Covers docs/rules.md 9: only the result is tested, the culprit is held alone, a later count supersedes it.
#[test]
fn the_wish_that_drives_a_cell_below_zero_is_held_alone() {
    check(vec![
        row(
            "adjust -70 at 50",
            at(50, 0),
            [adjust(1, -70)],
            Merge,
            &["nothing", "1 held negative, mine -20 theirs 50"],
        ),
        row(
            "the rest goes",
            at(50, 0),
            [adjust(1, -3), adjust(2, -70), adjust(3, 4)],
            Merge,
            &[
                "write 50 -> 51",
                "1 adjust -3 on 50: 47",
                "2 held negative, mine -19 theirs 50",
                "3 adjust +4 on 47: 51",
            ],
        ),
        row(
            "below zero on the way only",
            at(5, 0),
            [adjust(1, -8), adjust(2, 10)],
            Merge,
            &["write 5 -> 7", "1 adjust -8 on 5: -3", "2 adjust +10 on -3: 7"],
        ),
        row(
            "two are to blame",
            at(50, 0),
            [adjust(1, -40), adjust(2, -20), adjust(3, -30)],
            Merge,
            &[
                "write 50 -> 10",
                "1 adjust -40 on 50: 10",
                "2 held negative, mine -40 theirs 50",
                "3 held negative, mine -20 theirs 50",
            ],
        ),
        row(
            "more sold since than counted: the count, and what it included goes",
            at(45, 0),
            [adjust(1, -4), set(2, 2, (50, 0)), adjust(3, 1)],
            Merge,
            &[
                "write 45 -> 42",
                "1 adjust -4 on 45: 41",
                "2 held negative, mine -2 theirs 45",
                "3 adjust +1 on 41: 42",
            ],
        ),
        row(
            "an adjust after the count is to blame",
            at(50, 0),
            [set(1, 3, (50, 0)), adjust(2, -4)],
            Merge,
            &["write 50 -> 3", "1 set 3 counted at 50: 3", "2 held negative, mine -1 theirs 50"],
        ),
        row(
            "oversold there, three come in",
            at(-5, 0),
            [adjust(1, 3)],
            Merge,
            &["nothing", "1 held negative, mine -2 theirs -5"],
        ),
        row(
            "a later count supersedes the held adjust",
            at(50, 0),
            [held(adjust(1, -70)), set(2, 0, (50, 0))],
            Merge,
            &["write 50 -> 0", "1 cancelled superseded", "2 set 0 counted at 50: 0"],
        ),
        row(
            "and the held count",
            at(50, 0),
            [held(set(1, 9, (0, 0))), set(2, 8, (50, 0))],
            Merge,
            &["write 50 -> 8", "1 cancelled superseded", "2 set 8 counted at 50: 8"],
        ),
        row(
            "a held adjust is in no sum",
            at(50, 0),
            [held(adjust(1, -70)), adjust(2, -1)],
            Merge,
            &["write 50 -> 49", "2 adjust -1 on 50: 49"],
        ),
        row(
            "a held adjust after the count stays held",
            at(50, 0),
            [set(1, 8, (50, 0)), held(adjust(2, -70))],
            Merge,
            &["write 50 -> 8", "1 set 8 counted at 50: 8"],
        ),
        row(
            "above 32 bits",
            at(2_147_483_647, 0),
            [adjust(1, 1)],
            Merge,
            &["nothing", "1 held too_large, mine 2147483648 theirs 2147483647"],
        ),
    ]);
}

/// Covers docs/rules.md 4, 11 and 12: the conditions before a write to a stock level.
#[test]
fn what_the_service_does_not_know_is_not_written() {
    let both = || [set(1, 47, (50, 0)), adjust(2, 1)];
    let twins = vec![Sku::new("a ").unwrap(), Sku::new(" a").unwrap()];
    check(vec![
        row("not read, or too long ago", CellFact::Unread, both(), Merge, &["read"]),
        row(
            "no such SKU",
            CellFact::UnknownSku,
            both(),
            Merge,
            &["nothing", "1 rejected unknown_sku", "2 rejected unknown_sku"],
        ),
        row("a warehouse that is not listed, or not yet", CellFact::Unlisted, both(), Merge, &["nothing"]),
        row(
            "no such warehouse",
            CellFact::UnknownWarehouse,
            both(),
            Merge,
            &["nothing", "1 rejected unknown_warehouse", "2 rejected unknown_warehouse"],
        ),
        row("a kit", CellFact::Kit, both(), Local, &["nothing", "1 rejected kit", "2 rejected kit"]),
        row(
            "a kit's held wish stays",
            CellFact::Kit,
            [held(adjust(1, -70)), adjust(2, 1)],
            Local,
            &["nothing", "2 rejected kit"],
        ),
        row(
            "two folds, no spelling",
            CellFact::AmbiguousSku(twins),
            both(),
            Merge,
            &["nothing", "1 held ambiguous_sku, mine - theirs -", "2 held ambiguous_sku, mine - theirs -"],
        ),
        row(
            "not linked: a count is allowed, and what comes after it",
            CellFact::Unlinked,
            both(),
            Ask,
            &[
                "write 48",
                "1 set 47 counted at 50, not linked to the warehouse yet: 47",
                "2 adjust +1 on 47: 48",
            ],
        ),
        row(
            "not linked: an adjust alone is held",
            CellFact::Unlinked,
            [adjust(1, 1)],
            Merge,
            &["nothing", "1 held unlinked, mine - theirs -"],
        ),
        row(
            "the last write does not show: a count is allowed, and what comes after it",
            CellFact::Disputed(pair(50, 0)),
            both(),
            Merge,
            &["write 50 -> 48", "1 set 47 counted at 50: 47", "2 adjust +1 on 47: 48"],
        ),
        row(
            "the last write does not show: an adjust alone is held",
            CellFact::Disputed(pair(50, 0)),
            [adjust(1, 1)],
            Merge,
            &["nothing", "1 held mismatch, mine - theirs 50"],
        ),
        row("no wish to decide", at(50, 0), [held(adjust(1, -70))], Merge, &["nothing"]),
    ]);
}

#[test]
fn what_a_cell_becomes_is_what_its_step_writes() {
    let becomes = |fact, wishes: &[CellWish]| plan(fact, wishes, Merge, None).becomes();
    assert_eq!(becomes(at(50, 0), &[adjust(1, -3)]), Some(Quantity(47)));
    assert_eq!(becomes(at(50, 0), &[adjust(1, 0)]), Some(Quantity(50)));
    assert_eq!(becomes(at(50, 0), &[adjust(1, -70)]), None);
    assert_eq!(becomes(CellFact::Unread, &[adjust(1, -3)]), None);
}

/// Covers the details: each held, rejected or cancelled change has a subject and a reason.
#[test]
fn every_detail_is_a_sentence_with_its_numbers() {
    let cases = [
        (at(48, 0), set(1, 47, (50, 0)), Ask, "set 47 counted at 50, 2 sold since; say which holds"),
        (at(50, 0), adjust(1, -70), Merge, "A in warehouse 1 would become -20; count it again"),
        (
            CellFact::UnknownSku,
            adjust(1, 1),
            Merge,
            "the service returns no SKU `A`; correct it or create the product",
        ),
        (
            CellFact::UnknownWarehouse,
            adjust(1, 1),
            Merge,
            "the service lists no warehouse 1; see `tallyd warehouse list`",
        ),
    ];
    for (fact, wish, policy, expected) in cases {
        let plan = plan(fact, &[wish], policy, None);
        let detail = match &plan.decisions[0].outcome {
            Outcome::Settles { how } => how,
            Outcome::Held { detail, .. }
            | Outcome::Rejected { detail, .. }
            | Outcome::Cancelled { detail, .. } => detail,
        };
        assert_eq!(detail, expected);
    }
}
