//! Outcomes of calls, and their effect on the quota (docs/rules.md 19).

use super::admission::{Admission, CallGrant};
use super::hold::{Hold, HoldReason, HoldScope};
use super::instant::DualInstant;
use super::lockout::Lockout;
use crate::model::{Moment, Timestamp};
use std::time::Duration;

/// Outcome of a call for the quota. The call's reservation lasts at least another 60 s after every outcome
/// (docs/rules.md 19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaOutcome {
    Answered,
    BadRequest,
    /// 429 with `Retry-After`: the whole account waits for that time. The wait is at least a second and at
    /// most a day. For an unreadable header the client passes 60 s (docs/rules.md 19).
    RateThrottled(Duration),
    /// 429 without `Retry-After`: the operation waits.
    ConcurrencyThrottled,
    /// 403 with `Retry-After`: the account waits for that time, and the bad-request
    /// budget is exhausted for a day.
    BadRequestThrottled(Duration),
    /// Proved not sent. The reservation lasts nevertheless, so the quota bounds even a loop without backoff
    /// in an outage.
    NotSent,
    /// Given up without an answer: the slot lingers for a grace time.
    TimedOut,
}

/// A change that the caller logs. Except for a threshold, it stores [`LimiterState`](super::LimiterState)
/// too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimiterEvent {
    /// A hold was set (`quota.hold`); [`LimiterState`](super::LimiterState) has changed.
    HoldStarted(Hold),
    /// Other software uses the account, and the adaptive limit fell (`quota.share`).
    LimitReduced { permille: u32, limit: u32, reservations: u32 },
    /// The adaptive limit is back at the configured part (`quota.share`).
    LimitRecovered,
    /// The answers of 400 in 24 h reached the soft threshold: bulk pushes stop.
    SoftThreshold { count: u32 },
    /// The answers of 400 reached the hard threshold: every operation that was answered 400 stops.
    HardThreshold { count: u32 },
    /// The platform throttles us for bad requests: only reads are sent until then.
    BudgetExhausted { until: Timestamp },
}

impl Admission {
    /// Records the outcome of a call and returns the changes. The slot becomes free or lingers, and the reservation
    /// ends one window from now, for a call given up one window from the end of its quiet time. All holds that follow
    /// from the outcome are in force before another call is granted.
    pub(super) fn complete_call(
        &mut self,
        grant: CallGrant,
        outcome: QuotaOutcome,
        now: DualInstant,
    ) -> Vec<LimiterEvent> {
        self.remove_expired(now.moment);
        let reservations = self.window.reservations();
        let quiet = if outcome == QuotaOutcome::TimedOut { self.settings.quiet_time } else { Duration::ZERO };
        self.window.record_answer(now.moment.plus(quiet));
        self.free_slot(grant, outcome, now.moment);
        let mut events = self.apply_outcome(grant, outcome, reservations, now);
        if self.adaptive_limit.take_recovered(now.moment) {
            events.push(LimiterEvent::LimitRecovered);
        }
        self.run_admission(None, now.moment);
        events
    }

    fn free_slot(&mut self, grant: CallGrant, outcome: QuotaOutcome, now: Moment) {
        self.slots.release_slot(grant.operation);
        if outcome == QuotaOutcome::TimedOut {
            self.slots.add_lingering(grant.operation, now);
        }
        let admitted = matches!(outcome, QuotaOutcome::Answered | QuotaOutcome::BadRequest);
        if admitted {
            self.lockout = Lockout::default();
            self.refused_since = self.refused_since.filter(|since| grant.granted_at <= *since);
        }
        if outcome != QuotaOutcome::ConcurrencyThrottled {
            self.holds.record_completion(grant.operation, admitted);
        }
    }

    fn apply_outcome(
        &mut self,
        grant: CallGrant,
        outcome: QuotaOutcome,
        reservations: u32,
        now: DualInstant,
    ) -> Vec<LimiterEvent> {
        let (CallGrant { operation, granted_at, .. }, at) = (grant, now.moment);
        let mut events = Vec::new();
        match outcome {
            QuotaOutcome::Answered | QuotaOutcome::NotSent | QuotaOutcome::TimedOut => {}
            QuotaOutcome::BadRequest => {
                let a_day = self.settings.bad_requests_per_day;
                events.extend(self.bad_requests.record_bad_request(operation, a_day, at));
            }
            QuotaOutcome::RateThrottled(wait) => {
                events.extend(self.hold_account(HoldReason::Rate, wait, now));
                let is_again = self.refused_since.replace(at).is_some();
                let counts = (reservations, self.settings.own_limit());
                if self.adaptive_limit.record_throttle(counts, (granted_at, at), is_again) {
                    let (permille, limit) = (self.adaptive_limit.permille(at), self.current_limit(at));
                    events.push(LimiterEvent::LimitReduced { permille, limit, reservations });
                }
            }
            QuotaOutcome::ConcurrencyThrottled => {
                let others = self.slots.in_flight(operation);
                let is_new = self.holds.hold_shared_operation(operation, others, granted_at, at);
                events.extend(self.hold_event(is_new, HoldScope::Slots(operation), now));
                if self.refused_since.is_none_or(|since| granted_at > since)
                    && let Some(wait) = self.lockout.record_refusal(operation)
                {
                    events.extend(self.hold_account(HoldReason::Blocked, wait, now));
                    self.refused_since = Some(at);
                }
            }
            QuotaOutcome::BadRequestThrottled(wait) => {
                events.extend(self.hold_account(HoldReason::BadRequests, wait, now));
                self.refused_since = Some(at);
                let until = now.to_timestamp(self.bad_requests.mark_exhausted(at));
                events.push(LimiterEvent::BudgetExhausted { until });
            }
        }
        events
    }

    fn hold_account(&mut self, reason: HoldReason, wait: Duration, now: DualInstant) -> Option<LimiterEvent> {
        let is_new = self.holds.hold_account(reason, wait, now.moment);
        self.hold_event(is_new, HoldScope::Account, now)
    }

    fn hold_event(&self, is_new: bool, scope: HoldScope, now: DualInstant) -> Option<LimiterEvent> {
        let mut holds = self.holds.active_holds(now).into_iter();
        holds.find(|hold| is_new && hold.scope == scope).map(LimiterEvent::HoldStarted)
    }
}
