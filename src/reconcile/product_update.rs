//! Full product updates in doubt: the fields that a check shows, and their proof.
//!
//! No operation shows all of a product. A check is compared with the fields before the send and with the
//! fields sent. An update is never sent a second time over another client's change.

use super::in_doubt::{Settlement, judge_absence};
use super::read_admission::READS_APART;
use crate::model::Timestamp;
use crate::outbox::Reason;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

/// Fields of a product that a check shows, by name.
///
/// Empty fields are omitted, so that null, blank and absent agree.
pub type ShownFields = BTreeMap<String, String>;

/// Name of the SKU among the fields.
pub const SKU_FIELD: &str = "SKU";
/// Name of the UPC among the fields.
pub const UPC_FIELD: &str = "UPC";

/// Returns the name of a link's own SKU among the fields.
pub fn link_sku_field(warehouse: impl Display) -> String {
    format!("SKU in warehouse {warehouse}")
}

/// Returns the name of a link's activity among the fields.
pub fn link_active_field(warehouse: impl Display) -> String {
    format!("IsActive in warehouse {warehouse}")
}

/// An update in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateInDoubt {
    /// SKU of the update, for the messages.
    pub sku: String,
    /// Fields that a check showed just before the send.
    pub before: ShownFields,
    /// The same fields in the update, without the fields that the update does not name.
    pub requested: BTreeMap<String, Option<String>>,
    /// Time of the request.
    pub sent_at: Timestamp,
    /// Time after the send for which the platform may still execute the update.
    pub quiet: Duration,
}

/// A check after the send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateCheck {
    /// Time of the request.
    pub sent_at: Timestamp,
    /// Fields of the check; `None` if it did not show the product.
    pub shown: Option<ShownFields>,
}

impl UpdateInDoubt {
    /// Returns true if a check can prove the update: the update changes a field that checks show.
    pub fn is_provable(&self) -> bool {
        self.changed_fields().next().is_some()
    }

    fn changed_fields(&self) -> impl Iterator<Item = (&String, &Option<String>)> {
        self.requested.iter().filter(|(name, value)| self.before.get(*name) != value.as_ref())
    }

    fn has_taken_effect(&self, shown: &ShownFields) -> bool {
        self.changed_fields().all(|(name, value)| shown.get(name) == value.as_ref())
    }
}

/// Judges an update by the checks since, oldest first.
///
/// `HadNoEffect` needs last checks that show the product exactly as before the send.
pub fn settle_update(update: &UpdateInDoubt, checks: &[UpdateCheck], now: Timestamp) -> Settlement<()> {
    let quiet_until = update.sent_at.plus(update.quiet);
    let undecided = |detail| Settlement::Undecided {
        reason: Reason::Undecided,
        detail: format!("{}: {detail}", update.sku),
    };
    if !update.is_provable() {
        if now < quiet_until {
            return Settlement::CheckAgain { not_before: quiet_until };
        }
        let detail = "the answer was lost, and no check shows the fields that the update changes (name, texts, flags); \
                      compare the product there with the update";
        return undecided(detail.to_owned());
    }
    let Some(last) = checks.last() else { return Settlement::CheckAgain { not_before: update.sent_at } };
    if last.shown.as_ref().is_some_and(|shown| update.has_taken_effect(shown)) {
        return Settlement::TookEffect(());
    }
    let same = checks.iter().rev().take_while(|check| check.shown == last.shown);
    let same_at = same.map(|check| check.sent_at);
    match (judge_absence(same_at, update.sent_at, update.quiet, READS_APART), &last.shown) {
        (Settlement::HadNoEffect, Some(shown)) if *shown == update.before => Settlement::HadNoEffect,
        (Settlement::HadNoEffect, Some(shown)) => undecided(describe_difference(update, shown)),
        (Settlement::HadNoEffect, None) => undecided(
            "the answer was lost, and the platform no longer shows the product (renamed or removed?)".into(),
        ),
        (other, _) => other,
    }
}

/// Returns the fields that changed since the send, with the values before, in the update and now.
fn describe_difference(update: &UpdateInDoubt, shown: &ShownFields) -> String {
    let answer =
        |value: Option<&String>| value.map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"));
    let names = update.before.keys().chain(update.requested.keys()).chain(shown.keys());
    let names: BTreeSet<&String> = names.collect();
    let differs = names.into_iter().filter(|name| shown.get(*name) != update.before.get(*name));
    let numbers = differs.map(|name| {
        let requested = update.requested.get(name);
        let requested = requested.map_or_else(|| "not named".to_owned(), |value| answer(value.as_ref()));
        format!(
            "{name} was {}, the update has {requested}, it is now {}",
            answer(update.before.get(name)),
            answer(shown.get(name))
        )
    });
    format!(
        "the answer was lost, and others changed the product meanwhile: {}; compare the product there with the update",
        numbers.collect::<Vec<_>>().join("; ")
    )
}

