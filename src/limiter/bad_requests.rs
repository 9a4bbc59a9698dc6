//! Bad-request budget: answers of 400 in the last 24 h. Pure; docs/rules.md 19.
//!
//! Two thresholds stop calls well before the platform does. At the soft one bulk pushes stop, because they cause most
//! 400s and can wait. At the hard one every operation that was answered 400 within the day stops, in every lane. Calls
//! in flight count towards it, because all of them may be answered 400.
//!
//! The throttle may come nevertheless, because of other software of the same consumer or a lost database. Then reads
//! continue, the first of them alone as after any refusal of the account, and writes wait for the end of the day.

use super::LimiterEvent;
use super::instant::AdmissionWait;
use crate::model::time::DAY;
use crate::model::{CallEffect, Lane, Moment, Operation};
use std::collections::VecDeque;

/// Soft threshold in percent of the day's allowance. The rest gives an operator time to find the cause.
const SOFT_PERCENT: u64 = 60;
/// Hard threshold in percent of the day's allowance. With 500 a day it is 400, minus the calls in flight.
/// With all slots of all operations in use (60), docs/rules.md 19 holds and 40 are left for lost answers.
const HARD_PERCENT: u64 = 80;

#[derive(Debug, Default)]
pub(super) struct BadRequestBudget {
    pub(super) answers: VecDeque<(Moment, Operation)>,
    /// Time of the platform's own throttle.
    pub(super) exhausted: Option<Moment>,
}

impl BadRequestBudget {
    pub(super) fn from_persisted(mut answers: Vec<(Moment, Operation)>, exhausted: Option<Moment>) -> Self {
        answers.sort_unstable();
        Self { answers: answers.into(), exhausted }
    }

    /// Counts an answer of 400 towards `a_day`. Returns the event of the threshold that this reached, if any.
    pub(super) fn record_bad_request(
        &mut self,
        operation: Operation,
        a_day: u32,
        now: Moment,
    ) -> Option<LimiterEvent> {
        self.remove_expired(now);
        self.answers.push_back((now, operation));
        let count = self.bad_request_count();
        match thresholds(a_day) {
            (_, hard) if count == hard => Some(LimiterEvent::HardThreshold { count }),
            (soft, _) if count == soft => Some(LimiterEvent::SoftThreshold { count }),
            _ => None,
        }
    }

    /// Records the throttle: only reads for a day. Returns the end of that day.
    pub(super) fn mark_exhausted(&mut self, now: Moment) -> Moment {
        self.exhausted = Some(now);
        now.plus(DAY)
    }

    pub(super) fn remove_expired(&mut self, now: Moment) {
        while self.answers.front().is_some_and(|(at, _)| at.plus(DAY) <= now) {
            self.answers.pop_front();
        }
        self.exhausted = self.exhausted.filter(|since| since.plus(DAY) > now);
    }

    /// Returns the answers of 400 in the last 24 h, as of the last sweep.
    pub(super) fn bad_request_count(&self) -> u32 {
        u32::try_from(self.answers.len()).unwrap_or(u32::MAX)
    }

    /// Checks a call against the budget, with `in_flight` other calls and `a_day` answers of 400 allowed.
    pub(super) fn check_call(
        &self,
        operation: Operation,
        lane: Lane,
        in_flight: u32,
        a_day: u32,
    ) -> Result<(), AdmissionWait> {
        if let Some(since) = self.exhausted
            && operation.effect() == CallEffect::Write
        {
            return Err(AdmissionWait::Until(since.plus(DAY)));
        }
        let (count, (soft, hard)) = (self.bad_request_count(), thresholds(a_day));
        let pushes_stop = lane == Lane::Push && count >= soft;
        let near = self.exhausted.is_some() || count.saturating_add(in_flight) >= hard;
        let stopped = pushes_stop || near && self.answers.iter().any(|(_, answered)| *answered == operation);
        match self.answers.front() {
            Some((oldest, _)) if stopped => Err(AdmissionWait::Until(oldest.plus(DAY))),
            _ => Ok(()),
        }
    }
}

/// Returns the soft and the hard threshold for `a_day` answers, at least 1. A threshold of 0 would stop
/// calls before any answer of 400.
pub(super) fn thresholds(a_day: u32) -> (u32, u32) {
    let threshold = |percent| u32::try_from(u64::from(a_day) * percent / 100).unwrap_or(u32::MAX).max(1);
    (threshold(SOFT_PERCENT), threshold(HARD_PERCENT))
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

    fn budget_with(count: u32, operation: Operation) -> BadRequestBudget {
        BadRequestBudget::from_persisted(
            (0..count).map(|n| (Moment(i64::from(n)), operation)).collect(),
            None,
        )
    }

    #[test]
    fn calls_stop_at_their_thresholds() {
        let tomorrow = Err(AdmissionWait::Until(hour(24)));
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
            let go = budget_with(count, answered).check_call(operation, lane, in_flight, 500);
            assert_eq!(go, expected, "{count} of {answered}, {in_flight} in flight: {operation} in {lane:?}");
        }
    }

    #[test]
    fn a_threshold_is_reported_once() {
        let mut budget = BadRequestBudget::default();
        let events: Vec<_> = (1..=10).map(|n| budget.record_bad_request(PUSH, 10, Moment(n))).collect();
        let mut expected = vec![None; 10];
        expected[5] = Some(LimiterEvent::SoftThreshold { count: 6 });
        expected[7] = Some(LimiterEvent::HardThreshold { count: 8 });
        assert_eq!(events, expected);
    }

    #[test]
    fn an_answer_counts_for_a_day() {
        let mut budget = budget_with(300, PUSH);
        budget.remove_expired(hour(24));
        assert_eq!(budget.bad_request_count(), 299);
        assert_eq!(budget.check_call(PUSH, Lane::Push, 0, 500), Ok(()));
    }

    #[test]
    fn an_exhausted_budget_lets_reads_go_and_writes_after_a_day() {
        let mut budget = BadRequestBudget::default();
        budget.record_bad_request(READ, 500, hour(-1));
        budget.mark_exhausted(hour(0));
        let go = |budget: &BadRequestBudget, operation| budget.check_call(operation, Lane::Operator, 1, 500);
        assert_eq!(go(&budget, PUSH), Err(AdmissionWait::Until(hour(24))));
        assert_eq!(go(&budget, READ), Err(AdmissionWait::Until(hour(23))), "it has answered 400");
        assert_eq!(go(&budget, Operation::ListWarehouses), Ok(()));
        budget.remove_expired(hour(24));
        assert_eq!(go(&budget, PUSH), Ok(()));
    }
}
