//! The account's limits, counted as the platform does and checked at each arrival.

use std::collections::{BTreeMap, VecDeque};

/// The account's limits (docs/interface.md, *Limits*).
const WINDOW_MS: i64 = 60_000;
const AT_ONCE: usize = 3;

/// The daemon's calls.
#[derive(Debug, Default)]
pub struct Quota {
    /// Arrivals of the last minute.
    recent: VecDeque<i64>,
    running: BTreeMap<&'static str, usize>,
    limit: usize,
    /// Limit in force before, and the time until which calls may be counted by it.
    before: Option<(usize, i64)>,
    pub calls: u64,
    /// The most calls in any minute.
    pub most: usize,
}

impl Quota {
    /// Sets the calls per minute; calls begun before count by the limit in force then.
    pub fn allow(&mut self, limit: usize, at_ms: i64) {
        let before = self.allowed(at_ms);
        self.before = (self.limit > 0).then_some((before, at_ms + 2 * WINDOW_MS));
        self.limit = limit;
    }

    fn allowed(&self, at_ms: i64) -> usize {
        let before = self.before.filter(|(_, until)| at_ms < *until).map_or(0, |(limit, _)| limit);
        self.limit.max(before)
    }

    /// Records the arrival of a call; returns a violation if it breaks a limit.
    pub fn arrived(&mut self, operation: &'static str, at_ms: i64) -> Option<String> {
        self.calls += 1;
        while self.recent.front().is_some_and(|at| at_ms - at >= WINDOW_MS) {
            self.recent.pop_front();
        }
        self.recent.push_back(at_ms);
        self.most = self.most.max(self.recent.len());
        let running = self.running.entry(operation).or_default();
        *running += 1;
        if *running > AT_ONCE {
            return Some(format!("{running} calls of {operation} at once"));
        }
        let (many, allowed) = (self.recent.len(), self.allowed(at_ms));
        (many > allowed).then(|| format!("{many} calls within a minute, {allowed} are ours"))
    }

    /// Records the departure of a call.
    pub fn left(&mut self, operation: &'static str) {
        if let Some(running) = self.running.get_mut(operation) {
            *running = running.saturating_sub(1);
        }
    }
}

#[test]
fn a_call_too_much_is_seen_when_it_arrives() {
    let mut quota = Quota::default();
    quota.allow(3, 0);
    for at in [0, 30_000, 59_998] {
        assert_eq!(quota.arrived("a", at), None);
        quota.left("a");
    }
    assert!(quota.arrived("b", 59_999).is_some_and(|why| why.contains("4 calls within a minute")));
    let mut quota = Quota::default();
    quota.allow(120, 0);
    let judged: Vec<bool> = (0..4).map(|at| quota.arrived("a", at).is_some()).collect();
    assert_eq!(judged, [false, false, false, true], "a fourth at once");
}
