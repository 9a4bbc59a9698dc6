//! Full product updates in doubt: the fields that a check shows, and their proof.
//!
//! No operation shows all of a product. A check is compared with the fields before the send and with the
//! fields sent. An update is never sent a second time over another client's change.

use super::in_doubt::{Settlement, absent};
use super::read_admission::LOOKS_APART;
use crate::model::Timestamp;
use crate::outbox::Reason;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

/// Fields of a product that a check shows, by name.
///
/// Empty fields are omitted, so that null, blank and absent agree.
pub type Shown = BTreeMap<String, String>;

/// Name of the SKU among the fields.
pub const SKU: &str = "SKU";
/// Name of the UPC among the fields.
pub const UPC: &str = "UPC";

/// Returns the name of a link's own SKU among the fields.
pub fn sku_in(warehouse: impl Display) -> String {
    format!("SKU in warehouse {warehouse}")
}

/// Returns the name of a link's activity among the fields.
pub fn is_active_in(warehouse: impl Display) -> String {
    format!("IsActive in warehouse {warehouse}")
}

/// An update in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateInDoubt {
    /// SKU of the update, for the messages.
    pub sku: String,
    /// Fields that a check showed just before the send.
    pub before: Shown,
    /// The same fields in the update, without the fields that the update does not name.
    pub ours: BTreeMap<String, Option<String>>,
    /// Time of the request.
    pub sent_at: Timestamp,
    /// Time after the send for which the platform may still execute the update.
    pub quiet: Duration,
}

/// A check after the send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Time of the request.
    pub sent_at: Timestamp,
    /// Fields of the check; `None` if it did not show the product.
    pub shown: Option<Shown>,
}

impl UpdateInDoubt {
    /// Returns true if a check can prove the update: the update changes a field that checks show.
    pub fn shows(&self) -> bool {
        self.changes().next().is_some()
    }

    fn changes(&self) -> impl Iterator<Item = (&String, &Option<String>)> {
        self.ours.iter().filter(|(name, value)| self.before.get(*name) != value.as_ref())
    }

    fn is_done(&self, shown: &Shown) -> bool {
        self.changes().all(|(name, value)| shown.get(name) == value.as_ref())
    }
}

/// Judges an update by the checks since, oldest first.
///
/// `NotLanded` needs last checks that show the product exactly as before the send.
pub fn settle(update: &UpdateInDoubt, looks: &[Look], now: Timestamp) -> Settlement<()> {
    let quiet_until = update.sent_at.plus(update.quiet);
    let undecided = |detail| Settlement::Undecided {
        reason: Reason::Undecided,
        detail: format!("{}: {detail}", update.sku),
    };
    if !update.shows() {
        if now < quiet_until {
            return Settlement::LookAgain { not_before: quiet_until };
        }
        let detail = "the answer was lost, and no look shows what the update changes (name, texts, flags); compare the \
                      product there with the update";
        return undecided(detail.to_owned());
    }
    let Some(last) = looks.last() else { return Settlement::LookAgain { not_before: update.sent_at } };
    if last.shown.as_ref().is_some_and(|shown| update.is_done(shown)) {
        return Settlement::Landed(());
    }
    let same = looks.iter().rev().take_while(|look| look.shown == last.shown);
    let mut same_at: Vec<Timestamp> = same.map(|look| look.sent_at).collect();
    same_at.reverse();
    match (absent(&same_at, update.sent_at, update.quiet, LOOKS_APART), &last.shown) {
        (Settlement::NotLanded, Some(shown)) if *shown == update.before => Settlement::NotLanded,
        (Settlement::NotLanded, Some(shown)) => undecided(difference(update, shown)),
        (Settlement::NotLanded, None) => undecided(
            "the answer was lost, and the product is not shown any more (renamed, or taken out?)".into(),
        ),
        (other, _) => other,
    }
}

