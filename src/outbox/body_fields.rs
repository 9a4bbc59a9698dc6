//! Checks the fields of a JSON object and reports the first invalid field.
//!
//! The checks are hand-written, because serde's derived messages name Rust types and byte columns.
//! Programmers of other systems need the field, its value and the expected value. A `null` field counts as
//! absent, because many programs write optional fields as `null`.

use super::{Reason, Rejection};
use crate::model::{Quantity, Sku, Timestamp, WarehouseId, integral};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Largest accepted id.
///
/// Above 2^53 (9.007e15) a JSON number is not exact in every program. The outbox's trigger stores no larger
/// ids.
const ID_MAX: i64 = 9_000_000_000_000_000;

/// Accepted quantities: 32 bits as at the platform, and not negative.
pub(super) const QUANTITIES: RangeInclusive<i64> = 0..=Quantity::MAX.0;

/// Minimum Jaro-Winkler similarity of a suggested name.
const LIKENESS_MIN: f64 = 0.75;

/// Maximum characters of an invalid value in a message.
const SHOWN_MAX_CHARS: usize = 60;

/// An object of a body, with its path within the body.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    pub(super) fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, path: String::new() }
    }

    /// Returns the value of the field, unless the field is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns the error for the value of `name`, where `what` describes valid values.
    pub(super) fn wrong(&self, name: &str, what: &str) -> Rejection {
        let value = self.map.get(name).map_or_else(|| "missing".into(), shown);
        bad(format!("`{}{name}` is {value}; it must be {what}", self.path))
    }

    /// Returns `found`, or the error for an absent field.
    pub(super) fn required<T>(&self, name: &str, found: Option<T>) -> Result<T, Rejection> {
        found.ok_or_else(|| match self.twin_of(name) {
            Some(twin) => bad(format!("`{}{twin}` must be spelled `{name}`", self.path)),
            None => bad(format!("`{}{name}` is missing; add it", self.path)),
        })
    }

    /// Rejects fields that are not `known`, so that a misspelled field is not lost.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Rejection> {
        let Some(stranger) = self.map.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let hint = match nearest(stranger, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the fields are {}", known.join(", ")),
        };
        Err(bad(format!("there is no field `{}{stranger}`; {hint}", self.path)))
    }

    /// Rejects a `known` field in another case, because the platform would ignore that field.
    pub(super) fn spelled(&self, known: &[&str]) -> Result<(), Rejection> {
        let twin = known.iter().find_map(|name| Some((self.twin_of(name)?, name)));
        match twin {
            Some((twin, name)) => Err(bad(format!("`{}{twin}` must be spelled `{name}`", self.path))),
            None => Ok(()),
        }
    }

    fn twin_of(&self, name: &str) -> Option<&'a String> {
        self.map.keys().find(|key| *key != name && key.eq_ignore_ascii_case(name))
    }

    /// Returns an integer within the range, also if it is written as `28.0`.
    pub(super) fn whole(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_number().and_then(integral).filter(|number| range.contains(number));
        let what = || format!("a whole number from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| self.wrong(name, &what()))
    }

    /// Returns a platform id: an integer above zero.
    pub(super) fn id(&self, name: &str) -> Result<Option<i64>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_number().and_then(integral).filter(|id| (1..=ID_MAX).contains(id));
        number.map(Some).ok_or_else(|| self.wrong(name, "an id: a whole number above 0"))
    }

    /// Returns a text that is not blank.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        text.map(Some).ok_or_else(|| self.wrong(name, "a text that is not blank"))
    }

    /// Checks for a text of at most `max` characters. The text may be empty.
    pub(super) fn text_up_to(&self, name: &str, max: usize) -> Result<(), Rejection> {
        let Some(value) = self.get(name) else { return Ok(()) };
        let fits = value.as_str().is_some_and(|text| text.chars().count() <= max);
        if fits { Ok(()) } else { Err(self.wrong(name, &format!("a text of at most {max} characters"))) }
    }

    /// Checks that each named field is a text. The texts may be empty.
    pub(super) fn texts(&self, names: &[&str]) -> Result<(), Rejection> {
        names
            .iter()
            .try_for_each(|name| self.text_up_to(name, usize::MAX).map_err(|_| self.wrong(name, "a text")))
    }

    /// Checks for a number, integer or not.
    pub(super) fn number(&self, name: &str) -> Result<(), Rejection> {
        match self.get(name) {
            Some(value) if !value.is_number() => Err(self.wrong(name, "a number")),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns a boolean.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "true or false"))
    }

    /// Returns a text that is an element of `words`.
    pub(super) fn word(&self, name: &str, words: &[&str]) -> Result<Option<&'a str>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let word = value.as_str().filter(|word| words.contains(word));
        word.map(Some).ok_or_else(|| self.wrong(name, &format!("one of {}", words.join(", "))))
    }

    /// Returns a date or date-time as text and as timestamp. The text is sent unchanged.
    pub(super) fn date(&self, name: &str) -> Result<Option<(&'a str, Timestamp)>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let date = value.as_str().and_then(|text| Some((text, Timestamp::parse(text)?)));
        let what = "a date or date-time such as 2031-05-04 or 2031-05-04T10:00:00Z";
        date.map(Some).ok_or_else(|| self.wrong(name, what))
    }

    /// Returns a SKU. Numbers are rejected, because `007` and `7` would become equal.
    pub(super) fn sku(&self, name: &str) -> Result<Sku, Rejection> {
        let value = self.required(name, self.get(name))?;
        let text = value.as_str().ok_or_else(|| self.wrong(name, "a text"))?;
        Sku::new(text).map_err(|error| bad(format!("`{}{name}` is {}: {error}", self.path, shown(value))))
    }

    /// Returns the required warehouse id.
    pub(super) fn warehouse(&self, name: &str) -> Result<WarehouseId, Rejection> {
        self.required(name, self.id(name)?).map(WarehouseId)
    }

    /// Returns a nested object.
    pub(super) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.wrong(name, "an object"))?;
        Ok(Some(Fields { map, path: format!("{}{name}.", self.path) }))
    }

    /// Returns a list of objects.
    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<Fields<'a>>>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let items = value.as_array().ok_or_else(|| self.wrong(name, "a list of objects"))?;
        let item = |(index, item): (usize, &'a Value)| {
            let path = format!("{}{name}[{index}]", self.path);
            let map = item
                .as_object()
                .ok_or_else(|| bad(format!("`{path}` is {}; it must be an object", shown(item))))?;
            Ok(Fields { map, path: format!("{path}.") })
        };
        items.iter().enumerate().map(item).collect::<Result<_, _>>().map(Some)
    }

    /// Rejects duplicate ids in a list, because the platform would apply both or fail.
    pub(super) fn unique<T: Ord + std::fmt::Display>(&self, name: &str, ids: &[T]) -> Result<(), Rejection> {
        let mut seen = std::collections::BTreeSet::new();
        match ids.iter().find(|id| !seen.insert(*id)) {
            Some(twice) => Err(bad(format!("`{}{name}` names {twice} twice; name it once", self.path))),
            None => Ok(()),
        }
    }
}

/// Returns a rejection with [`Reason::BadBody`].
pub(super) fn bad(detail: String) -> Rejection {
    Rejection { reason: Reason::BadBody, detail }
}

/// Returns the known name most similar to `name`, if any is similar enough.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    known
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(score, _)| *score >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// Returns a foreign text, truncated to [`SHOWN_MAX_CHARS`].
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Returns the value as JSON, truncated to [`SHOWN_MAX_CHARS`].
fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}
