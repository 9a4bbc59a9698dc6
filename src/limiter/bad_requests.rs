//! Bad-request budget: answers of 400 in the last 24 h. Pure; docs/rules.md 33.
//!
//! The platform refuses *all* calls of a consumer after too many answers of 400 in 24 h. See
//! docs/interface.md, *Limits*: bad-request throttling. Two thresholds stop calls well before that. At the
//! soft one bulk pushes stop, because they cause most 400s and can wait. At the hard one every operation that
//! was answered 400 within the day stops, in every lane. Calls in flight count towards the hard threshold,
//! because all of them may be answered 400.
//!
//! The throttle may come nevertheless, because of other software of the same consumer or a lost database.
//! Then the budget is exhausted for a day: one read goes alone, and after its answer reads continue and
//! writes wait for the end of the day.
//!
//! A 400 whose answer was lost is not counted. The distance between the hard threshold and the platform's
//! limit covers such answers.

use super::wait::Wait;
use crate::model::{Effect, Lane, Moment, Operation};
use std::collections::VecDeque;
use std::time::Duration;

/// Time for which the platform counts an answer of 400.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Soft threshold in percent of the day's allowance. The rest gives an operator time to find the cause.
const SOFT_PERCENT: u64 = 60;
/// Hard threshold in percent of the day's allowance.
///
/// With 500 a day it is 400, minus the calls in flight. With all slots of all operations in use (60),
/// docs/rules.md 33 holds and 40 are left for lost answers.
const HARD_PERCENT: u64 = 80;

/// A threshold that was just reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Soft,
    Hard,
}

/// Answers of 400 in the last 24 h.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    answers: VecDeque<(Moment, Operation)>,
    full: Option<Full>,
}

/// State after the platform has throttled us for bad requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full {
    pub(super) since: Moment,
    /// True once a call granted later was answered.
    pub(super) proved: bool,
}

impl Ledger {
    /// Restores the budget of an earlier run.
    pub(super) fn restored(
        answers: impl IntoIterator<Item = (Moment, Operation)>,
        full: Option<Full>,
    ) -> Self {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.sort_unstable();
        Self { answers: answers.into(), full }
    }

    /// Counts an answer of 400 towards `a_day`. Returns the threshold that this reached, if any.
    pub(super) fn record(&mut self, operation: Operation, a_day: u32, now: Moment) -> Option<Line> {
        self.sweep(now);
        self.answers.push_back((now, operation));
        match self.count() {
            count if count == line(a_day, HARD_PERCENT) => Some(Line::Hard),
            count if count == line(a_day, SOFT_PERCENT) => Some(Line::Soft),
            _ => None,
        }
    }

    /// Records the throttle: only reads for a day, and the first of them alone.
    pub(super) fn fill(&mut self, now: Moment) {
        self.full = Some(Full { since: now, proved: false });
    }

    /// Records that a call granted at `granted` was answered.
    pub(super) fn prove(&mut self, granted: Moment) {
        if let Some(full) = &mut self.full {
            full.proved |= granted > full.since;
        }
    }

    /// Removes entries older than a day.
    pub(super) fn sweep(&mut self, now: Moment) {
        while self.answers.front().is_some_and(|(at, _)| at.plus(DAY) <= now) {
            self.answers.pop_front();
        }
        self.full = self.full.filter(|full| full.since.plus(DAY) > now);
    }

    /// Returns the answers of 400 in the last 24 h, as of the last sweep.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.answers.len()).unwrap_or(u32::MAX)
    }

    /// Returns the counted answers, oldest first.
    pub(super) fn answers(&self) -> impl Iterator<Item = (Moment, Operation)> {
        self.answers.iter().copied()
    }

    /// Returns the throttle in force, if any.
    pub(super) fn full(&self) -> Option<Full> {
        self.full
    }

    /// Returns the end of the time in which only reads are sent.
    pub(super) fn full_until(&self) -> Option<Moment> {
        self.full.map(|full| full.since.plus(DAY))
    }

    /// Checks a call against the budget, with `in_flight` other calls and `a_day` answers of 400 allowed.
    pub(super) fn go(
        &self,
        operation: Operation,
        lane: Lane,
        in_flight: u32,
        a_day: u32,
    ) -> Result<(), Wait> {
        if let Some(full) = self.full {
            if operation.effect() == Effect::Write {
                return Err(Wait::Until(full.since.plus(DAY)));
            }
            if !full.proved && in_flight > 0 {
                return Err(Wait::Event);
            }
        }
        let pushes_stop = lane == Lane::Push && self.count() >= line(a_day, SOFT_PERCENT);
        let near = self.full.is_some() || self.count().saturating_add(in_flight) >= line(a_day, HARD_PERCENT);
        let stopped = pushes_stop || near && self.answers.iter().any(|(_, answered)| *answered == operation);
        match self.answers.front() {
            Some((oldest, _)) if stopped => Err(Wait::Until(oldest.plus(DAY))),
            _ => Ok(()),
        }
    }
}

