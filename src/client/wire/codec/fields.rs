//! Checks of bodies that callers give as the platform's own JSON (product, warehouse, listing template).
//!
//! Such a body is sent unchanged, so only the rules of the interface are checked. Fields that the interface
//! does not name pass, except where it accepts no others.

use super::Invalid;
use crate::model::Operation;
use serde_json::{Map, Value};

/// An object of a body, with its path.
pub(in crate::client) struct Fields<'a> {
    operation: Operation,
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Returns the body itself, which must be an object.
    pub(in crate::client) fn of(operation: Operation, body: &'a Value) -> Result<Self, Invalid> {
        match body {
            Value::Object(fields) => Ok(Self { operation, path: String::new(), fields }),
            _ => Err(Invalid::new(operation, "the body", "must be a JSON object")),
        }
    }

    /// Returns an error for a field.
    pub(in crate::client) fn invalid(&self, field: &str, why: impl Into<String>) -> Invalid {
        Invalid::new(self.operation, format!("{}{field}", self.path), why)
    }

    /// Returns a field that is present and not null.
    pub(in crate::client) fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// Refuses fields that the interface does not list.
    pub(in crate::client) fn only(&self, known: &[&str]) -> Result<(), Invalid> {
        match self.fields.keys().find(|field| !known.contains(&field.as_str())) {
            Some(field) => {
                Err(self.invalid(field, format!("is not accepted; known are {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// Returns an optional text of at most `max` characters.
    pub(in crate::client) fn text(&self, field: &str, max: usize) -> Result<Option<&'a str>, Invalid> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= max => Ok(Some(text)),
            Some(Value::String(_)) => Err(self.invalid(field, format!("is longer than {max} characters"))),
            Some(_) => Err(self.invalid(field, "must be a text")),
        }
    }

    /// Returns a required text that is not blank.
    pub(in crate::client) fn required_text(&self, field: &str, max: usize) -> Result<&'a str, Invalid> {
        let text = self.text(field, max)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| self.invalid(field, "is missing or blank"))
    }

    /// Checks that an optional text is one of the given codes.
    pub(in crate::client) fn word(&self, field: &str, words: &[&str]) -> Result<(), Invalid> {
        match self.text(field, usize::MAX)? {
            Some(word) if !words.contains(&word) => {
                Err(self.invalid(field, format!("is `{word}`; it must be one of {}", words.join(", "))))
            }
            _ => Ok(()),
        }
    }

    /// Returns an optional whole number within bounds.
    pub(in crate::client) fn whole(&self, field: &str, min: i64, max: i64) -> Result<Option<i64>, Invalid> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let whole = value.as_number().and_then(crate::model::integral).filter(|n| (min..=max).contains(n));
        whole
            .map(Some)
            .ok_or_else(|| self.invalid(field, format!("must be a whole number from {min} to {max}")))
    }

    /// Returns a required id.
    pub(in crate::client) fn required_id(&self, field: &str) -> Result<i64, Invalid> {
        self.whole(field, 1, i64::MAX)?.ok_or_else(|| self.invalid(field, "is missing"))
    }

    /// Returns an optional flag; a missing one is false.
    pub(in crate::client) fn flag(&self, field: &str) -> Result<bool, Invalid> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.invalid(field, "must be true or false")),
        }
    }

    /// Returns an optional nested object.
    pub(in crate::client) fn object(&self, field: &str) -> Result<Option<Fields<'a>>, Invalid> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => {
                let path = format!("{}{field}.", self.path);
                Ok(Some(Fields { operation: self.operation, path, fields }))
            }
            Some(_) => Err(self.invalid(field, "must be an object")),
        }
    }

    /// Returns the objects of a nested list; none if it is missing.
    pub(in crate::client) fn objects(&self, field: &str) -> Result<Vec<Fields<'a>>, Invalid> {
        let items = match self.get(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.invalid(field, "must be a list")),
        };
        let object = |(index, item): (usize, &'a Value)| match item {
            Value::Object(fields) => {
                let path = format!("{}{field}[{index}].", self.path);
                Ok(Fields { operation: self.operation, path, fields })
            }
            _ => Err(self.invalid(&format!("{field}[{index}]"), "must be an object")),
        };
        items.iter().enumerate().map(object).collect()
    }
}
