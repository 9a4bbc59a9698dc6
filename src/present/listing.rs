//! Lists that both doors show: rows of typed cells. A door gives each cell its form, such as a link or a local time.

use crate::model::Timestamp;
use crate::store::LossyText;
use serde_json::Value;

/// The cells of a row, each below its heading in small letters. All rows of a list have the same headings.
pub(crate) type ListColumns = Vec<(&'static str, ListCell)>;

#[derive(Clone, Debug)]
pub(crate) enum ListCell {
    Missing,
    Text(String),
    /// A sentence of tallyd, which may have times in it.
    Sentence(String),
    Number(String),
    Flag(bool),
    Time(Timestamp),
    /// A time as its distance from now, which is the second one.
    Age(Timestamp, Timestamp),
    /// The name of something that has a page of its own.
    Link(ListedSubject, String),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ListedSubject {
    Sku,
    Change,
    Entry,
    Run,
    Order,
}

impl ListedSubject {
    pub(crate) fn cell(self, name: impl ToString) -> ListCell {
        ListCell::Link(self, name.to_string())
    }
}

pub(crate) fn sentence_cell(sentence: Option<impl AsRef<str>>) -> ListCell {
    sentence.map_or(ListCell::Missing, |sentence| ListCell::Sentence(sentence.as_ref().to_owned()))
}

/// Returns a cell with a time of the database's views, which is RFC 3339.
pub(crate) fn time_cell(time: Option<impl AsRef<str>>) -> ListCell {
    time.map_or(ListCell::Missing, |time| {
        Timestamp::parse(time.as_ref()).map_or_else(|| time.as_ref().cell(), ListCell::Time)
    })
}

pub(crate) fn age_cell(time: Option<impl AsRef<str>>, now: Timestamp) -> ListCell {
    match time_cell(time) {
        ListCell::Time(at) => ListCell::Age(at, now),
        other => other,
    }
}

/// Returns the fields of an object that have a value and are no objects themselves, as the doors show them.
pub(crate) fn field_cells(object: &Value) -> Vec<(&str, ListCell)> {
    let mut cells = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        let cell = match (name.as_str(), value) {
            (_, Value::Null | Value::Object(_) | Value::Array(_)) => continue,
            ("run", _) => ListedSubject::Run.cell(value),
            ("detail" | "summary", _) => sentence_cell(value.as_str()),
            (name, _) if name == "at" || name.ends_with("_at") => time_cell(value.as_str()),
            _ => value.cell(),
        };
        cells.push((name.as_str(), cell));
    }
    cells
}

pub(crate) trait ListedValue {
    fn cell(&self) -> ListCell;
}

/// Returns a row: `columns! {"run": id, "job": job}`.
macro_rules! columns {
    ($($heading:literal: $value:expr),+ $(,)?) => {
        vec![$(($heading, $crate::present::listing::ListedValue::cell(&$value))),+]
    };
}
pub(crate) use columns;

macro_rules! listed_values {
    ($form:path: $($type:ty),+) => {$(
        impl ListedValue for $type {
            fn cell(&self) -> ListCell {
                $form(self.to_string())
            }
        }
    )+};
}
listed_values!(ListCell::Text: str, String, LossyText);
listed_values!(ListCell::Number: i64, u64, usize, f64);

impl ListedValue for ListCell {
    fn cell(&self) -> ListCell {
        self.clone()
    }
}

impl ListedValue for Timestamp {
    fn cell(&self) -> ListCell {
        ListCell::Time(*self)
    }
}

impl ListedValue for bool {
    fn cell(&self) -> ListCell {
        ListCell::Flag(*self)
    }
}

impl ListedValue for Value {
    fn cell(&self) -> ListCell {
        match self {
            Value::Null => ListCell::Missing,
            Value::String(text) => text.cell(),
            Value::Bool(flag) => flag.cell(),
            other => ListCell::Number(other.to_string()),
        }
    }
}

impl<T: ListedValue> ListedValue for Option<T> {
    fn cell(&self) -> ListCell {
        self.as_ref().map_or(ListCell::Missing, T::cell)
    }
}

impl<T: ListedValue + ?Sized> ListedValue for &T {
    fn cell(&self) -> ListCell {
        (*self).cell()
    }
}