/// Returns the soft and the hard threshold for `a_day` answers.
pub(super) fn lines(a_day: u32) -> (u32, u32) {
    (line(a_day, SOFT_PERCENT), line(a_day, HARD_PERCENT))
}

/// Returns a threshold of at least 1, because 0 would stop calls before any answer of 400.
fn line(a_day: u32, percent: u64) -> u32 {
    u32::try_from(u64::from(a_day) * percent / 100).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: Operation = Operation::UpdateQuantityOnHand;
    const CREATE: Operation = Operation::CreateProduct;
    const READ: Operation = Operation::GetProducts;

    fn hour(n: i64) -> Moment {
        Moment(n * 3_600_000)
    }

    fn with(count: u32, operation: Operation) -> Ledger {
        Ledger::restored((0..count).map(|n| (Moment(i64::from(n)), operation)), None)
    }

    #[test]
    fn who_stops_at_which_count() {
        let tomorrow = Err(Wait::Until(hour(24)));
        // (answers of 400, their operation, in flight) → (operation, lane) may be sent?
        let cases = [
            ((299, PUSH, 60), (PUSH, Lane::Push), Ok(())),
            ((300, PUSH, 0), (PUSH, Lane::Push), tomorrow),
            ((300, PUSH, 0), (CREATE, Lane::Push), tomorrow),
            ((300, PUSH, 0), (PUSH, Lane::Operator), Ok(())),
            ((300, PUSH, 0), (READ, Lane::Poll), Ok(())),
            ((399, PUSH, 0), (PUSH, Lane::Operator), Ok(())),
            ((399, PUSH, 1), (PUSH, Lane::Operator), tomorrow),
            ((340, PUSH, 60), (PUSH, Lane::Operator), tomorrow),
            ((400, PUSH, 0), (PUSH, Lane::Operator), tomorrow),
            ((400, PUSH, 0), (CREATE, Lane::Operator), Ok(())),
            ((400, READ, 0), (READ, Lane::Poll), tomorrow),
            ((400, READ, 0), (Operation::WorkQueue, Lane::Poll), Ok(())),
        ];
        for ((count, answered, in_flight), (operation, lane), expected) in cases {
            let go = with(count, answered).go(operation, lane, in_flight, 500);
            assert_eq!(go, expected, "{count} of {answered}, {in_flight} in flight: {operation} in {lane:?}");
        }
    }

    #[test]
    fn reaching_a_line_is_said_once() {
        let mut ledger = Ledger::default();
        let said: Vec<_> = (1..=10).map(|n| ledger.record(PUSH, 10, Moment(n))).collect();
        let mut expected = vec![None; 10];
        expected[5] = Some(Line::Soft);
        expected[7] = Some(Line::Hard);
        assert_eq!(said, expected);
    }

    #[test]
    fn an_answer_counts_for_a_day() {
        let mut ledger = with(300, PUSH);
        ledger.sweep(hour(24));
        assert_eq!(ledger.count(), 299);
        assert_eq!(ledger.go(PUSH, Lane::Push, 0, 500), Ok(()));
    }

    #[test]
    fn a_full_ledger_lets_one_read_go_alone_then_reads_and_writes_after_a_day() {
        let mut ledger = Ledger::default();
        ledger.record(READ, 500, hour(-1));
        ledger.fill(hour(0));
        let polls = Operation::ListWarehouses;
        let go = |ledger: &Ledger, operation, in_flight| ledger.go(operation, Lane::Operator, in_flight, 500);
        assert_eq!(go(&ledger, PUSH, 0), Err(Wait::Until(hour(24))));
        assert_eq!(go(&ledger, READ, 0), Err(Wait::Until(hour(23))), "it has answered 400");
        assert_eq!(go(&ledger, polls, 0), Ok(()));
        assert_eq!(go(&ledger, polls, 1), Err(Wait::Event), "the first goes alone");

        ledger.prove(hour(0));
        assert_eq!(go(&ledger, polls, 1), Err(Wait::Event), "that call was out before the throttle");
        ledger.prove(hour(1));
        assert_eq!(go(&ledger, polls, 1), Ok(()));
        assert_eq!(go(&ledger, PUSH, 1), Err(Wait::Until(hour(24))));

        ledger.sweep(hour(24));
        assert_eq!(go(&ledger, PUSH, 1), Ok(()));
    }
}
