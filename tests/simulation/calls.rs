//! The auditor's own count of the calls: the times of arrival at the platform and of departure.

use std::collections::BTreeMap;

/// The account's limits (docs/interface.md, *Limits*).
const WINDOW_MS: i64 = 60_000;
const AT_ONCE: usize = 3;

#[derive(Debug, Default)]
pub struct Calls {
    /// (arrival, departure, operation); a call without a departure stays open.
    calls: Vec<(i64, Option<i64>, &'static str)>,
}

impl Calls {
    /// Records the arrival of a call and returns its number.
    pub fn arrived(&mut self, operation: &'static str, at_ms: i64) -> usize {
        self.calls.push((at_ms, None, operation));
        self.calls.len() - 1
    }

    pub fn left(&mut self, number: usize, at_ms: i64) {
        self.calls[number].1 = Some(at_ms);
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Asserts the limits of the account.
    ///
    /// # Panics
    /// If any 60 s hold more arrivals than `limit`, or if an operation had more than three calls at once.
    pub fn judge(&self, limit: usize) {
        let mut arrivals: Vec<i64> = self.calls.iter().map(|(at, ..)| *at).collect();
        arrivals.sort_unstable();
        for window in arrivals.windows(limit + 1) {
            let (first, last) = (window[0], window[limit]);
            assert!(
                last - first >= WINDOW_MS,
                "{} calls within {} ms, from {first} on",
                limit + 1,
                last - first
            );
        }
        let mut moves: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
        for (arrived, left, operation) in &self.calls {
            let moves = moves.entry(operation).or_default();
            moves.push((*arrived, 1));
            moves.extend(left.map(|left| (left, -1)));
        }
        for (operation, mut moves) in moves {
            moves.sort_unstable();
            let mut under_way = 0;
            for (at, by) in moves {
                under_way += by;
                assert!(under_way <= AT_ONCE as i64, "{under_way} calls of {operation} at once, at {at}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "3 calls within 59999 ms")]
fn a_call_too_much_in_a_minute_is_seen() {
    let mut calls = Calls::default();
    for at in [0, 30_000, 59_999] {
        let call = calls.arrived("an operation", at);
        calls.left(call, at + 10);
    }
    calls.judge(3);
    calls.judge(2);
}

#[test]
#[should_panic(expected = "4 calls of an operation at once")]
fn a_fourth_call_at_once_is_seen() {
    let mut calls = Calls::default();
    for at in 0..4 {
        calls.arrived("an operation", at);
    }
    calls.judge(120);
}
