//! State that the limiter needs at its start, so that a restart does not evade the quota.
//!
//! `status` reads the stored state too, because the limiter may be in another process or not running.

use super::adaptive_limit::AdaptiveLimit;
use super::admission::Admission;
use super::bad_requests::{self, BadRequestBudget};
use super::hold::{Hold, HoldReason, HoldScope};
use super::holds::ActiveHolds;
use super::instant::DualInstant;
use super::settings::LimiterSettings;
use super::window::SlidingWindow;
use crate::model::time::DAY;
use crate::model::{Moment, Operation, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// State of earlier runs. `reservations` and `bad_requests` come from the journal, because only the commit
/// before a send survives a crash. `limiter_state` is stored whenever a [`LimiterEvent`](super::LimiterEvent)
/// reports a change of it. An empty state is right for a new database only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistedState {
    /// Calls of the last minutes. After a restart on the same boot: every answered call of the last two
    /// minutes, every call given up, and every claimed call without an outcome, of whatever age. On another
    /// boot the moments of the journal are meaningless: then the newest calls, each as just answered.
    pub reservations: Vec<PastReservation>,
    /// Answers of 400 in the last 24 h with their operations; older ones are ignored. Those of another boot
    /// get the moment computed from their timestamps.
    pub bad_requests: Vec<(Moment, Operation)>,
    pub limiter_state: LimiterState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastReservation {
    /// Ends 60 s after this moment; a moment in the future counts as the start.
    Answered(Moment),
    /// Ends 60 s after its quiet time, which begins at this moment. Its slot is free the grace time after this moment,
    /// because the platform may still work on the call. A call that may still be in flight is given up at the start.
    GivenUp(Operation, Moment),
}

/// Stored state in calendar time, so that it survives a reboot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimiterState {
    /// The holds in force. Those that end by an event are not restored.
    pub holds: Vec<Hold>,
    /// Adaptive limit after its last reduction, in thousandths, and the time of that reduction.
    pub last_reduction: Option<(u32, Timestamp)>,
    /// Time of the last unexpected 429.
    pub guarded_since: Option<Timestamp>,
    /// Time of the throttle for bad requests. After a start one call goes alone.
    pub budget_exhausted: Option<Timestamp>,
}

impl Admission {
    pub(super) fn from_persisted(settings: LimiterSettings, state: PersistedState, now: DualInstant) -> Self {
        let mut admission = Self::new(settings);
        let PersistedState { reservations, bad_requests, limiter_state: stored } = state;
        let mut answered = Vec::new();
        for reservation in reservations {
            let (at, operation) = match reservation {
                PastReservation::Answered(at) => (at.min(now.moment), None),
                PastReservation::GivenUp(operation, at) => (at.min(now.moment), Some(operation)),
            };
            if let Some(operation) = operation {
                admission.slots.add_lingering(operation, at);
            }
            answered.push(if operation.is_some() { at.plus(admission.settings.quiet_time) } else { at });
        }
        admission.window = SlidingWindow::from_answers(answered);
        let exhausted = stored.budget_exhausted.map(|since| now.past_moment(since));
        admission.refused_since = exhausted;
        admission.bad_requests = BadRequestBudget::from_persisted(bad_requests, exhausted);
        admission.holds = ActiveHolds::from_persisted(&stored.holds, now);
        admission.adaptive_limit = AdaptiveLimit {
            last_reduction: stored.last_reduction.map(|(permille, at)| (permille, now.past_moment(at))),
            guarded_since: stored.guarded_since.map(|since| now.past_moment(since)),
        };
        admission.remove_expired(now.moment);
        admission
    }

