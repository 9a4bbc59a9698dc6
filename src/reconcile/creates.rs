//! Creates without an idempotency key: a preflight before and checks after (docs/rules.md 14).
//!
//! A name that exists is not created again. A name that exists afterwards is the effect of the change only
//! if the preflight did not see its id. Names are compared by case key and as a whole, because the
//! platform's template filter is a *contains*.

use super::ChangePlan;
use super::in_doubt::{EffectCheck, QUIET_CREATE, Settlement, judge_absence};
use super::proof::ABSENCE_CHECKS_APART;
use crate::model::{Timestamp, case_key};
use crate::outbox::Reason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A record of the platform: a product with its SKU, a warehouse or template with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundRecord {
    pub id: i64,
    pub name: String,
    /// True if the fields equal those of the change; not compared in the preflight.
    pub equal: bool,
}

/// Decides a create from the preflight; `None` asks for the preflight.
///
/// `Send` carries the ids seen, which the claim stores.
pub(crate) fn plan_create(name: &str, there: Option<&[FoundRecord]>) -> ChangePlan<BTreeSet<i64>> {
    let Some(there) = there else { return ChangePlan::ReadFirst };
    match there.iter().find(|found| case_key(&found.name) == case_key(name)) {
        Some(FoundRecord { id, name: found, .. }) => ChangePlan::Held {
            reason: Reason::Exists,
            detail: format!("`{name}` is there already, as `{found}` with id {id}; use it or rename one"),
        },
        None => ChangePlan::Send(there.iter().map(|found| found.id).collect()),
    }
}

/// Judges a create in doubt by the checks since, oldest first. `TookEffect` carries the id.
///
/// A check shows the records in the answer, and `None` if the answer omitted others that exist.
pub(crate) fn settle_create(
    name: &str,
    seen_before: &BTreeSet<i64>,
    sent_at: Timestamp,
    checks: &[EffectCheck<Option<Vec<FoundRecord>>>],
) -> Settlement {
    let new = |found: &[FoundRecord]| -> Vec<FoundRecord> {
        let is_new = |found: &&FoundRecord| {
            case_key(&found.name) == case_key(name) && !seen_before.contains(&found.id)
        };
        found.iter().filter(is_new).cloned().collect()
    };
    let last = match checks.last() {
        None => Vec::new(),
        Some(EffectCheck { shown: Some(found), .. }) => new(found),
        Some(EffectCheck { sent_at: last, shown: None }) => {
            return Settlement::CheckAgain { not_before: last.plus(ABSENCE_CHECKS_APART) };
        }
    };
    match last.as_slice() {
        [FoundRecord { id, equal: true, .. }] => Settlement::TookEffect(Some(*id)),
        [] => {
            // An answer with omissions was faulty, so that earlier checks prove nothing.
            let shows_none =
                |shown: &Option<Vec<FoundRecord>>| shown.as_ref().is_some_and(|found| new(found).is_empty());
            judge_absence(checks, shows_none, sent_at, QUIET_CREATE, ABSENCE_CHECKS_APART)
        }
        others => {
            let ids = others.iter().map(|found| found.id.to_string()).collect::<Vec<_>>().join(", ");
            let detail = format!(
                "`{name}` appeared with id {ids}, but its fields differ from the change; check who created it"
            );
            Settlement::Undecided { reason: Reason::Undecided, detail }
        }
    }
}

/// Returns the first change of each key: an order, shipment, SKU or name. Keys that are under way are skipped.
pub(crate) fn first_per_key<T, K: Ord>(
    changes: Vec<T>,
    key: impl Fn(&T) -> K,
    mut under_way: BTreeSet<K>,
) -> Vec<T> {
    changes.into_iter().filter(|change| under_way.insert(key(change))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::in_doubt::tests::{assert_settlement, check_again_at as again, check_at};
    use super::*;

    fn found(id: i64, name: &str) -> FoundRecord {
        FoundRecord { id, name: name.into(), equal: true }
    }

    fn check(second: i64, found: &[FoundRecord]) -> EffectCheck<Option<Vec<FoundRecord>>> {
        check_at(second, Some(found.to_vec()))
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let there = [found(1, "Dock 1"), found(2, "Dock 10")];
        assert_eq!(plan_create("Dock", None), ChangePlan::ReadFirst);
        let send = ChangePlan::Send(BTreeSet::from([1, 2]));
        assert_eq!(plan_create("Dock", Some(&there)), send, "a part of a name is no name");
        for name in ["Dock 1", " dock 1 "] {
            let held = plan_create(name, Some(&there));
            assert!(matches!(held, ChangePlan::Held { reason: Reason::Exists, .. }), "{name}: {held:?}");
        }
    }

    #[test]
    fn a_create_took_effect_if_its_name_has_a_new_id() {
        let seen = BTreeSet::from([1]);
        let other = FoundRecord { equal: false, ..found(7, "Dock 2") };
        let faulty = |second: i64| check_at(second, None);
        let created = vec![check(131, &[found(7, "Dock 2")])];
        let cases = [
            ("no check", vec![], Some(again(700))),
            ("there, with a new id", created, Some(Settlement::TookEffect(Some(7)))),
            ("that id was there before", vec![check(131, &[found(1, "Dock 2")])], Some(again(700))),
            ("only a longer name", vec![check(131, &[found(7, "Dock 22")])], Some(again(700))),
            ("absent, once after ten minutes", vec![check(131, &[]), check(700, &[])], Some(again(820))),
            ("absent twice within seconds", vec![check(700, &[]), check(705, &[])], Some(again(820))),
            ("absent twice", vec![check(700, &[]), check(820, &[])], Some(Settlement::HadNoEffect)),
            ("others are left out", vec![check(700, &[]), faulty(820)], Some(again(940))),
            ("others were left out", vec![check(700, &[]), faulty(760), check(820, &[])], Some(again(940))),
            ("other fields: a person decides", vec![check(131, &[other])], None),
            ("two of them", vec![check(131, &[found(7, "Dock 2"), found(8, "dock 2")])], None),
        ];
        for (name, checks, expected) in cases {
            assert_settlement(name, settle_create("Dock 2", &seen, Timestamp(100_000), &checks), expected);
        }
    }

    #[test]
    fn one_change_of_an_ordering_key_at_a_time() {
        assert_eq!(first_per_key(vec![5, 6, 5, 7, 6], |key| *key, BTreeSet::from([7])), [5, 6]);
    }
}
