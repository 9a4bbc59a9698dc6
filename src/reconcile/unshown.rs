//! Answers that do not show a requested product.
//!
//! Contains the kinds of lack, their messages, and the time of the next check.

use crate::model::{Sku, Timestamp, WarehouseId, code_enum};
use std::time::Duration;

const CHECK_INTERVAL_MIN: Duration = Duration::from_secs(5);
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(30 * 60);

code_enum! {
    /// The way in which the last answer lacked a product.
    pub enum ProductLack {
        /// The answer holds other requested products, and not this product.
        Absent = "absent",
        /// The answer holds no requested product, so that it proves nothing.
        Silent = "silent",
        /// The record is unreadable, or an unreadable record may be this product's.
        Unreadable = "unreadable",
        /// A part of the record is unreadable.
        Partial = "partial",
    }
}

impl ProductLack {
    /// Returns true if the answer may have been empty.
    ///
    /// Other SKUs in the next request then distinguish a failing platform from an absent product.
    pub(crate) fn needs_confirmation(self) -> bool {
        matches!(self, ProductLack::Absent | ProductLack::Silent)
    }

    /// Returns the detail of a change that is held for the lack.
    ///
    /// With `warehouse` the detail concerns a stock level, else the whole product.
    pub(crate) fn hold_detail(self, sku: &Sku, warehouse: Option<WarehouseId>) -> String {
        let shows = match self {
            ProductLack::Absent => format!(
                "the platform returns other SKUs and no record of `{sku}`; if the product is gone, cancel the change"
            ),
            ProductLack::Silent => format!(
                "the platform returns nothing for `{sku}`, and no other SKU is known that could tell a platform fault \
                 from a removed product; check there, and cancel the change if the product is gone"
            ),
            ProductLack::Unreadable => {
                format!("the platform's record of `{sku}` cannot be read; correct it there")
            }
            ProductLack::Partial => {
                let level = warehouse.map(|id| format!(" and shows no quantity in warehouse {id}"));
                let level = level.unwrap_or_default();
                format!("the platform's record of `{sku}` cannot be read in full{level}; correct it there")
            }
        };
        format!(
            "{shows}. tallyd checks again by itself, and sends the change once an answer shows the product"
        )
    }
}

/// Returns the time of the next check for a change held at `held` and last checked at `checked`.
///
/// The delay equals the time since the hold, so that it doubles with each check: about ten checks in the
/// first hour.
pub(crate) fn next_check(held: Timestamp, checked: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match checked.unwrap_or(held) {
        // The calendar was set back.
        last if last > now => now,
        last => last.plus(last.duration_since(held).clamp(CHECK_INTERVAL_MIN, CHECK_INTERVAL_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_rarer_and_never_stop() {
        let held = Timestamp(1_000_000);
        let (mut checked, mut delays) = (held, Vec::new());
        while checked.duration_since(held) < Duration::from_secs(3600) {
            checked = next_check(held, Some(checked), checked);
            delays.push(checked.duration_since(held).as_secs());
        }
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 4360]);
        assert_eq!(next_check(held, None, held), held.plus(CHECK_INTERVAL_MIN), "never checked");
        assert_eq!(next_check(held, Some(Timestamp(9_000_000)), held), held, "the calendar was set back");
    }

    #[test]
    fn every_lack_is_found_by_its_code_and_names_the_missing_part() {
        let sku = Sku::new("A-1").unwrap();
        for lack in ProductLack::ALL.iter().copied() {
            assert_eq!(ProductLack::from_code(lack.as_str()), Some(lack));
            for warehouse in [None, Some(WarehouseId(7))] {
                let sentence = lack.hold_detail(&sku, warehouse);
                assert!(sentence.contains("`A-1`") && sentence.contains("by itself"), "{sentence}");
            }
        }
        assert_eq!(ProductLack::from_code("gone"), None);
    }
}
