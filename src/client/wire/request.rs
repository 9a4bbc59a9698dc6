//! What all requests share: the error for one that must not be sent, and the paging parameters.

use crate::client::Request;
use crate::model::Operation;

/// A request the service would answer with 400, or that would do something nobody asked for. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} was not sent: {field} {why}")]
pub struct Invalid {
    /// The operation it was meant for.
    pub operation: Operation,
    /// The field at fault, as the document writes it, with its place in a list.
    pub field: String,
    /// What is wrong with it and what would be right.
    pub why: String,
}

impl Invalid {
    pub(super) fn new(operation: Operation, field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { operation, field: field.into(), why: why.into() }
    }
}

/// Which page of a list is asked for (*Endpoints*, `pageNumber` and `resultsPerPage`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    number: u32,
    size: u32,
}

impl Paging {
    /// The largest page the service gives (*Limits*).
    pub const MAX_SIZE: u32 = 200;

    /// The first page of the largest size.
    pub const FIRST: Paging = Paging { number: 1, size: Self::MAX_SIZE };

    /// Page `number`, counted from 1, with `size` records, 1 to 200; `None` for any other.
    pub fn new(number: u32, size: u32) -> Option<Self> {
        (number >= 1 && (1..=Self::MAX_SIZE).contains(&size)).then_some(Self { number, size })
    }

    /// The page after this one.
    pub fn next(self) -> Self {
        Self { number: self.number.saturating_add(1), ..self }
    }

    /// The page's number, from 1.
    pub fn number(self) -> u32 {
        self.number
    }
}

impl Request {
    /// With the parameters of a page.
    pub(super) fn page(self, paging: Paging) -> Self {
        self.with("pageNumber", Some(paging.number)).with("resultsPerPage", Some(paging.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_within_the_services_limits_or_none() {
        let cases = [(1, 200, true), (1, 1, true), (0, 25, false), (1, 0, false), (1, 201, false)];
        for (number, size, valid) in cases {
            assert_eq!(Paging::new(number, size).is_some(), valid, "{number} {size}");
        }
        assert_eq!(Paging::FIRST.next(), Paging::new(2, 200).unwrap());
    }
}
