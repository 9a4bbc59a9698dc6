//! Common parts of all requests: the error of an invalid request, the paging parameters, checks of a body.
//!
//! A body that callers give as the platform's own JSON (product, warehouse, listing template) is sent
//! unchanged. Only the rules of the interface are checked. Fields that the interface does not name pass,
//! except where it accepts no others.

use crate::client::PlatformRequest;
use crate::model::{Operation, json_integer};
use serde_json::{Map, Value};

/// Error of a request that the platform would answer with 400, or that would have
/// an unintended effect. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} was not sent: {field} {why}")]
pub struct InvalidRequest {
    pub operation: Operation,
    /// The invalid field in the interface's spelling, with its position in a list.
    pub field: String,
    /// The fault and the valid values.
    pub why: String,
}

impl InvalidRequest {
    pub(crate) fn new(operation: Operation, field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { operation, field: field.into(), why: why.into() }
    }
}

/// Page of a list (*Endpoints*, `pageNumber` and `resultsPerPage`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageParams {
    number: u32,
    size: u32,
}

impl PageParams {
    /// Largest page of the platform (*Limits*).
    pub(crate) const MAX_SIZE: u32 = 200;

    /// First page of the largest size.
    pub const FIRST: PageParams = PageParams { number: 1, size: Self::MAX_SIZE };

    /// Creates page `number`, from 1, with `size` records, 1 to 200; `None` outside of these bounds.
    pub fn new(number: u32, size: u32) -> Option<Self> {
        (number >= 1 && (1..=Self::MAX_SIZE).contains(&size)).then_some(Self { number, size })
    }

    pub(crate) fn next_page(self) -> Self {
        Self { number: self.number.saturating_add(1), ..self }
    }

    /// Returns the page's number, from 1.
    pub(crate) fn number(self) -> u32 {
        self.number
    }
}

impl PlatformRequest {
    pub(crate) fn with_page(self, paging: PageParams) -> Self {
        self.with_query("pageNumber", Some(paging.number)).with_query("resultsPerPage", Some(paging.size))
    }
}

pub(crate) struct RequestFields<'a> {
    operation: Operation,
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> RequestFields<'a> {
    pub(crate) fn from_body(operation: Operation, body: &'a Value) -> Result<Self, InvalidRequest> {
        match body {
            Value::Object(fields) => Ok(Self { operation, path: String::new(), fields }),
            _ => Err(InvalidRequest::new(operation, "the body", "must be a JSON object")),
        }
    }

    pub(crate) fn invalid_field(&self, field: &str, why: impl Into<String>) -> InvalidRequest {
        InvalidRequest::new(self.operation, format!("{}{field}", self.path), why)
    }

    pub(crate) fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    pub(crate) fn reject_unknown(&self, known: &[&str]) -> Result<(), InvalidRequest> {
        match self.fields.keys().find(|field| !known.contains(&field.as_str())) {
            None => Ok(()),
            Some(field) => {
                Err(self.invalid_field(field, format!("is not accepted; known are {}", known.join(", "))))
            }
        }
    }

    pub(crate) fn optional_text(&self, field: &str, max: usize) -> Result<Option<&'a str>, InvalidRequest> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= max => Ok(Some(text)),
            Some(Value::String(_)) => {
                Err(self.invalid_field(field, format!("is longer than {max} characters")))
            }
            Some(_) => Err(self.invalid_field(field, "must be a text")),
        }
    }

    pub(crate) fn required_text(&self, field: &str, max: usize) -> Result<&'a str, InvalidRequest> {
        let text = self.optional_text(field, max)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| self.invalid_field(field, "is missing or blank"))
    }

    pub(crate) fn check_code(&self, field: &str, codes: &[&str]) -> Result<(), InvalidRequest> {
        match self.optional_text(field, usize::MAX)? {
            Some(code) if !codes.contains(&code) => {
                Err(self.invalid_field(field, format!("is `{code}`; it must be one of {}", codes.join(", "))))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn optional_integer(
        &self,
        field: &str,
        min: i64,
        max: i64,
    ) -> Result<Option<i64>, InvalidRequest> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_number().and_then(json_integer).filter(|n| (min..=max).contains(n)) {
            Some(whole) => Ok(Some(whole)),
            None => Err(self.invalid_field(field, format!("must be a whole number from {min} to {max}"))),
        }
    }

    pub(crate) fn required_id(&self, field: &str) -> Result<i64, InvalidRequest> {
        self.optional_integer(field, 1, i64::MAX)?.ok_or_else(|| self.invalid_field(field, "is missing"))
    }

    /// Returns an optional flag; a missing one is false.
    pub(crate) fn optional_flag(&self, field: &str) -> Result<bool, InvalidRequest> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.invalid_field(field, "must be true or false")),
        }
    }

    fn nested(&self, field: &str, fields: &'a Map<String, Value>) -> Self {
        Self { operation: self.operation, path: format!("{}{field}.", self.path), fields }
    }

    pub(crate) fn nested_object(&self, field: &str) -> Result<Option<Self>, InvalidRequest> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(self.nested(field, fields))),
            Some(_) => Err(self.invalid_field(field, "must be an object")),
        }
    }

    pub(crate) fn nested_objects(&self, field: &str) -> Result<Vec<Self>, InvalidRequest> {
        let items = match self.get(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(self.invalid_field(field, "must be a list")),
        };
        let object = |(index, item): (usize, &'a Value)| match item {
            Value::Object(fields) => Ok(self.nested(&format!("{field}[{index}]"), fields)),
            _ => Err(self.invalid_field(&format!("{field}[{index}]"), "must be an object")),
        };
        items.iter().enumerate().map(object).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_within_the_services_limits_or_none() {
        let cases = [(1, 200, true), (1, 1, true), (0, 25, false), (1, 0, false), (1, 201, false)];
        for (number, size, valid) in cases {
            assert_eq!(PageParams::new(number, size).is_some(), valid, "{number} {size}");
        }
        assert_eq!(PageParams::FIRST.next_page(), PageParams::new(2, 200).unwrap());
    }
}