/// Returns the fields of an update's body that a check shows.
///
/// `before` are the fields of the check before the send. A link's field that `before` lacks is omitted,
/// because a later check would not show it either.
pub fn checkable_fields(body: &Map<String, Value>, before: &ShownFields) -> BTreeMap<String, Option<String>> {
    let mut named = BTreeMap::new();
    let mut take = |name: String, value: Option<&Value>| {
        let is_shown = [SKU_FIELD, UPC_FIELD].contains(&name.as_str()) || before.contains_key(&name);
        if let Some(value) = value.filter(|value| is_shown && !value.is_null()) {
            named.insert(name, comparable_text(value));
        }
    };
    take(SKU_FIELD.into(), body.get("Sku"));
    take(UPC_FIELD.into(), body.get("Identifiers").and_then(|ids| ids.get("UPC")));
    let links = body.get("Warehouses").and_then(Value::as_array);
    for link in links.into_iter().flatten() {
        let Some(warehouse) = link.get("WarehouseId").and_then(Value::as_f64) else { continue };
        take(link_sku_field(warehouse), link.get("SKU"));
        take(link_active_field(warehouse), link.get("IsActive"));
    }
    named
}

/// Returns the value in its form for comparison; `None` for an empty value.
fn comparable_text(value: &Value) -> Option<String> {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown_fields(upc: &str) -> Option<ShownFields> {
        Some(BTreeMap::from([("SKU".to_owned(), "A".to_owned()), ("UPC".to_owned(), upc.to_owned())]))
    }

    fn update(upc: &str) -> UpdateInDoubt {
        let body = json!({"Sku": "A", "Identifiers": {"UPC": upc}});
        UpdateInDoubt {
            sku: "A".into(),
            before: shown_fields("1").unwrap(),
            requested: checkable_fields(body.as_object().unwrap(), &BTreeMap::new()),
            sent_at: Timestamp(100_000),
            quiet: Duration::from_secs(10),
        }
    }

    #[test]
    fn an_update_is_sent_again_only_where_the_product_reads_exactly_as_before() {
        let again = |second: i64| Some(Settlement::CheckAgain { not_before: Timestamp(second * 1000) });
        let cases = [
            ("no look", vec![], again(100)),
            ("ours shows at once", vec![(101, shown_fields("2"))], Some(Settlement::TookEffect(()))),
            ("as before, within the quiet time", vec![(101, shown_fields("1"))], again(110)),
            ("as before, once after it", vec![(110, shown_fields("1"))], again(115)),
            (
                "as before, twice",
                vec![(110, shown_fields("1")), (115, shown_fields("1"))],
                Some(Settlement::HadNoEffect),
            ),
            (
                "as before, then ours",
                vec![(110, shown_fields("1")), (115, shown_fields("2"))],
                Some(Settlement::TookEffect(())),
            ),
            ("another's, twice", vec![(110, shown_fields("3")), (115, shown_fields("3"))], None),
            (
                "another's, then as before",
                vec![(110, shown_fields("3")), (115, shown_fields("1"))],
                again(120),
            ),
            ("not shown, once", vec![(110, None)], again(115)),
            ("not shown, twice", vec![(110, None), (115, None)], None),
        ];
        for (name, checks, expected) in cases {
            let checks: Vec<UpdateCheck> = checks
                .into_iter()
                .map(|(second, shown)| UpdateCheck { sent_at: Timestamp(second * 1000), shown })
                .collect();
            match (settle_update(&update("2"), &checks, Timestamp(200_000)), expected) {
                (Settlement::Undecided { .. }, None) => {}
                (settlement, Some(expected)) => assert_eq!(settlement, expected, "{name}"),
                (settlement, None) => panic!("{name}: {settlement:?}"),
            }
        }
    }

    #[test]
    fn an_update_of_fields_that_no_check_shows_needs_a_decision_after_the_quiet_time() {
        let invisible = update("1");
        assert!(!invisible.is_provable());
        let early = settle_update(&invisible, &[], Timestamp(109_999));
        assert_eq!(early, Settlement::CheckAgain { not_before: Timestamp(110_000) });
        let late = settle_update(&invisible, &[], Timestamp(110_000));
        assert!(matches!(late, Settlement::Undecided { reason: Reason::Undecided, .. }), "{late:?}");
    }

    #[test]
    fn a_field_that_the_update_empties_is_compared_and_one_it_leaves_out_is_not() {
        let body = json!({"Sku": " A ", "Identifiers": {"UPC": ""}, "Warehouses": [
            {"WarehouseId": 7, "IsActive": false, "SKU": "B"}, {"WarehouseId": 8, "SKU": null}, {"Aisle": "x"}]});
        let before =
            BTreeMap::from([(link_active_field(7), "true".to_owned()), (link_sku_field(8), "C".to_owned())]);
        let named = checkable_fields(body.as_object().unwrap(), &before);
        let expected = [("IsActive in warehouse 7", Some("false")), ("SKU", Some("A")), ("UPC", None)];
        let found: Vec<_> = named.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(found, expected);
    }
}
