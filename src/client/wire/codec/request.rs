//! Paging parameters of the requests for lists.

use crate::client::PlatformRequest;

/// Page of a list (*Endpoints*, `pageNumber` and `resultsPerPage`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageParams {
    number: u32,
    size: u32,
}

impl PageParams {
    /// Largest page of the platform (*Limits*).
    pub(crate) const MAX_SIZE: u32 = 200;

    /// First page of the largest size.
    pub(crate) const FIRST: PageParams = PageParams { number: 1, size: Self::MAX_SIZE };

    /// Creates page `number`, from 1, with `size` records, 1 to 200; `None` outside of these bounds.
    #[cfg(test)]
    pub(crate) fn new(number: u32, size: u32) -> Option<Self> {
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
