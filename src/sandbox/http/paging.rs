//! Pages of lists: the requested page, and its `pagination` object.
//!
//! Implements the paging in docs/interface.md, *Limits* and *Response envelopes*.

use std::collections::HashMap;

use serde_json::json;
use sqlx::Sqlite;
use sqlx::query::QueryAs;
use sqlx::sqlite::SqliteArguments;

use super::answer::{SandboxRefusal, list_envelope_with};
use super::request::parse_whole;

/// Builds the statement of a page: the number of all records, and the page's records as a JSON array.
/// Parameters: owner of the records (?1), size (?2) and offset (?3) of the page, then those of the filter. `+
/// 0` is necessary, because SQLite plans with the value of a bare parameter behind LIMIT. It would prepare
/// the statement again at every call, which took half of the time of a list.
macro_rules! page_of {
    ($records:literal order by $order:literal) => {
        concat!(
            "SELECT (SELECT count(*) FROM ",
            $records,
            "), '[' || coalesce((SELECT group_concat(body, ',') FROM (SELECT body FROM ",
            $records,
            " ORDER BY ",
            $order,
            " LIMIT ?2 + 0 OFFSET ?3 + 0)), '') || ']'"
        )
    };
}
pub(crate) use page_of;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SandboxPage {
    number: i64,
    size: i64,
}

impl SandboxPage {
    /// Parses the query; a 400 for anything but an integer from 1, because no other page was requested. The interface
    /// states the default of 25 for two operations; the sandbox uses it for all. Larger pages are reduced to 200.
    pub(crate) fn from_query(query: &HashMap<String, String>) -> Result<Self, SandboxRefusal> {
        let number = positive_parameter(query, "pageNumber")?.unwrap_or(1);
        let size = positive_parameter(query, "resultsPerPage")?.unwrap_or(25).min(200);
        Ok(Self { number, size })
    }

    /// Returns a statement of [`page_of`] with its first three parameters; the caller binds the filter's.
    pub(crate) fn records_of(
        &self,
        statement: &'static str,
        owner_id: i64,
    ) -> QueryAs<'static, Sqlite, (i64, String), SqliteArguments> {
        let offset = (self.number - 1).saturating_mul(self.size);
        sqlx::query_as(statement).bind(owner_id).bind(self.size).bind(offset)
    }

    /// Returns the envelope of this page out of `total` entries.
    pub(crate) fn page_envelope(&self, messages: &[String], total: i64, data: &str) -> String {
        let pages = total / self.size + i64::from(total % self.size != 0);
        let pagination = json!({
            "CurrentPage": self.number,
            "TotalNumberOfEntries": total,
            "TotalNumberOfPages": pages,
        });
        list_envelope_with("Success", messages, &pagination, data)
    }
}

/// Returns the envelope of all entries, for operations with pagination and without page parameters.
pub(crate) fn single_page_envelope(messages: &[String], total: i64, data: &str) -> String {
    SandboxPage { number: 1, size: total.max(1) }.page_envelope(messages, total, data)
}

/// Returns a query parameter: an integer from 1. Values above int32 count as the largest int32.
pub(crate) fn positive_parameter(
    query: &HashMap<String, String>,
    name: &str,
) -> Result<Option<i64>, SandboxRefusal> {
    let Some(text) = query.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    match parse_whole(text).filter(|value| *value >= 1) {
        Some(value) => Ok(Some(value.min(i64::from(i32::MAX)))),
        None => Err(SandboxRefusal::bad_request(format!(
            "The query parameter {name} must be a whole number from 1, not '{text}'."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_page_is_clamped_above_and_refused_below() {
        for (number, size, expected) in [
            ("", "", Some((1, 25))),
            ("2", "10", Some((2, 10))),
            ("2.0", "10.00", Some((2, 10))),
            ("1", "201", Some((1, 200))),
            ("99999999999999999999999", "1", Some((2_147_483_647, 1))),
            ("0", "10", None),
            ("1", "0", None),
            ("-1", "10", None),
            ("abc", "10", None),
            ("1.5", "10", None),
            ("1", ".0", None),
            ("1.", "10", None),
        ] {
            let page =
                SandboxPage::from_query(&query(&[("pageNumber", number), ("resultsPerPage", size)])).ok();
            assert_eq!(page, expected.map(|(number, size)| SandboxPage { number, size }), "{number} {size}");
        }
    }

    #[test]
    fn pages_are_counted_up() {
        let page = SandboxPage { number: 2, size: 25 };
        assert!(page.page_envelope(&[], 26, "[]").contains(r#""TotalNumberOfPages":2"#));
        assert!(page.page_envelope(&[], 25, "[]").contains(r#""TotalNumberOfPages":1"#));
        assert!(page.page_envelope(&[], 0, "[]").contains(r#""TotalNumberOfPages":0"#));
    }
}
