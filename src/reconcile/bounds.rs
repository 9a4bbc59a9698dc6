//! Finds the change that drives a quantity out of range (docs/rules.md 5).
//!
//! Only the final result is tested: the running total may be negative in between. The change with which the
//! running total left the range for the last time is held, and no other change.

use crate::model::Quantity;
use crate::outbox::Reason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfRange {
    /// Index of the adjust in `deltas`; `None` for the start value.
    pub(super) culprit: Option<usize>,
    pub(super) reason: Reason,
    pub(super) result: i64,
}

/// Returns the culprit if `start` plus all `deltas` is out of range. Without `may_blame_start`, `start` is a
/// fact and no count. Then an adjust is returned even if the fact itself is out of range.
pub(super) fn find_offending(start: i64, deltas: &[i64], may_blame_start: bool) -> Option<OutOfRange> {
    let result = deltas.iter().fold(start, |total, delta| total.saturating_add(*delta));
    let reason = if result < 0 { Reason::Negative } else { Reason::TooLarge };
    let outside = |total: i64| if result < 0 { total < 0 } else { total > Quantity::MAX.0 };
    if !outside(result) {
        return None;
    }
    let mut culprit = last_crossing(start, deltas, outside);
    if culprit.is_none() && !may_blame_start {
        let worsens = |delta: &i64| if result < 0 { *delta < 0 } else { *delta > 0 };
        culprit = Some(deltas.iter().rposition(worsens).or(deltas.len().checked_sub(1))?);
    }
    Some(OutOfRange { culprit, reason, result })
}

/// Returns the last adjust that took the total from inside to outside.
fn last_crossing(start: i64, deltas: &[i64], outside: impl Fn(i64) -> bool) -> Option<usize> {
    let mut total = start;
    let mut crossing = None;
    for (index, delta) in deltas.iter().enumerate() {
        let before = total;
        total = total.saturating_add(*delta);
        if !outside(before) && outside(total) {
            crossing = Some(index);
        }
    }
    crossing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_that_leaves_the_range_is_held() {
        const MAX: i64 = Quantity::MAX.0;
        let adjust = |index, reason, result| Some(OutOfRange { culprit: Some(index), reason, result });
        let count = |reason, result| Some(OutOfRange { culprit: None, reason, result });
        // Columns: start, adjusts, start is a count, expected culprit.
        let cases: [(i64, &[i64], bool, Option<OutOfRange>); 16] = [
            (50, &[-50], false, None),
            (50, &[-51], false, adjust(0, Reason::Negative, -1)),
            // A negative total in between is accepted.
            (50, &[-60, 20], false, None),
            (50, &[-40, -40, 20], false, adjust(1, Reason::Negative, -10)),
            // Zero is in the range.
            (50, &[-50, -1], false, adjust(1, Reason::Negative, -1)),
            // The total returned above zero in between: the later adjust is to blame.
            (50, &[-60, 20, -20], false, adjust(2, Reason::Negative, -10)),
            (-3, &[], true, count(Reason::Negative, -3)),
            (-3, &[-4], true, count(Reason::Negative, -7)),
            (-3, &[5, -4], true, adjust(1, Reason::Negative, -2)),
            // The platform's quantity is negative (oversold).
            (-5, &[3], false, adjust(0, Reason::Negative, -2)),
            (-5, &[-1, 3], false, adjust(0, Reason::Negative, -3)),
            (-5, &[-1, 0], false, adjust(0, Reason::Negative, -6)),
            // The platform's quantity is above the range: the last adjust that makes it worse is to blame.
            (MAX + 3, &[1, -1, 0], false, adjust(0, Reason::TooLarge, MAX + 3)),
            (-5, &[], false, None),
            (MAX, &[1], false, adjust(0, Reason::TooLarge, MAX + 1)),
            (MAX, &[1, -1], false, None),
        ];
        for (start, deltas, is_count, expected) in cases {
            assert_eq!(find_offending(start, deltas, is_count), expected, "{start} {deltas:?}");
        }
    }
}
