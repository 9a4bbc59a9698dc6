//! A request as a page sees it.

use super::access::WebSession;
use crate::health::{Finding, HealthReport};
use crate::present::ViewError;
use axum::http::{HeaderMap, header};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

/// Fields of a query or a form, in order; a name may occur several times.
#[derive(Clone, Debug, Default)]
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Returns the first value of this name, without outer blanks; `None` for an empty field.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.pairs().filter(|(other, _)| *other == name).map(|(_, value)| value.to_owned()).collect()
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, ViewError> {
        let Some(text) = self.given(name) else { return Ok(None) };
        let number = text.strip_prefix('+').unwrap_or(text).parse();
        let wrong = |_| ViewError::Invalid(format!("`{name}` must be a whole number, and `{text}` is none"));
        number.map(Some).map_err(wrong)
    }

    pub(super) fn code<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, ViewError> {
        let parsed = self.given(name).map(str::parse::<T>).transpose();
        parsed.map_err(|error| ViewError::Invalid(format!("`{name}`: {error}")))
    }

    pub(super) fn required_number(&self, name: &str) -> Result<i64, ViewError> {
        self.number(name)?.ok_or_else(|| ViewError::Invalid(format!("`{name}` is empty")))
    }

    pub(super) fn required_id(&self, name: &str) -> Result<i64, ViewError> {
        let id = self.required_number(name)?;
        if id > 0 {
            Ok(id)
        } else {
            Err(ViewError::Invalid(format!("`{name}` is {id}; an id is at least 1")))
        }
    }
}

pub(super) struct PageRequest {
    pub(super) session: Arc<WebSession>,
    pub(super) path: String,
    /// The last part of the path, or the field `name` of the query, for names that no path can have.
    pub(super) name: String,
    pub(super) query: FormFields,
    pub(super) form: FormFields,
    pub(super) wants_json: bool,
    /// True if a script reads the page again for its live parts. The result of a form waits for a person's page.
    pub(super) is_refresh: bool,
    pub(super) mark: String,
    pub(super) health: HealthReport,
    /// False in read-only mode: the page shows no forms.
    pub(super) may_act: bool,
}

impl PageRequest {
    /// Returns pauses, and what needs an operator. Each page and each form's answer says it.
    pub(super) fn findings(&self) -> Vec<&Finding> {
        self.health.shown_findings().collect()
    }
}

pub(super) fn wants_json(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(prefers_json)
}

fn prefers_json(accept: &str) -> bool {
    let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kinds.into_iter().find_map(|kind| match kind {
        "application/json" => Some(true),
        "text/html" | "application/xhtml+xml" => Some(false),
        _ => None,
    }) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_the_answer_is_the_first_that_is_named() {
        let cases = [
            ("application/json", true),
            ("application/json; q=0.9", true),
            ("text/html,application/json", false),
            ("application/json, text/html", true),
            ("*/*", false),
            ("", false),
        ];
        for (accept, expected) in cases {
            assert_eq!(prefers_json(accept), expected, "{accept}");
        }
    }

    #[test]
    fn fields_are_read_as_browsers_write_them() {
        let form = FormFields::parse(b"key=a%2Fb&key=%C3%A4+x&n=%2B5&empty=&bad=1e3");
        assert_eq!(form.all("key"), ["a/b", "ä x"]);
        assert_eq!(["n", "empty", "none"].map(|name| form.number(name).unwrap()), [Some(5), None, None]);
        assert!(form.number("bad").unwrap_err().to_string().contains("1e3"));
        assert!(form.required_number("empty").is_err());
    }
}
