//! Effect of each call outcome on the quota (docs/rules.md 30, 31, 33).

use super::admission::{Admission, CallGrant};
use super::bad_requests::BadRequestThreshold;
use super::dual_instant::DualInstant;
use super::hold::{HoldReason, HoldScope};
use super::outcome::{LimiterEvent, QuotaOutcome};
use std::time::Duration;

impl Admission {
    /// Records the outcome of a call and returns the changes.
    ///
    /// The slot becomes free or lingers, and the reservation ends one window from now. All holds that follow
    /// from the outcome are in force before another call is granted.
    pub(super) fn complete_call(
        &mut self,
        grant: CallGrant,
        outcome: QuotaOutcome,
        now: DualInstant,
    ) -> Vec<LimiterEvent> {
        self.remove_expired(now.moment);
        let held = self.window.reservations();
        self.window.record_answer(now.moment);
        self.free_slot(grant, outcome, now);
        let mut notices = self.apply_outcome(grant, outcome, held, now);
        if self.adaptive_limit.take_recovered(now.moment) {
            notices.push(LimiterEvent::LimitRecovered);
        }
        self.run_admission(None, now.moment);
        notices
    }

    fn free_slot(&mut self, grant: CallGrant, outcome: QuotaOutcome, now: DualInstant) {
        if outcome == QuotaOutcome::TimedOut {
            self.slots.release_slot_late(grant.operation, now.moment);
        } else {
            self.slots.release_slot(grant.operation);
        }
        let admitted =
            matches!(outcome, QuotaOutcome::Answered | QuotaOutcome::BadRequest | QuotaOutcome::RefusedKey);
        if admitted {
            self.bad_requests.record_answered(grant.granted_at);
            self.adaptive_limit.record_answer(grant.granted_at);
            self.lockout.end_lockout();
            self.refused_since = self.refused_since.filter(|since| grant.granted_at <= *since);
        }
        if outcome != QuotaOutcome::ConcurrencyThrottled {
            self.holds.record_completion(grant.operation, admitted);
        }
    }

    /// Applies the outcome. `held`: the reservations in use at the answer, the call's own included.
    fn apply_outcome(
        &mut self,
        grant: CallGrant,
        outcome: QuotaOutcome,
        held: u32,
        now: DualInstant,
    ) -> Vec<LimiterEvent> {
        match outcome {
            QuotaOutcome::Answered | QuotaOutcome::NotSent | QuotaOutcome::TimedOut => Vec::new(),
            QuotaOutcome::BadRequest => self.bad_request(grant, now),
            QuotaOutcome::RateThrottled(wait) => self.rate_throttled(grant, wait, held, now),
            QuotaOutcome::ConcurrencyThrottled => self.concurrency_throttled(grant, now),
            QuotaOutcome::BadRequestThrottled(wait) => self.bad_request_throttled(wait, now),
            QuotaOutcome::RefusedKey if grant.operation.carries_id() => Vec::new(),
            QuotaOutcome::RefusedKey => {
                let why = format!("{} was answered 403", grant.operation);
                let new = self.holds.refuse_key(why, now.moment);
                self.hold_started(new, HoldScope::Key, HoldReason::RefusedKey, now)
            }
        }
    }

    fn bad_request(&mut self, grant: CallGrant, now: DualInstant) -> Vec<LimiterEvent> {
        let line = self.bad_requests.record_bad_request(
            grant.operation,
            self.settings.bad_requests_per_day,
            now.moment,
        );
        let count = self.bad_requests.bad_request_count();
        let notice = line.map(|line| match line {
            BadRequestThreshold::Soft => LimiterEvent::SoftThreshold { count },
            BadRequestThreshold::Hard => LimiterEvent::HardThreshold { count },
        });
        notice.into_iter().collect()
    }

    fn rate_throttled(
        &mut self,
        grant: CallGrant,
        wait: Duration,
        held: u32,
        now: DualInstant,
    ) -> Vec<LimiterEvent> {
        let new = self.holds.hold_account(HoldReason::Rate, wait, now.moment);
        let mut notices = self.hold_started(new, HoldScope::Account, HoldReason::Rate, now);
        self.refused_since = Some(now.moment);
        if self.adaptive_limit.record_throttle(held, self.settings.own_limit(), grant.granted_at, now.moment)
        {
            let permille = self.adaptive_limit.permille(now.moment);
            notices.push(LimiterEvent::LimitReduced {
                permille,
                limit: self.current_limit(now.moment),
                reservations: held,
            });
        }
        notices
    }

    fn concurrency_throttled(&mut self, grant: CallGrant, now: DualInstant) -> Vec<LimiterEvent> {
        let others = self.slots.in_flight(grant.operation);
        let new = self.holds.hold_shared_operation(grant.operation, others, grant.granted_at, now.moment);
        let mut notices =
            self.hold_started(new, HoldScope::Operation(grant.operation), HoldReason::Concurrency, now);
        if self.refused_since.is_none_or(|since| grant.granted_at > since)
            && let Some(silence) = self.lockout.record_refusal(grant.operation)
        {
            let new = self.holds.hold_account(HoldReason::Blocked, silence, now.moment);
            self.refused_since = Some(now.moment);
            notices.extend(self.hold_started(new, HoldScope::Account, HoldReason::Blocked, now));
        }
        notices
    }

    fn bad_request_throttled(&mut self, wait: Duration, now: DualInstant) -> Vec<LimiterEvent> {
        let new = self.holds.hold_account(HoldReason::BadRequests, wait, now.moment);
        let mut notices = self.hold_started(new, HoldScope::Account, HoldReason::BadRequests, now);
        self.bad_requests.mark_exhausted(now.moment);
        let until = self.bad_requests.reads_only_until().unwrap_or(now.moment);
        notices.push(LimiterEvent::BudgetExhausted { until: now.to_timestamp(until) });
        notices
    }

    /// Returns the notice of a hold that was just set, if `new`.
    pub(super) fn hold_started(
        &self,
        new: bool,
        scope: HoldScope,
        reason: HoldReason,
        now: DualInstant,
    ) -> Vec<LimiterEvent> {
        let holds = self.holds.active_holds(now).into_iter();
        let set = holds.filter(|hold| new && hold.scope == scope && hold.reason == reason);
        set.map(LimiterEvent::HoldStarted).collect()
    }
}
