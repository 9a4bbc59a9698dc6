//! State that the limiter needs at its start, so that a restart does not evade the quota.

use super::adaptive_limit::AdaptiveLimit;
use super::admission::Admission;
use super::bad_requests::{BadRequestBudget, ExhaustedBudget};
use super::dual_instant::DualInstant;
use super::hold::Hold;
use super::holds::ActiveHolds;
use super::settings::LimiterSettings;
use super::window::SlidingWindow;
use crate::model::{Moment, Operation, Timestamp};
use serde::{Deserialize, Serialize};

/// State of earlier runs.
///
/// `places` and `bad_requests` come from the journal, because only the commit before a send survives a crash.
/// `kept` is [`Limiter::memory`](super::Limiter::persisted_state)`().kept`, stored whenever a
/// [`LimiterEvent`](super::LimiterEvent) reports a change of it. An empty memory is right for a new database only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistedState {
    /// Calls of the last minutes.
    ///
    /// *After a restart on the same boot*: every call answered within the last two minutes as
    /// [`PastReservation::Answered`] with the moment of its answer; older answers are ignored. Every call given up
    /// without an answer as [`PastReservation::GivenUp`]. Every claimed call without a conclusion as
    /// [`PastReservation::Unanswered`], regardless of its age.
    ///
    /// *On another boot* the journal's moments are meaningless, and the calendar may have been set. Then the
    /// list is the newest `calls_per_minute` calls of the journal, each as [`PastReservation::Answered`] with the
    /// moment of the start.
    pub reservations: Vec<PastReservation>,
    /// Answers of 400 in the last 24 h with their operations; older ones are ignored.
    ///
    /// Answers of another boot get the moment computed from their timestamps. Timestamps alone are not
    /// enough: a calendar set ahead by an hour between two starts dropped an hour of answers. In a million
    /// simulated calls 525 then came within a day.
    pub bad_requests: Vec<(Moment, Operation)>,
    /// State that the journal does not contain.
    pub limiter_state: LimiterState,
}

/// A reservation made by an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastReservation {
    /// Ends 60 s after this moment; a moment in the future counts as the start.
    Answered(Moment),
    /// Ends likewise. Its slot is free the grace time after this moment, because the platform may still work
    /// on the call.
    GivenUp(Operation, Moment),
    /// May still be in flight: ends 60 s after the start, and its slot is free after the grace time.
    Unanswered(Operation),
}

/// Stored state in calendar time, so that it survives a reboot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimiterState {
    /// The holds in force.
    ///
    /// A hold of an operation being judged is returned too. The program must continue the judging after the
    /// start, or release the operation.
    pub holds: Vec<Hold>,
    /// Adaptive limit after its last reduction, in thousandths, and the time of that reduction.
    pub last_reduction: Option<(u32, Timestamp)>,
    /// Time of the last unexpected 429.
    pub guarded_since: Option<Timestamp>,
    /// Time of the throttle for bad requests, and true if a call was answered since.
    ///
    /// If the flag is out of date, one more call goes alone.
    pub budget_exhausted: Option<(Timestamp, bool)>,
}

impl Admission {
    /// Restores the state of a starting program from earlier runs.
    pub(super) fn from_persisted(
        settings: LimiterSettings,
        memory: PersistedState,
        now: DualInstant,
    ) -> Self {
        let mut admission = Self::new(settings);
        let PersistedState { reservations: places, bad_requests, limiter_state: kept } = memory;
        let answered = places.iter().map(|place| match place {
            PastReservation::Answered(at) | PastReservation::GivenUp(_, at) => *at,
            PastReservation::Unanswered(_) => now.moment,
        });
        admission.window = SlidingWindow::from_answers(answered, now.moment);
        for place in &places {
            match place {
                PastReservation::Answered(_) => {}
                PastReservation::GivenUp(operation, at) => {
                    admission.slots.add_lingering(*operation, (*at).min(now.moment))
                }
                PastReservation::Unanswered(operation) => {
                    admission.slots.add_lingering(*operation, now.moment)
                }
            }
        }
        let full = kept
            .budget_exhausted
            .map(|(since, proved)| ExhaustedBudget { since: now.past_moment(since), is_proved: proved });
        admission.bad_requests = BadRequestBudget::from_persisted(bad_requests, full);
        admission.holds = ActiveHolds::from_persisted(&kept.holds, now);
        admission.adaptive_limit = AdaptiveLimit {
            last_reduction: kept.last_reduction.map(|(permille, since)| (permille, now.past_moment(since))),
            guarded_since: kept.guarded_since.map(|since| now.past_moment(since)),
            is_proved: true,
        };
        admission.remove_expired(now.moment);
        admission
    }

    /// Returns the state for the next start.
    pub(super) fn persisted_state(&mut self, now: DualInstant) -> PersistedState {
        self.remove_expired(now.moment);
        let answered = self.window.answered_times().map(PastReservation::Answered);
        let unanswered = self.slots.operations_in_flight().map(PastReservation::Unanswered);
        let kept = LimiterState {
            holds: self.holds.active_holds(now),
            last_reduction: self
                .adaptive_limit
                .last_reduction
                .map(|(permille, since)| (permille, now.to_timestamp(since))),
            guarded_since: self.adaptive_limit.guarded_since.map(|since| now.to_timestamp(since)),
            budget_exhausted: self
                .bad_requests
                .exhausted_budget()
                .map(|full| (now.to_timestamp(full.since), full.is_proved)),
        };
        PersistedState {
            reservations: answered.chain(unanswered).collect(),
            bad_requests: self.bad_requests.counted_answers().collect(),
            limiter_state: kept,
        }
    }
}
