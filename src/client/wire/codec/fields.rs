//! Checks of bodies that callers give as the platform's own JSON (product, warehouse, listing template).
//!
//! Such a body is sent unchanged, so only the rules of the interface are checked. Fields that the interface
//! does not name pass, except where it accepts no others.

use super::InvalidRequest;
use crate::model::Operation;
use serde_json::{Map, Value};

/// An object of a body, with its path.
pub(in crate::client) struct RequestFields<'a> {
    operation: Operation,
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> RequestFields<'a> {
    /// Returns the body itself, which must be an object.
    pub(in crate::client) fn from_body(
        operation: Operation,
        body: &'a Value,
    ) -> Result<Self, InvalidRequest> {
        match body {
            Value::Object(fields) => Ok(Self { operation, path: String::new(), fields }),
            _ => Err(InvalidRequest::new(operation, "the body", "must be a JSON object")),
        }
    }

    /// Returns an error for a field.
    pub(in crate::client) fn invalid_field(&self, field: &str, why: impl Into<String>) -> InvalidRequest {
        InvalidRequest::new(self.operation, format!("{}{field}", self.path), why)
    }

    /// Returns a field that is present and not null.
    pub(in crate::client) fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// Refuses fields that the interface does not list.
    pub(in crate::client) fn reject_unknown(&self, known: &[&str]) -> Result<(), InvalidRequest> {
        match self.fields.keys().find(|field| !known.contains(&field.as_str())) {
            Some(field) => {
                Err(self.invalid_field(field, format!("is not accepted; known are {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// Returns an optional text of at most `max` characters.
    pub(in crate::client) fn optional_text(
        &self,
        field: &str,
        max: usize,
    ) -> Result<Option<&'a str>, InvalidRequest> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= max => Ok(Some(text)),
            Some(Value::String(_)) => {
                Err(self.invalid_field(field, format!("is longer than {max} characters")))
            }
            Some(_) => Err(self.invalid_field(field, "must be a text")),
        }
    }

    /// Returns a required text that is not blank.
    pub(in crate::client) fn required_text(
        &self,
        field: &str,
        max: usize,
    ) -> Result<&'a str, InvalidRequest> {
        let text = self.optional_text(field, max)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| self.invalid_field(field, "is missing or blank"))
    }

    /// Checks that an optional text is one of the given codes.
    pub(in crate::client) fn check_code(&self, field: &str, words: &[&str]) -> Result<(), InvalidRequest> {
        match self.optional_text(field, usize::MAX)? {
            Some(word) if !words.contains(&word) => {
                Err(self.invalid_field(field, format!("is `{word}`; it must be one of {}", words.join(", "))))
            }
            _ => Ok(()),
        }
    }

    /// Returns an optional whole number within bounds.
    pub(in crate::client) fn optional_integer(
        &self,
        field: &str,
        min: i64,
        max: i64,
    ) -> Result<Option<i64>, InvalidRequest> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let whole =
            value.as_number().and_then(crate::model::json_integer).filter(|n| (min..=max).contains(n));
        whole
            .map(Some)
            .ok_or_else(|| self.invalid_field(field, format!("must be a whole number from {min} to {max}")))
    }

    /// Returns a required id.
    pub(in crate::client) fn required_id(&self, field: &str) -> Result<i64, InvalidRequest> {
        self.optional_integer(field, 1, i64::MAX)?.ok_or_else(|| self.invalid_field(field, "is missing"))
    }

    /// Returns an optional flag; a missing one is false.
    pub(in crate::client) fn optional_flag(&self, field: &str) -> Result<bool, InvalidRequest> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.invalid_field(field, "must be true or false")),
        }
    }

    /// Returns an optional nested object.
    pub(in crate::client) fn nested_object(
        &self,
        field: &str,
    ) -> Result<Option<RequestFields<'a>>, InvalidRequest> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => {
                let path = format!("{}{field}.", self.path);
                Ok(Some(RequestFields { operation: self.operation, path, fields }))
            }
            Some(_) => Err(self.invalid_field(field, "must be an object")),
        }
    }

    /// Returns the objects of a nested list; none if it is missing.
    pub(in crate::client) fn nested_objects(
        &self,
        field: &str,
    ) -> Result<Vec<RequestFields<'a>>, InvalidRequest> {
        let items = match self.get(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.invalid_field(field, "must be a list")),
        };
        let object = |(index, item): (usize, &'a Value)| match item {
            Value::Object(fields) => {
                let path = format!("{}{field}[{index}].", self.path);
                Ok(RequestFields { operation: self.operation, path, fields })
            }
            _ => Err(self.invalid_field(&format!("{field}[{index}]"), "must be an object")),
        };
        items.iter().enumerate().map(object).collect()
    }
}
