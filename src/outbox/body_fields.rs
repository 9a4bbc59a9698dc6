//! Checks the fields of a JSON object and reports the first invalid field.
//!
//! The checks are hand-written, because serde's derived messages name Rust types and byte columns.
//! Programmers of other systems need the field, its value and the expected value. A `null` field counts as
//! absent, because many programs write optional fields as `null`.

use super::{ChangeRejection, Reason};
use crate::model::{Quantity, Sku, Timestamp, WarehouseId, json_integer, name_hint, shorten_text};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Largest id, also of the outbox's trigger: above 2^53 (9.007e15) a JSON number is not exact.
const ID_MAX: i64 = 9_000_000_000_000_000;

/// Accepted quantities: 32 bits as at the platform, and not negative.
pub(super) const QUANTITY_RANGE: RangeInclusive<i64> = 0..=Quantity::MAX.0;

/// An object of a body, with its path within the body.
pub(super) struct BodyFields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> BodyFields<'a> {
    pub(super) fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, path: String::new() }
    }

    /// Returns the value of the field, unless the field is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns the error for the value of `name`, where `what` describes valid values.
    pub(super) fn invalid_value(&self, name: &str, what: impl std::fmt::Display) -> ChangeRejection {
        let value = self.map.get(name).map_or_else(|| "missing".into(), shorten_json);
        bad_body(format!("`{}{name}` is {value}; it must be {what}", self.path))
    }

    /// Returns `found`, or the error for an absent field.
    pub(super) fn require_value<T>(&self, name: &str, found: Option<T>) -> Result<T, ChangeRejection> {
        let missing = || bad_body(format!("`{}{name}` is missing; add it", self.path));
        found.ok_or_else(|| self.miscased_field(name).unwrap_or_else(missing))
    }

    /// Rejects fields that are not `known`, so that a misspelled field is not lost.
    pub(super) fn reject_unknown(&self, known: &[&str]) -> Result<(), ChangeRejection> {
        let Some(unknown) = self.map.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let hint = name_hint(unknown, known);
        Err(bad_body(format!("there is no field `{}{unknown}`; {hint}", self.path)))
    }

    /// Rejects a `known` field in another case, because the platform would ignore that field.
    pub(super) fn reject_miscased(&self, known: &[&str]) -> Result<(), ChangeRejection> {
        known.iter().find_map(|name| self.miscased_field(name)).map_or(Ok(()), Err)
    }

    fn miscased_field(&self, name: &str) -> Option<ChangeRejection> {
        let miscased = self.map.keys().find(|key| *key != name && key.eq_ignore_ascii_case(name))?;
        Some(bad_body(format!("`{}{miscased}` must be spelled `{name}`", self.path)))
    }

    /// Returns the value in the form that `parse` accepts, where `what` describes valid values.
    fn optional_value<T>(
        &self,
        name: &str,
        what: impl std::fmt::Display,
        parse: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ChangeRejection> {
        let parsed = |value| parse(value).ok_or_else(|| self.invalid_value(name, what));
        self.get(name).map(parsed).transpose()
    }

    /// Returns an integer within the range, also if it is written as `28.0`.
    pub(super) fn optional_integer(
        &self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ChangeRejection> {
        let what = format_args!("a whole number from {} to {}", range.start(), range.end());
        self.optional_value(name, what, |value| integer_within(value, &range))
    }

    /// Returns a platform id: an integer above zero.
    pub(super) fn optional_id(&self, name: &str) -> Result<Option<i64>, ChangeRejection> {
        let what = "an id: a whole number above 0";
        self.optional_value(name, what, |value| integer_within(value, &(1..=ID_MAX)))
    }

    /// Returns a platform id that must be present.
    pub(super) fn required_id(&self, name: &str) -> Result<i64, ChangeRejection> {
        self.require_value(name, self.optional_id(name)?)
    }

    /// Returns a text that is not blank.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, ChangeRejection> {
        let is_text = |text: &&str| !text.trim().is_empty();
        self.optional_value(name, "a text that is not blank", |value| value.as_str().filter(is_text))
    }

    /// Returns a text that must be present and not blank.
    pub(super) fn required_text(&self, name: &str) -> Result<&'a str, ChangeRejection> {
        self.require_value(name, self.optional_text(name)?)
    }

    /// Checks for a text of at most `max` characters. The text may be empty.
    pub(super) fn check_text_length(&self, name: &str, max: usize) -> Result<(), ChangeRejection> {
        let fits = |value: &Value| value.as_str().filter(|text| text.chars().count() <= max).map(drop);
        self.optional_value(name, format_args!("a text of at most {max} characters"), fits).map(drop)
    }

    /// Checks that each named field is a text. The texts may be empty.
    pub(super) fn check_texts(&self, names: &[&str]) -> Result<(), ChangeRejection> {
        names.iter().try_for_each(|name| self.optional_value(name, "a text", Value::as_str).map(drop))
    }

    /// Checks for a number, integer or not.
    pub(super) fn check_number(&self, name: &str) -> Result<(), ChangeRejection> {
        self.optional_value(name, "a number", Value::as_number).map(drop)
    }

    pub(super) fn optional_flag(&self, name: &str) -> Result<Option<bool>, ChangeRejection> {
        self.optional_value(name, "true or false", Value::as_bool)
    }

    /// Returns a text that is an element of `codes`.
    pub(super) fn listed_code(&self, name: &str, codes: &[&str]) -> Result<Option<&'a str>, ChangeRejection> {
        let what = format!("one of {}", codes.join(", "));
        self.optional_value(name, what, |value| value.as_str().filter(|code| codes.contains(code)))
    }

    /// Returns a date or date-time as text and as timestamp. The text is sent unchanged.
    pub(super) fn optional_date(&self, name: &str) -> Result<Option<(&'a str, Timestamp)>, ChangeRejection> {
        let what = "a date or date-time such as 2031-05-04 or 2031-05-04T10:00:00Z";
        self.optional_value(name, what, |value| {
            value.as_str().and_then(|text| Some((text, Timestamp::parse(text)?)))
        })
    }

    /// Returns a SKU. Numbers are rejected, because `007` and `7` would become equal.
    pub(super) fn required_sku(&self, name: &str) -> Result<Sku, ChangeRejection> {
        let value = self.require_value(name, self.get(name))?;
        let text = value.as_str().ok_or_else(|| self.invalid_value(name, "a text"))?;
        Sku::new(text)
            .map_err(|error| bad_body(format!("`{}{name}` is {}: {error}", self.path, shorten_json(value))))
    }

    pub(super) fn required_warehouse(&self, name: &str) -> Result<WarehouseId, ChangeRejection> {
        self.required_id(name).map(WarehouseId)
    }

    pub(super) fn nested_object(&self, name: &str) -> Result<Option<BodyFields<'a>>, ChangeRejection> {
        let map = self.optional_value(name, "an object", Value::as_object)?;
        Ok(map.map(|map| BodyFields { map, path: format!("{}{name}.", self.path) }))
    }

    pub(super) fn nested_objects(&self, name: &str) -> Result<Option<Vec<BodyFields<'a>>>, ChangeRejection> {
        let Some(items) = self.optional_value(name, "a list of objects", Value::as_array)? else {
            return Ok(None);
        };
        let item = |(index, item): (usize, &'a Value)| {
            let path = format!("{}{name}[{index}]", self.path);
            let map = item.as_object().ok_or_else(|| {
                bad_body(format!("`{path}` is {}; it must be an object", shorten_json(item)))
            })?;
            Ok(BodyFields { map, path: format!("{path}.") })
        };
        items.iter().enumerate().map(item).collect::<Result<_, _>>().map(Some)
    }

    /// Rejects duplicate ids in a list, because the platform would apply both or fail.
    pub(super) fn reject_duplicates<T: Ord + std::fmt::Display>(
        &self,
        name: &str,
        ids: &[T],
    ) -> Result<(), ChangeRejection> {
        let mut seen = std::collections::BTreeSet::new();
        match ids.iter().find(|id| !seen.insert(*id)) {
            Some(twice) => Err(bad_body(format!("`{}{name}` names {twice} twice; name it once", self.path))),
            None => Ok(()),
        }
    }
}

fn integer_within(value: &Value, range: &RangeInclusive<i64>) -> Option<i64> {
    value.as_number().and_then(json_integer).filter(|number| range.contains(number))
}

pub(super) fn bad_body(detail: String) -> ChangeRejection {
    ChangeRejection { reason: Reason::BadBody, detail }
}

/// Returns the value as JSON, truncated for a message.
fn shorten_json(value: &Value) -> String {
    shorten_text(&value.to_string())
}
