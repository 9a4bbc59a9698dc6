//! The base of a count that names its moment: the fact it is measured against (rules.md 3). What a count that was made
//! when it was inserted stands on, and what an explicit `seen` matches, the database stores at the insertion.
//!
//! A base is fixed once. Choosing it late is what the rule forbids: a daemon that was down over the weekend
//! would measure Friday's count against Monday's stock, and sell the weekend's thirty a second time.

use super::{Base, Pair};
use crate::model::Timestamp;
use std::time::Duration;

/// A fact of the cell, and when its request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastFact {
    /// The fact with our share at that time. For a read that fell into a write of ours, the last certain pair.
    pub pair: Pair,
    /// When the request was sent.
    pub observed_at: Timestamp,
}

/// The base of a count made at `counted_at`: the last fact before it if that was younger than `max_age`, else the
/// first after it if that came within `max_age`. Where both show the same pair it is the base however far apart they
/// are: nobody moved the cell between them. `history` is the cell's facts, oldest first.
pub fn at_count(counted_at: Timestamp, history: &[PastFact], max_age: Duration) -> Base {
    let split = history.partition_point(|fact| fact.observed_at <= counted_at);
    let (before, after) = history.split_at(split);
    let around = before.last().zip(after.first());
    if let Some((fact, _)) = around.filter(|(fact, next)| fact.pair == next.pair) {
        return Base::Known(fact.pair);
    }
    if let Some(fact) = before.last().filter(|fact| counted_at.since(fact.observed_at) <= max_age) {
        return Base::Known(fact.pair);
    }
    match after.first() {
        Some(fact) if fact.observed_at.since(counted_at) <= max_age => Base::Known(fact.pair),
        Some(_) => Base::Missed,
        None => Base::Awaited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Quantity;

    const MAX_AGE: Duration = Duration::from_secs(900);

    fn fact(second: i64, quantity: i64, ours: i64) -> PastFact {
        PastFact { pair: Pair { quantity: Quantity(quantity), ours }, observed_at: Timestamp(second * 1000) }
    }

    fn known(quantity: i64, ours: i64) -> Base {
        Base::Known(Pair { quantity: Quantity(quantity), ours })
    }

    #[test]
    fn a_count_is_measured_against_the_fact_nearest_before_it_then_after_it() {
        // The count is made at second 10,000.
        let cases = [
            ("a fact a minute before", vec![fact(9_940, 50, 0)], known(50, 0)),
            ("exactly as old as allowed", vec![fact(9_100, 50, 0)], known(50, 0)),
            ("too old, nothing since", vec![fact(9_099, 50, 0)], Base::Awaited),
            ("never read", vec![], Base::Awaited),
            ("too old, read soon after", vec![fact(9_000, 50, 0), fact(10_030, 48, 0)], known(48, 0)),
            (
                "the first read after it is too late",
                vec![fact(9_000, 50, 0), fact(10_901, 20, 0)],
                Base::Missed,
            ),
            ("a later fact changes nothing", vec![fact(9_940, 50, 0), fact(10_030, 20, 0)], known(50, 0)),
            ("the same for days on both sides", vec![fact(1, 50, 0), fact(90_000, 50, 0)], known(50, 0)),
            ("ours moved between", vec![fact(1, 50, 0), fact(90_000, 50, 3)], Base::Missed),
            ("the newest before it", vec![fact(9_800, 60, 0), fact(9_940, 50, -3)], known(50, -3)),
        ];
        for (name, history, expected) in cases {
            assert_eq!(at_count(Timestamp(10_000_000), &history, MAX_AGE), expected, "{name}");
        }
    }

    #[test]
    fn down_over_the_weekend_monday_is_no_base_for_fridays_count() {
        let monday = fact(10_000 + 60 * 3_600, 20, 0);
        assert_eq!(at_count(Timestamp(10_000_000), &[monday], MAX_AGE), Base::Missed);
    }
}
