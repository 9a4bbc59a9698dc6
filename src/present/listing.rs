//! Lists that both doors show: rows of typed cells. A door gives each cell its form, such as a link or a local time.

use crate::model::Timestamp;
use crate::store::LossyText;
use serde_json::Value;

/// A row of a list.
pub(crate) trait ListedRow {
    /// Headings in small letters, as many as cells.
    const HEADINGS: &'static [&'static str];

    fn cells(&self) -> Vec<ListCell>;
}

/// A row that programs read.
pub(crate) trait JsonRow {
    fn to_json(&self) -> Value;
}

/// Returns the rows as programs read them.
pub(crate) fn rows_json<T: JsonRow>(rows: &[T]) -> Value {
    rows.iter().map(T::to_json).collect()
}

/// A value of a list.
#[derive(Clone, Debug)]
pub(crate) enum ListCell {
    Missing,
    Text(String),
    /// A sentence of tallyd, which may have times in it.
    Sentence(String),
    Number(String),
    Flag(bool),
    Time(Timestamp),
    /// The name of something that has a page of its own.
    Link(ListedSubject, String),
}

/// A kind of things with a page for each.
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

/// Returns a cell with a sentence of tallyd.
pub(crate) fn sentence_cell(sentence: Option<&str>) -> ListCell {
    sentence.map_or(ListCell::Missing, |sentence| ListCell::Sentence(sentence.to_owned()))
}

/// Returns a cell with a time of the database's views, which is RFC 3339.
pub(crate) fn time_cell(time: Option<&str>) -> ListCell {
    time.map_or(ListCell::Missing, |time| {
        Timestamp::parse(time).map_or_else(|| ListCell::Text(time.to_owned()), ListCell::Time)
    })
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

/// A value that is a cell of a list.
pub(crate) trait ListedValue {
    fn cell(&self) -> ListCell;
}

/// Returns the cells of a row's values.
macro_rules! list_row {
    ($($value:expr),+ $(,)?) => { vec![$($crate::present::listing::ListedValue::cell(&$value)),+] };
}
pub(crate) use list_row;

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
listed_values!(ListCell::Number: i64, usize, f64);

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
