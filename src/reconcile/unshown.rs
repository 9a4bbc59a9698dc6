//! Answers that do not show a requested product.
//!
//! Contains the kinds of lack, their messages, and the time at which they are asked for again.

use crate::model::{Sku, Timestamp, code_enum};
use std::time::Duration;

const ASK_INTERVAL_MIN: Duration = Duration::from_secs(5);
/// The platform may never show it, and a poll that shows it ends the wait earlier.
const ASK_INTERVAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

code_enum! {
    /// The way in which the last answer lacked a product.
    pub(crate) enum ProductLack {
        /// The answer holds no record of the product.
        Absent = "absent",
        /// The record, or a part of it, is unreadable; or an unreadable record may be this product's.
        Unreadable = "unreadable",
    }
}

impl ProductLack {
    /// Returns the detail of a change that is held for the lack.
    pub(crate) fn hold_detail(self, sku: &Sku) -> String {
        let shows = match self {
            ProductLack::Absent => format!("the platform returns no record of `{sku}`"),
            ProductLack::Unreadable => format!("the platform's record of `{sku}` cannot be read in full"),
        };
        format!(
            "{shows}. tallyd checks again by itself, and sends the change once an answer shows the product; cancel the \
             change if the product is gone"
        )
    }
}

/// Returns the time at which what no answer showed is asked for again. It was first not shown at `first`, and last
/// at `last`.
///
/// The delay equals the time since `first`, so that it doubles each time: about ten times in the first hour.
pub(crate) fn next_ask(first: Timestamp, last: Timestamp, now: Timestamp) -> Timestamp {
    // The calendar was set back.
    if last > now {
        return now;
    }
    last.plus(last.duration_since(first).clamp(ASK_INTERVAL_MIN, ASK_INTERVAL_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_become_rarer_and_never_stop() {
        let first = Timestamp(1_000_000);
        let (mut last, mut delays) = (first, Vec::new());
        while last.duration_since(first) < Duration::from_secs(3600) {
            last = next_ask(first, last, last);
            delays.push(last.duration_since(first).as_secs());
        }
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120]);
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(next_ask(first, first.plus(day * 9), first.plus(day * 9)), first.plus(day * 10));
        assert_eq!(next_ask(first, Timestamp(9_000_000), first), first, "the calendar was set back");
    }

    #[test]
    fn every_lack_is_found_by_its_code_and_names_the_missing_part() {
        let sku = Sku::new("A-1").unwrap();
        for lack in ProductLack::ALL.iter().copied() {
            assert_eq!(ProductLack::from_code(lack.as_str()), Some(lack));
            let sentence = lack.hold_detail(&sku);
            assert!(sentence.contains("`A-1`") && sentence.contains("by itself"), "{sentence}");
        }
        assert_eq!(ProductLack::from_code("gone"), None);
    }
}
