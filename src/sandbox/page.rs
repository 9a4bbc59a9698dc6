//! Pages of lists: which one a caller wants, and the `pagination` object that goes with it.
//!
//! Implements the paging parts of "Limits" and "Response envelopes" of service-interface.md.

use std::collections::HashMap;

use super::answer::{Pagination, Refusal, envelope_with};

/// The statement of one page: the number of all records and the page's as a JSON array. Its parameters are
/// the company or storefront the view is filtered by (?1), the page's size (?2) and offset (?3), and what the
/// filter adds. `+ 0`: SQLite plans with the value of a parameter that stands alone behind LIMIT, and for that prepares
/// the statement anew at every call, which was half of the time of a list.
macro_rules! page_of {
    ($view:literal where $filter:literal order by $order:literal) => {
        concat!(
            "SELECT (SELECT count(*) FROM ",
            $view,
            " WHERE ",
            $filter,
            "), ",
            "'[' || coalesce((SELECT group_concat(body, ',') FROM (SELECT body FROM ",
            $view,
            " WHERE ",
            $filter,
            " ORDER BY ",
            $order,
            " LIMIT ?2 + 0 OFFSET ?3 + 0)), '') || ']'"
        )
    };
}
pub(crate) use page_of;

/// Which page a caller wants: query `pageNumber` and `resultsPerPage`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    number: i64,
    pub(crate) size: i64,
}

impl Page {
    /// Entries of a page when the caller does not say. Stated for two operations, used for all.
    const DEFAULT_SIZE: i64 = 25;
    /// The documented most; more is cut down to it.
    const MAX_SIZE: i64 = 200;

    /// Reads the query. Anything but a whole number from 1 is refused with 400: to guess a page would hand a
    /// caller data it did not ask for.
    pub(crate) fn from_query(query: &HashMap<String, String>) -> Result<Self, Refusal> {
        let number = positive(query, "pageNumber")?.unwrap_or(1);
        let size = positive(query, "resultsPerPage")?.unwrap_or(Self::DEFAULT_SIZE).min(Self::MAX_SIZE);
        Ok(Self { number, size })
    }

    /// Entries to skip.
    pub(crate) fn offset(&self) -> i64 {
        (self.number - 1).saturating_mul(self.size)
    }

    /// The envelope of this page out of `total` entries.
    pub(crate) fn envelope(&self, total: i64, data: &str) -> String {
        self.envelope_with(&[], total, data)
    }

    /// The same with messages.
    pub(crate) fn envelope_with(&self, messages: &[String], total: i64, data: &str) -> String {
        let pages = total / self.size + i64::from(total % self.size != 0);
        let pagination = Pagination {
            current_page: self.number,
            total_number_of_entries: total,
            total_number_of_pages: pages,
        };
        envelope_with("Success", messages, data, Some(&pagination))
    }
}

/// A query parameter that must be a whole number from 1; one too large for the document's int32 counts as the
/// largest.
pub(crate) fn positive(query: &HashMap<String, String>, name: &str) -> Result<Option<i64>, Refusal> {
    let Some(text) = query.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse().unwrap_or(i64::MAX).min(i64::from(i32::MAX));
    if digits && value >= 1 {
        return Ok(Some(value));
    }
    Err(Refusal::bad_request(format!(
        "The query parameter {name} must be a whole number from 1, not '{text}'."
    )))
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
            ("1", "201", Some((1, 200))),
            ("99999999999999999999999", "1", Some((2_147_483_647, 1))),
            ("0", "10", None),
            ("1", "0", None),
            ("-1", "10", None),
            ("abc", "10", None),
            ("1.5", "10", None),
        ] {
            let page = Page::from_query(&query(&[("pageNumber", number), ("resultsPerPage", size)])).ok();
            assert_eq!(page, expected.map(|(number, size)| Page { number, size }), "{number} {size}");
        }
    }

    #[test]
    fn pages_are_counted_up() {
        let page = Page { number: 2, size: 25 };
        assert!(page.envelope(26, "[]").contains(r#""TotalNumberOfPages":2"#));
        assert!(page.envelope(25, "[]").contains(r#""TotalNumberOfPages":1"#));
        assert!(page.envelope(0, "[]").contains(r#""TotalNumberOfPages":0"#));
    }
}