/// Returns the fields that changed since the send, with the values before, in the update and now.
fn difference(update: &UpdateInDoubt, shown: &Shown) -> String {
    let told =
        |value: Option<&String>| value.map_or_else(|| "nothing".to_owned(), |value| format!("`{value}`"));
    let names = update.before.keys().chain(update.ours.keys()).chain(shown.keys());
    let names: BTreeSet<&String> = names.collect();
    let differs = names.into_iter().filter(|name| shown.get(*name) != update.before.get(*name));
    let numbers = differs.map(|name| {
        let ours = update.ours.get(name).map_or_else(|| "not named".to_owned(), |ours| told(ours.as_ref()));
        format!(
            "{name} was {}, the update says {ours}, it is {}",
            told(update.before.get(name)),
            told(shown.get(name))
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
pub fn named(body: &Map<String, Value>, before: &Shown) -> BTreeMap<String, Option<String>> {
    let mut named = BTreeMap::new();
    let mut take = |name: String, value: Option<&Value>| {
        let is_shown = [SKU, UPC].contains(&name.as_str()) || before.contains_key(&name);
        if let Some(value) = value.filter(|value| is_shown && !value.is_null()) {
            named.insert(name, text(value));
        }
    };
    take(SKU.into(), body.get("Sku"));
    take(UPC.into(), body.get("Identifiers").and_then(|ids| ids.get("UPC")));
    let links = body.get("Warehouses").and_then(Value::as_array);
    for link in links.into_iter().flatten() {
        let Some(warehouse) = link.get("WarehouseId").and_then(Value::as_f64) else { continue };
        take(sku_in(warehouse), link.get("SKU"));
        take(is_active_in(warehouse), link.get("IsActive"));
    }
    named
}

/// Returns the value in its form for comparison; `None` for an empty value.
fn text(value: &Value) -> Option<String> {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(upc: &str) -> Option<Shown> {
        Some(BTreeMap::from([("SKU".to_owned(), "A".to_owned()), ("UPC".to_owned(), upc.to_owned())]))
    }

    fn update(upc: &str) -> UpdateInDoubt {
        let ours = json!({"Sku": "A", "Identifiers": {"UPC": upc}});
        UpdateInDoubt {
            sku: "A".into(),
            before: shown("1").unwrap(),
            ours: named(ours.as_object().unwrap(), &BTreeMap::new()),
            sent_at: Timestamp(100_000),
            quiet: Duration::from_secs(10),
        }
    }

    #[test]
    fn an_update_is_sent_again_only_where_the_product_reads_exactly_as_before() {
        let again = |second: i64| Some(Settlement::LookAgain { not_before: Timestamp(second * 1000) });
        let cases = [
            ("no look", vec![], again(100)),
            ("ours shows at once", vec![(101, shown("2"))], Some(Settlement::Landed(()))),
            ("as before, within the quiet time", vec![(101, shown("1"))], again(110)),
            ("as before, once after it", vec![(110, shown("1"))], again(115)),
            ("as before, twice", vec![(110, shown("1")), (115, shown("1"))], Some(Settlement::NotLanded)),
            (
                "as before, then ours",
                vec![(110, shown("1")), (115, shown("2"))],
                Some(Settlement::Landed(())),
            ),
            ("another's, twice", vec![(110, shown("3")), (115, shown("3"))], None),
            ("another's, then as before", vec![(110, shown("3")), (115, shown("1"))], again(120)),
            ("not shown, once", vec![(110, None)], again(115)),
            ("not shown, twice", vec![(110, None), (115, None)], None),
        ];
        for (name, looks, expected) in cases {
            let looks: Vec<Look> = looks
                .into_iter()
                .map(|(second, shown)| Look { sent_at: Timestamp(second * 1000), shown })
                .collect();
            match (settle(&update("2"), &looks, Timestamp(200_000)), expected) {
                (Settlement::Undecided { .. }, None) => {}
                (settlement, Some(expected)) => assert_eq!(settlement, expected, "{name}"),
                (settlement, None) => panic!("{name}: {settlement:?}"),
            }
        }
    }

    #[test]
    fn an_update_of_what_no_look_shows_is_for_a_person_after_the_quiet_time() {
        let invisible = update("1");
        assert!(!invisible.shows());
        let early = settle(&invisible, &[], Timestamp(109_999));
        assert_eq!(early, Settlement::LookAgain { not_before: Timestamp(110_000) });
        let late = settle(&invisible, &[], Timestamp(110_000));
        assert!(matches!(late, Settlement::Undecided { reason: Reason::Undecided, .. }), "{late:?}");
    }

    #[test]
    fn a_field_that_the_update_empties_is_compared_and_one_it_leaves_out_is_not() {
        let body = json!({"Sku": " A ", "Identifiers": {"UPC": ""}, "Warehouses": [
            {"WarehouseId": 7, "IsActive": false, "SKU": "B"}, {"WarehouseId": 8, "SKU": null}, {"Aisle": "x"}]});
        let before = BTreeMap::from([(is_active_in(7), "true".to_owned()), (sku_in(8), "C".to_owned())]);
        let named = named(body.as_object().unwrap(), &before);
        let expected = [("IsActive in warehouse 7", Some("false")), ("SKU", Some("A")), ("UPC", None)];
        let found: Vec<_> = named.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(found, expected);
    }
}
