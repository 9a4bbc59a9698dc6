//! Tests of checks after a write without an answer.

use super::*;

/// A write from 50 to 47, sent at second 100 with a time-out of 30 s.
///
/// It is quiet until second 160.
const WRITE: WriteInDoubt = WriteInDoubt {
    before: Some(Quantity(50)),
    target: Quantity(47),
    sent_at: Timestamp(100_000),
    quiet: Duration::from_secs(60),
};

pub(in crate::reconcile) fn check_at<S>(second: i64, shown: S) -> EffectCheck<S> {
    EffectCheck { sent_at: Timestamp(second * 1000), shown }
}

pub(in crate::reconcile) fn check_again_at(second: i64) -> Settlement {
    Settlement::CheckAgain { not_before: Timestamp(second * 1000) }
}

/// Compares a settlement with the expected one; `None` expects that a person must decide.
pub(in crate::reconcile) fn assert_settlement(
    name: &str,
    settlement: Settlement,
    expected: Option<Settlement>,
) {
    match (settlement, expected) {
        (Settlement::Undecided { .. }, None) => {}
        (settlement, Some(expected)) => assert_eq!(settlement, expected, "{name}"),
        (settlement, None) => panic!("{name}: {settlement:?}"),
    }
}

fn checks(checks: &[(i64, i64)]) -> Vec<EffectCheck<CheckResult>> {
    let returned = |units| CheckResult::Returned(Some(Quantity(units)));
    checks.iter().map(|(second, units)| check_at(*second, returned(*units))).collect()
}

/// Returns `count` entries that show their target, and another entry that shows `last`.
fn siblings(count: usize, last: Option<i64>) -> Vec<SiblingEntry> {
    let sibling =
        |now| SiblingEntry { before: Some(Quantity(5)), target: Quantity(4), now: Some(Quantity(now)) };
    (0..count).map(|_| sibling(4)).chain(last.map(sibling)).collect()
}

#[test]
fn an_effect_is_seen_at_once_and_no_effect_takes_two_checks_after_the_quiet_time() {
    let cases = [
        ("no check yet", vec![], check_again_at(100)),
        ("the target is read a second after the time-out", vec![(131, 47)], Settlement::TookEffect(None)),
        ("not there yet: it may still be carried out", vec![(131, 50)], check_again_at(160)),
        ("and it was", vec![(131, 50), (160, 47)], Settlement::TookEffect(None)),
        ("one check after the quiet time", vec![(131, 50), (160, 50)], check_again_at(165)),
        ("two, too close", vec![(160, 50), (164, 50)], check_again_at(165)),
        ("two", vec![(160, 50), (165, 50)], Settlement::HadNoEffect),
        ("two before the quiet time prove nothing", vec![(131, 50), (140, 50)], check_again_at(160)),
        ("took effect, then one sold", vec![(131, 47), (161, 46)], Settlement::TookEffect(None)),
    ];
    for (name, seen, expected) in cases {
        assert_eq!(settle_write(&WRITE, &checks(&seen), &[]), expected, "{name}");
    }
}

#[test]
fn a_stock_level_that_shows_neither_value_is_judged_by_the_other_entries_of_its_call() {
    let late = checks(&[(161, 45)]);
    let silent = [SiblingEntry { before: Some(Quantity(4)), target: Quantity(4), now: Some(Quantity(4)) }; 5];
    let unseen = [&siblings(3, None)[..], &[SiblingEntry { now: None, ..siblings(1, None)[0] }]].concat();
    let cases = [
        ("three took effect", siblings(3, None), true),
        ("two are too few", siblings(2, None), false),
        ("one of four did not", siblings(3, Some(5)), false),
        ("one of four was not checked", unseen, false),
        ("entries that changed nothing prove nothing", silent.to_vec(), false),
    ];
    for (name, siblings, took_effect) in cases {
        let settlement = settle_write(&WRITE, &late, &siblings);
        assert_eq!(settlement == Settlement::TookEffect(None), took_effect, "{name}: {settlement:?}");
    }
}

#[test]
fn a_stock_level_that_shows_neither_value_is_held_with_its_numbers_after_the_quiet_time() {
    assert_eq!(settle_write(&WRITE, &checks(&[(131, 45)]), &[]), check_again_at(160));
    let Settlement::Undecided { reason, detail } = settle_write(&WRITE, &checks(&[(160, 45)]), &[]) else {
        panic!("decided")
    };
    assert_eq!(reason, Reason::Undecided);
    assert!(detail.contains("50 was to become 47 and is 45"), "{detail}");
}

#[test]
fn a_stock_level_that_answers_omit_is_checked_twice_minutes_apart_and_then_needs_a_decision() {
    for shown in [CheckResult::NotReturned, CheckResult::Returned(None)] {
        let absent = |second: i64| check_at(second, shown);
        let judged = |checks: &[EffectCheck<CheckResult>]| settle_write(&WRITE, checks, &[]);
        assert_eq!(judged(&[absent(120)]), check_again_at(160), "not before the quiet time is over");
        assert_eq!(judged(&[absent(120), absent(160)]), check_again_at(280), "one answer may omit it");
        assert_eq!(judged(&[absent(160), absent(165)]), check_again_at(280), "so may two of a sick platform");
        let shows = checks(&[(200, 47)])[0];
        let Settlement::Undecided { reason, detail } = judged(&[absent(160), absent(280)]) else { panic!() };
        assert_eq!(reason, Reason::Undecided);
        assert!(detail.contains("no longer shows this stock level"), "{detail}");
        let shown_between = judged(&[absent(160), shows, absent(280)]);
        assert_eq!(shown_between, Settlement::TookEffect(None), "a check between shows the target");
        let confirmed = settle_write(&WRITE, &[absent(160)], &siblings(3, None));
        assert_eq!(confirmed, Settlement::TookEffect(None), "the other entries of its call confirm it");
    }
}

#[test]
fn a_new_link_shows_that_its_write_took_effect() {
    let write = WriteInDoubt { before: None, ..WRITE };
    let still_none = |second: i64| check_at(second, CheckResult::Returned(None));
    assert_eq!(settle_write(&write, &checks(&[(131, 47)]), &[]), Settlement::TookEffect(None));
    assert_eq!(settle_write(&write, &[still_none(160), still_none(170)], &[]), Settlement::HadNoEffect);
}

#[test]
fn quantities_are_quiet_for_two_time_outs_and_never_under_five_seconds() {
    assert_eq!(quiet_quantity(Duration::from_secs(30)), Duration::from_secs(60));
    assert_eq!(quiet_quantity(Duration::from_millis(100)), Duration::from_secs(5));
}
