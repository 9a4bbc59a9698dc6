//! Full product updates in doubt: the fields that a check shows, and their proof.
//!
//! No operation shows all of a product. A check is compared with the fields before the send and with the
//! fields sent. An update is never sent a second time over another client's change.

use super::in_doubt::{EffectCheck, Settlement, judge_absence};
use super::read_admission::READS_APART;
use crate::model::Timestamp;
use crate::outbox::Reason;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

/// Fields of a product that a check shows, by name.
///
/// Empty fields are omitted, so that null, blank and absent agree.
pub(crate) type ShownFields = BTreeMap<String, String>;

/// Name of the SKU among the fields.
pub(crate) const SKU_FIELD: &str = "SKU";
/// Name of the UPC among the fields.
pub(crate) const UPC_FIELD: &str = "UPC";

/// Returns the name of a link's own SKU among the fields.
pub(crate) fn link_sku_field(warehouse: impl Display) -> String {
    format!("SKU in warehouse {warehouse}")
}

/// Returns the name of a link's activity among the fields.
pub(crate) fn link_active_field(warehouse: impl Display) -> String {
    format!("IsActive in warehouse {warehouse}")
}

/// Stored evidence of an update, as far as a check can show it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UpdateClaim {
    /// SKU of the product at the platform before the update.
    pub sku: String,
    pub product_id: i64,
    /// Fields that a check showed just before the send.
    pub before: ShownFields,
    /// The same fields in the update, without the fields that the update does not name.
    #[serde(rename = "ours")]
    pub requested: BTreeMap<String, Option<String>>,
}

impl UpdateClaim {
    /// Returns the SKUs that the product may have by now. Empty if no check can prove the update, because it
    /// changes no field that checks show.
    pub(crate) fn possible_skus(&self) -> BTreeSet<&str> {
        if self.changed_fields().next().is_none() {
            return BTreeSet::new();
        }
        let new = self.requested.get(SKU_FIELD).and_then(Option::as_deref);
        new.into_iter().chain([self.sku.as_str()]).collect()
    }

    fn changed_fields(&self) -> impl Iterator<Item = (&String, &Option<String>)> {
        self.requested.iter().filter(|(name, value)| self.before.get(*name) != value.as_ref())
    }
}

/// Judges an update by the checks since, oldest first.
///
/// A check shows the fields, and `None` if the product did not come. `HadNoEffect` needs last checks that show
/// the product exactly as before the send. The platform may execute the update until `quiet` after the send.
pub(crate) fn settle_update(
    update: &UpdateClaim,
    (sent_at, quiet): (Timestamp, Duration),
    checks: &[EffectCheck<Option<ShownFields>>],
    now: Timestamp,
) -> Settlement {
    let quiet_until = sent_at.plus(quiet);
    let undecided = |detail| Settlement::Undecided {
        reason: Reason::Undecided,
        detail: format!("{}: {detail}", update.sku),
    };
    if update.possible_skus().is_empty() {
        if now < quiet_until {
            return Settlement::CheckAgain { not_before: quiet_until };
        }
        let detail = "the answer was lost, and no check shows the fields that the update changes (name, texts, flags); \
                      compare the product there with the update";
        return undecided(detail.to_owned());
    }
    let Some(last) = checks.last() else { return Settlement::CheckAgain { not_before: sent_at } };
    let shows_all =
        |shown: &ShownFields| update.changed_fields().all(|(name, value)| shown.get(name) == value.as_ref());
    if last.shown.as_ref().is_some_and(shows_all) {
        return Settlement::TookEffect(None);
    }
    let is_same = |shown: &Option<ShownFields>| *shown == last.shown;
    match (judge_absence(checks, is_same, sent_at, quiet, READS_APART), &last.shown) {
        (Settlement::HadNoEffect, Some(shown)) if *shown == update.before => Settlement::HadNoEffect,
        (Settlement::HadNoEffect, Some(shown)) => undecided(describe_difference(update, shown)),
        (Settlement::HadNoEffect, None) => undecided(
            "the answer was lost, and the platform no longer shows the product (renamed or removed?)".into(),
        ),
        (other, _) => other,
    }
}

/// Returns the fields that changed since the send, with the values before and now.
fn describe_difference(update: &UpdateClaim, shown: &ShownFields) -> String {
    let names: BTreeSet<&String> = update.before.keys().chain(shown.keys()).collect();
    let differs = names.into_iter().filter(|name| shown.get(*name) != update.before.get(*name));
    let [before, now] =
        [&update.before, shown].map(|fields| move |name| fields.get(name).map_or("nothing", String::as_str));
    let fields: Vec<String> =
        differs.map(|name| format!("{name} was {} and is {}", before(name), now(name))).collect();
    format!(
        "the answer was lost, and others changed the product meanwhile: {}; compare the product there with the update",
        fields.join("; ")
    )
}

/// Returns the fields of an update's body that a check shows.
///
/// `before` are the fields of the check before the send. A link's field that `before` lacks is omitted,
/// because a later check would not show it either.
pub(crate) fn checkable_fields(
    body: &Map<String, Value>,
    before: &ShownFields,
) -> BTreeMap<String, Option<String>> {
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
    use super::super::in_doubt::tests::{assert_settlement, check_again_at as again, check_at};
    use super::*;
    use serde_json::json;

    fn shown_fields(upc: &str) -> Option<ShownFields> {
        Some(BTreeMap::from([("SKU".to_owned(), "A".to_owned()), ("UPC".to_owned(), upc.to_owned())]))
    }

    const SENT: (Timestamp, Duration) = (Timestamp(100_000), Duration::from_secs(10));

    fn update(upc: &str) -> UpdateClaim {
        let body = json!({"Sku": "A", "Identifiers": {"UPC": upc}});
        UpdateClaim {
            sku: "A".into(),
            product_id: 1,
            before: shown_fields("1").unwrap(),
            requested: checkable_fields(body.as_object().unwrap(), &BTreeMap::new()),
        }
    }

    #[test]
    fn an_update_is_sent_again_only_where_the_product_reads_exactly_as_before() {
        let check = |second, upc| check_at(second, shown_fields(upc));
        let absent = |second| check_at(second, None);
        let (took_effect, had_none) = (Some(Settlement::TookEffect(None)), Some(Settlement::HadNoEffect));
        let cases = [
            ("no check", vec![], Some(again(100))),
            ("the update's at once", vec![check(101, "2")], took_effect.clone()),
            ("as before, within the quiet time", vec![check(101, "1")], Some(again(110))),
            ("as before, once after it", vec![check(110, "1")], Some(again(115))),
            ("as before, twice", vec![check(110, "1"), check(115, "1")], had_none),
            ("as before, then the update's", vec![check(110, "1"), check(115, "2")], took_effect),
            ("another's, twice", vec![check(110, "3"), check(115, "3")], None),
            ("another's, then as before", vec![check(110, "3"), check(115, "1")], Some(again(120))),
            ("not shown, once", vec![absent(110)], Some(again(115))),
            ("not shown, twice", vec![absent(110), absent(115)], None),
        ];
        for (name, checks, expected) in cases {
            assert_settlement(name, settle_update(&update("2"), SENT, &checks, Timestamp(200_000)), expected);
        }
    }

    #[test]
    fn an_update_of_fields_that_no_check_shows_needs_a_decision_after_the_quiet_time() {
        let invisible = update("1");
        assert!(invisible.possible_skus().is_empty());
        let early = settle_update(&invisible, SENT, &[], Timestamp(109_999));
        assert_eq!(early, again(110));
        let late = settle_update(&invisible, SENT, &[], Timestamp(110_000));
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
