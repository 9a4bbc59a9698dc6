//! Takes a JSON object apart, field by field, and says exactly what is wrong with the first one that is.
//!
//! Hand-written instead of derived: a derived reader's messages name Rust types and byte columns, and the
//! reader of ours is a warehouse programmer who needs the field, its value and what to write instead. A field
//! that is `null` counts as absent, because most programs write optional fields so.

use super::{Reason, Rejection};
use crate::model::{Quantity, Sku, Timestamp, WarehouseId, integral};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// The largest id: beyond it a JSON number is no longer told from its neighbours everywhere, and the outbox's trigger
/// takes none into its columns.
const ID_MAX: i64 = 9_000_000_000_000_000;

/// What a quantity may be: the service's 32 bits, not below zero.
pub(super) const QUANTITIES: RangeInclusive<i64> = 0..=Quantity::MAX.0;

/// How alike two names must be for one to be offered for the other.
const LIKENESS_MIN: f64 = 0.75;

/// How much of a senseless value is shown, in characters.
const SHOWN_MAX_CHARS: usize = 60;

/// One object of a body and where it stands in it.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    pub(super) fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, path: String::new() }
    }

    /// The field's value, unless it is missing or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// The complaint that `name` has a value that is not `what`.
    pub(super) fn wrong(&self, name: &str, what: &str) -> Rejection {
        let value = self.map.get(name).map_or_else(|| "missing".into(), shown);
        bad(format!("`{}{name}` is {value}; it must be {what}", self.path))
    }

    /// `found`, or the complaint that it is missing.
    pub(super) fn required<T>(&self, name: &str, found: Option<T>) -> Result<T, Rejection> {
        found.ok_or_else(|| match self.twin_of(name) {
            Some(twin) => bad(format!("`{}{twin}` must be spelled `{name}`", self.path)),
            None => bad(format!("`{}{name}` is missing; add it", self.path)),
        })
    }

    /// Refuses a field that is not `known`: a typo must not be lost.
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

    /// Refuses a field that is a `known` one in another case: the service would overlook it.
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

    /// A whole number, also when spelled `28.0`.
    pub(super) fn whole(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_number().and_then(integral).filter(|number| range.contains(number));
        let what = || format!("a whole number from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| self.wrong(name, &what()))
    }

    /// An id of the service: a whole number above zero.
    pub(super) fn id(&self, name: &str) -> Result<Option<i64>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_number().and_then(integral).filter(|id| (1..=ID_MAX).contains(id));
        number.map(Some).ok_or_else(|| self.wrong(name, "an id: a whole number above 0"))
    }

    /// A text that is more than white space.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        text.map(Some).ok_or_else(|| self.wrong(name, "a text that is not blank"))
    }

    /// A text of at most `max` characters; it may be empty.
    pub(super) fn text_up_to(&self, name: &str, max: usize) -> Result<(), Rejection> {
        let Some(value) = self.get(name) else { return Ok(()) };
        let fits = value.as_str().is_some_and(|text| text.chars().count() <= max);
        if fits { Ok(()) } else { Err(self.wrong(name, &format!("a text of at most {max} characters"))) }
    }

    /// Texts, each of which may be empty.
    pub(super) fn texts(&self, names: &[&str]) -> Result<(), Rejection> {
        names
            .iter()
            .try_for_each(|name| self.text_up_to(name, usize::MAX).map_err(|_| self.wrong(name, "a text")))
    }

    /// A number, whole or not.
    pub(super) fn number(&self, name: &str) -> Result<(), Rejection> {
        match self.get(name) {
            Some(value) if !value.is_number() => Err(self.wrong(name, "a number")),
            Some(_) | None => Ok(()),
        }
    }

    /// True or false.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "true or false"))
    }

    /// One of a few words.
    pub(super) fn word(&self, name: &str, words: &[&str]) -> Result<Option<&'a str>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let word = value.as_str().filter(|word| words.contains(word));
        word.map(Some).ok_or_else(|| self.wrong(name, &format!("one of {}", words.join(", "))))
    }

    /// A date or date-time, kept as it is written because the service takes it so.
    pub(super) fn date(&self, name: &str) -> Result<Option<(&'a str, Timestamp)>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let date = value.as_str().and_then(|text| Some((text, Timestamp::parse(text)?)));
        let what = "a date or date-time such as 2031-05-04 or 2031-05-04T10:00:00Z";
        date.map(Some).ok_or_else(|| self.wrong(name, what))
    }

    /// A SKU; numbers are not taken for one, since `007` and `7` would become the same.
    pub(super) fn sku(&self, name: &str) -> Result<Sku, Rejection> {
        let value = self.required(name, self.get(name))?;
        let text = value.as_str().ok_or_else(|| self.wrong(name, "a text"))?;
        Sku::new(text).map_err(|error| bad(format!("`{}{name}` is {}: {error}", self.path, shown(value))))
    }

    /// The warehouse every cell needs.
    pub(super) fn warehouse(&self, name: &str) -> Result<WarehouseId, Rejection> {
        self.required(name, self.id(name)?).map(WarehouseId)
    }

    /// An object within the object.
    pub(super) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, Rejection> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.wrong(name, "an object"))?;
        Ok(Some(Fields { map, path: format!("{}{name}.", self.path) }))
    }

    /// A list of objects.
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

    /// Refuses a value that stands twice in a list, where the service would take it twice or fail.
    pub(super) fn unique<T: Ord + std::fmt::Display>(&self, name: &str, ids: &[T]) -> Result<(), Rejection> {
        let mut seen = std::collections::BTreeSet::new();
        match ids.iter().find(|id| !seen.insert(*id)) {
            Some(twice) => Err(bad(format!("`{}{name}` names {twice} twice; name it once", self.path))),
            None => Ok(()),
        }
    }
}

/// A body that makes no sense.
pub(super) fn bad(detail: String) -> Rejection {
    Rejection { reason: Reason::BadBody, detail }
}

/// The known name most like `name`, if one is like it at all.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    known
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(score, _)| *score >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// A text of somebody else's, cut where it gets long.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// A value as the body writes it, cut where it gets long.
fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}