    pub(super) fn persisted_state(&mut self, now: DualInstant) -> PersistedState {
        self.remove_expired(now.moment);
        let answered = self.window.answer_times.iter().copied().map(PastReservation::Answered);
        let in_flight = self.slots.operations_in_flight();
        let unanswered = in_flight.map(|operation| PastReservation::GivenUp(operation, now.moment));
        let limit = self.adaptive_limit;
        let BadRequestBudget { answers, exhausted } = &self.bad_requests;
        PersistedState {
            reservations: answered.chain(unanswered).collect(),
            bad_requests: answers.iter().copied().collect(),
            limiter_state: LimiterState {
                holds: self.holds.active_holds(now),
                last_reduction: limit.last_reduction.map(|(permille, at)| (permille, now.to_timestamp(at))),
                guarded_since: limit.guarded_since.map(|since| now.to_timestamp(since)),
                budget_exhausted: exhausted.map(|since| now.to_timestamp(since)),
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndingHold {
    /// The operation that the hold stops, or `account`.
    pub what: String,
    pub reason: HoldReason,
    pub since: Timestamp,
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct QuotaStatus {
    pub holds: Vec<EndingHold>,
    /// The adaptive limit, in thousandths of the configured part.
    pub share_permille: u32,
    /// The platform throttles us for bad requests: only reads are sent until this time.
    pub reads_only_until: Option<Timestamp>,
}

impl LimiterState {
    /// Returns the part of the state in force at `now`. Holds that end by an event are left out, because only
    /// the running limiter knows of the event.
    pub(crate) fn quota_status(&self, now: Timestamp) -> QuotaStatus {
        let holds = self.holds.iter().filter_map(|hold| {
            let until = hold.since.plus(Duration::from_millis(hold.duration_ms?));
            let what = match hold.scope {
                HoldScope::Account => "account".to_owned(),
                HoldScope::Slots(operation) => operation.to_string(),
            };
            (until > now).then_some(EndingHold { what, reason: hold.reason, since: hold.since, until })
        });
        let last_reduction = self.last_reduction.map(|(permille, at)| (permille, Moment(at.0)));
        let limit = AdaptiveLimit { last_reduction, ..AdaptiveLimit::default() };
        let share_permille = limit.permille(Moment(now.0));
        let reads_only_until =
            self.budget_exhausted.map(|since| since.plus(DAY)).filter(|until| *until > now);
        QuotaStatus { holds: holds.collect(), share_permille, reads_only_until }
    }
}

/// The bad-request budget and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadRequestStatus {
    /// Answers of 400 in the last 24 h.
    pub count: usize,
    /// Count at which bulk pushes stop.
    pub soft: u32,
    /// Count at which every operation that was answered 400 stops.
    pub hard: u32,
}

impl BadRequestStatus {
    /// Returns the budget after `count` answers of 400 in the last 24 h.
    pub(crate) fn new(count: usize, settings: &LimiterSettings) -> Self {
        let (soft, hard) = bad_requests::thresholds(settings.bad_requests_per_day);
        Self { count, soft, hard }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);
    const HOUR: Duration = Duration::from_hours(1);
    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn hold(ago_s: u64, duration_ms: Option<u64>) -> Hold {
        let (scope, reason) = (HoldScope::Account, HoldReason::BadRequests);
        let since = NOW.minus(Duration::from_secs(ago_s));
        Hold { scope, reason, since, duration_ms }
    }

    #[test]
    fn only_holds_in_force_are_shown_with_their_ends() {
        let state = LimiterState {
            holds: vec![hold(10, Some(60_000)), hold(70, Some(60_000)), hold(10, None)],
            last_reduction: Some((750, NOW.minus(MINUTE * 10))),
            budget_exhausted: Some(NOW.minus(HOUR)),
            ..LimiterState::default()
        };
        let status = state.quota_status(NOW);
        let ends: Vec<_> = status.holds.iter().map(|hold| hold.until).collect();
        assert_eq!(ends, [NOW.plus(Duration::from_secs(50))]);
        assert_eq!((status.share_permille, status.reads_only_until), (850, Some(NOW.plus(HOUR * 23))));
        let later = state.quota_status(NOW.plus(DAY));
        assert_eq!((later.holds.len(), later.share_permille, later.reads_only_until), (0, 1000, None));
    }
}
