//! Bases of counts with `counted_at`: the fact that the count is measured against (docs/rules.md 1).
//!
//! For all other counts the database stores the base, including the match of an explicit `seen`. The trigger
//! `outbox_after_insert` stores it at the insertion. `outbox_fix_bases_and_commit` stores it with the first
//! read after the insertion, if no recent fact was known.
//!
//! The database fixes a base once, because a base chosen later would hide sales. A daemon that was down
//! over the weekend would measure Friday's count against Monday's stock, and the weekend's 30 sold
//! units would be for sale again. With `counted_at` nothing is stored: [`base_at_count`] gives the base
//! again at each plan, from `balance_history`.

use super::{CountBase, QuantityState};
use crate::model::Timestamp;
use std::time::Duration;

/// A fact of the stock level with the time of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryFact {
    /// Fact and own delta at that time; for a read that overlapped a write, the last certain pair.
    pub state: QuantityState,
    pub observed_at: Timestamp,
}

/// Returns the base of a count made at `counted_at`. The base is the last fact before the count if that fact
/// is younger than `max_age`. Else the base is the first fact after the count, if it came within `max_age`.
/// If both facts show the same pair, the pair is the base at any distance, because no other client changed
/// the stock level between them. `history` is sorted, oldest first.
pub(crate) fn base_at_count(counted_at: Timestamp, history: &[HistoryFact], max_age: Duration) -> CountBase {
    let split = history.partition_point(|fact| fact.observed_at <= counted_at);
    let (before, after) = history.split_at(split);
    let neighbours = before.last().zip(after.first());
    if let Some((fact, _)) = neighbours.filter(|(fact, next)| fact.state == next.state) {
        return CountBase::Known(fact.state);
    }
    if let Some(fact) = before.last().filter(|fact| counted_at.duration_since(fact.observed_at) <= max_age) {
        return CountBase::Known(fact.state);
    }
    match after.first() {
        Some(fact) if fact.observed_at.duration_since(counted_at) <= max_age => CountBase::Known(fact.state),
        Some(_) => CountBase::Missed,
        None => CountBase::Awaited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Quantity;

    const MAX_AGE: Duration = Duration::from_secs(900);

    fn fact(second: i64, quantity: i64, own_delta: i64) -> HistoryFact {
        let state = QuantityState { quantity: Quantity(quantity), own_delta };
        HistoryFact { state, observed_at: Timestamp(second * 1000) }
    }

    fn known(quantity: i64, own_delta: i64) -> CountBase {
        CountBase::Known(QuantityState { quantity: Quantity(quantity), own_delta })
    }

    #[test]
    fn a_count_is_measured_against_the_fact_nearest_before_it_then_after_it() {
        // Every case counts at second 10,000.
        use CountBase::{Awaited, Missed};
        let cases = [
            ("a fact a minute before", vec![fact(9_940, 50, 0)], known(50, 0)),
            ("exactly as old as allowed", vec![fact(9_100, 50, 0)], known(50, 0)),
            ("too old, nothing since", vec![fact(9_099, 50, 0)], Awaited),
            ("never read", vec![], Awaited),
            ("too old, read soon after", vec![fact(9_000, 50, 0), fact(10_030, 48, 0)], known(48, 0)),
            ("the first read after it is too late", vec![fact(9_000, 50, 0), fact(10_901, 20, 0)], Missed),
            ("a later fact changes nothing", vec![fact(9_940, 50, 0), fact(10_030, 20, 0)], known(50, 0)),
            ("the same for days on both sides", vec![fact(1, 50, 0), fact(90_000, 50, 0)], known(50, 0)),
            ("our own delta changed between", vec![fact(1, 50, 0), fact(90_000, 50, 3)], Missed),
            ("the newest before it", vec![fact(9_800, 60, 0), fact(9_940, 50, -3)], known(50, -3)),
        ];
        for (name, history, expected) in cases {
            assert_eq!(base_at_count(Timestamp(10_000_000), &history, MAX_AGE), expected, "{name}");
        }
    }

    #[test]
    fn down_over_the_weekend_monday_is_no_base_for_fridays_count() {
        let monday = fact(10_000 + 60 * 3_600, 20, 0);
        assert_eq!(base_at_count(Timestamp(10_000_000), &[monday], MAX_AGE), CountBase::Missed);
    }
}
