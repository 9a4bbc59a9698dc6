//! Whose fault an impossible quantity is (rules.md 9).
//!
//! Only the final result counts: a cell may pass below zero on the way. Of the wishes, the one with which the
//! running total left the range for good is held, and nobody else for its sake.

use crate::model::Quantity;
use crate::outbox::Reason;

/// What drives a total out of range, and the total with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Culprit {
    /// What the adjusts start from.
    Start {
        /// Below or above.
        reason: Reason,
        /// The total.
        result: i64,
    },
    /// One of the adjusts.
    Adjust {
        /// Which.
        index: usize,
        /// Below or above.
        reason: Reason,
        /// The total.
        result: i64,
    },
}

/// The culprit, if `start` plus all `deltas` cannot be written. Without `may_blame_start` (it is a fact, not a
/// count) an adjust is to blame, be it that the service itself is out of range.
pub(super) fn culprit(start: i64, deltas: &[i64], may_blame_start: bool) -> Option<Culprit> {
    let result = deltas.iter().fold(start, |total, delta| total.saturating_add(*delta));
    let reason = if result < 0 { Reason::Negative } else { Reason::TooLarge };
    let outside = |total: i64| if result < 0 { total < 0 } else { total > Quantity::MAX.0 };
    if !outside(result) {
        return None;
    }
    if let Some(index) = last_crossing(start, deltas, outside) {
        return Some(Culprit::Adjust { index, reason, result });
    }
    if may_blame_start {
        return Some(Culprit::Start { reason, result });
    }
    let worsens = |delta: &i64| if result < 0 { *delta < 0 } else { *delta > 0 };
    let index = deltas.iter().rposition(worsens).or(deltas.len().checked_sub(1))?;
    Some(Culprit::Adjust { index, reason, result })
}

/// The last adjust that took the total from inside to outside.
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
    fn the_wish_that_leaves_the_range_for_good_is_to_blame() {
        const MAX: i64 = Quantity::MAX.0;
        let adjust = |index, reason, result| Some(Culprit::Adjust { index, reason, result });
        // (start, adjusts, whether the start is a count) → who
        let cases: [(i64, &[i64], bool, Option<Culprit>); 16] = [
            (50, &[-50], false, None),
            (50, &[-51], false, adjust(0, Reason::Negative, -1)),
            // Below zero on the way is no harm.
            (50, &[-60, 20], false, None),
            (50, &[-40, -40, 20], false, adjust(1, Reason::Negative, -10)),
            // Zero is in the range still.
            (50, &[-50, -1], false, adjust(1, Reason::Negative, -1)),
            // Back above in between: the later one is to blame.
            (50, &[-60, 20, -20], false, adjust(2, Reason::Negative, -10)),
            (-3, &[], true, Some(Culprit::Start { reason: Reason::Negative, result: -3 })),
            (-3, &[-4], true, Some(Culprit::Start { reason: Reason::Negative, result: -7 })),
            (-3, &[5, -4], true, adjust(1, Reason::Negative, -2)),
            // The service itself is below zero (oversold).
            (-5, &[3], false, adjust(0, Reason::Negative, -2)),
            (-5, &[-1, 3], false, adjust(0, Reason::Negative, -3)),
            (-5, &[-1, 0], false, adjust(0, Reason::Negative, -6)),
            // Or above it: only what makes it worse is to blame.
            (MAX + 3, &[1, -1, 0], false, adjust(0, Reason::TooLarge, MAX + 3)),
            (-5, &[], false, None),
            (MAX, &[1], false, adjust(0, Reason::TooLarge, MAX + 1)),
            (MAX, &[1, -1], false, None),
        ];
        for (start, deltas, is_count, expected) in cases {
            assert_eq!(culprit(start, deltas, is_count), expected, "{start} {deltas:?}");
        }
    }
}
