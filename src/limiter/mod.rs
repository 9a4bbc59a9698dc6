//! The account's call quota: admission of every call to the platform.
//!
//! The platform counts the calls of an account over a sliding minute and refuses calls beyond the quota. Refused calls
//! count too (docs/interface.md, *Limits*). [`Limiter::acquire`] waits until a call may be sent, and
//! [`Permit::complete_call`] records its outcome. Three mechanisms work together; docs/performance.md, *The quota in a
//! backlog*, has what each alone would do:
//!
//! - **The sliding window** (`window.rs`) keeps the quota. A call holds its reservation from before the send
//!   until 60 s after its answer, so jitter, stalls and late answers cannot put two calls into the same
//!   minute of the platform.
//! - **The pacer** (`pacer.rs`) spreads bulk calls, so that an urgent call between them waits half a second.
//! - **Two reserved calls** that bulk calls leave free: an urgent call does not wait at all.
//!
//! A call also needs a free slot of its operation, no hold on it, and room in the bad-request budget. The adaptive limit
//! lowers the quota while other software uses the account. After the platform has refused the whole account, calls go
//! one at a time until one is admitted. Lanes (`queue.rs`) are priority classes with guaranteed turns: a poll waits at
//! most 4 s behind endless pushes, and any call a minute behind a rush of operators' calls (`tests/lanes.rs`).
//!
//! Limits: other software on the account is not noticed before its first 429, so instances that share an account set
//! `limits.share`. Calls that bypass the limiter are not counted, and a restart is safe only with the contents of
//! [`PersistedState`]. A wait has no upper bound; a caller that drops the future leaves no trace. The limiter writes no
//! log: the caller, which knows the run, logs and stores the [`LimiterEvent`]s.

mod adaptive_limit;
mod admission;
mod bad_requests;
mod completion;
mod hold;
mod holds;
mod instant;
mod lockout;
mod pacer;
mod permit;
mod persisted;
mod queue;
mod quota_usage;
mod settings;
mod slots;
mod window;

#[cfg(test)]
mod tests;

pub(crate) use completion::{LimiterEvent, QuotaOutcome};
pub use hold::HoldReason;
pub(crate) use hold::HoldScope;
pub(crate) use permit::Permit;
pub(crate) use persisted::EndingHold;
pub(crate) use persisted::LimiterState;
pub(crate) use persisted::{BadRequestStatus, QuotaStatus};
pub use persisted::{PastReservation, PersistedState};
pub(crate) use quota_usage::QuotaUsage;
pub use settings::LimiterSettings;
pub(crate) use window::QUOTA_WINDOW;

use crate::model::{Clock, Lane, Moment, Operation};
use admission::Admission;
use holds::ActiveHolds;
use instant::{AdmissionWait, DualInstant};
use queue::Waiter;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacePayment {
    Paced,
    /// The freshness read before this write has paid for both. The write goes before calls of
    /// its lane that have not paid.
    Paid,
}

/// Handle to the quota of the account. Clones share one state. A process has one limiter for each account.
#[derive(Clone)]
pub struct Limiter {
    shared: Arc<LimiterShared>,
}

/// State shared by all handles. The mutex is never held across an await.
struct LimiterShared {
    admission: Mutex<Admission>,
    clock: Arc<dyn Clock>,
}

impl LimiterShared {
    /// Locks the state; a poisoned mutex is used, because at worst one call too many is counted.
    fn lock_admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the state, at the time before it is locked.
    fn with_admission<T>(&self, work: impl FnOnce(&mut Admission, DualInstant) -> T) -> T {
        let now = DualInstant::from_clock(self.clock.as_ref());
        work(&mut self.lock_admission(), now)
    }
}

impl Limiter {
    pub(crate) fn new(settings: LimiterSettings, clock: Arc<dyn Clock>, state: PersistedState) -> Self {
        let admission = Admission::from_persisted(settings, state, DualInstant::from_clock(clock.as_ref()));
        Self { shared: Arc::new(LimiterShared { admission: Mutex::new(admission), clock }) }
    }

    /// Waits for its turn, a reservation, the pace, a slot and the end of every hold. Cancel-safe: dropping
    /// the future leaves the queue and reserves nothing.
    pub(crate) async fn acquire(&self, operation: Operation, lane: Lane, pace: PacePayment) -> Permit {
        let waiter = self.shared.lock_admission().queue.add_call(operation, lane, pace);
        let ticket = QueueTicket { shared: &self.shared, waiter };
        loop {
            let check = |admission: &mut Admission, now: DualInstant| {
                (admission.check_ticket(ticket.waiter.ticket_id, now.moment), now.moment)
            };
            let (next, now) = self.shared.with_admission(check);
            match next {
                Ok(grant) => return Permit::new(Arc::clone(&self.shared), grant),
                Err(wait) => ticket.sleep_until_wake(wait, now).await,
            }
        }
    }

    /// Applies other settings. Calls in flight or in the window stay counted.
    pub(crate) fn reconfigure(&self, settings: LimiterSettings) {
        self.shared.with_admission(|admission, now| {
            admission.settings = settings;
            admission.run_admission(None, now.moment);
        });
    }

    /// Holds all lanes but the probe lane, because the platform does not accept the key. Returns false if the key is
    /// refused already.
    pub fn refuse_key(&self) -> bool {
        !std::mem::replace(&mut self.shared.lock_admission().holds.is_key_refused, true)
    }

    pub(crate) fn lift_refusal(&self) {
        self.end_hold(|holds, _| holds.is_key_refused = false);
    }

    /// Ends the wait ordered for the account, by an operator's decision. Returns its
    /// reason if one was in force.
    pub(crate) fn lift_order(&self) -> Option<HoldReason> {
        self.end_hold(ActiveHolds::lift_order)
    }

    fn end_hold<T>(&self, end: impl FnOnce(&mut ActiveHolds, Moment) -> T) -> T {
        self.shared.with_admission(|admission, now| {
            let ended = end(&mut admission.holds, now.moment);
            admission.run_admission(None, now.moment);
            ended
        })
    }

    pub fn is_refused(&self) -> bool {
        self.shared.lock_admission().holds.is_key_refused
    }

    /// Returns the state for the next start; only [`PersistedState::limiter_state`] must be stored.
    pub fn persisted_state(&self) -> PersistedState {
        self.shared.with_admission(Admission::persisted_state)
    }

    pub fn quota_usage(&self) -> QuotaUsage {
        self.shared.with_admission(Admission::quota_usage)
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limiter").field(&*self.shared.lock_admission()).finish()
    }
}

/// Queue entry of one call. Dropping the ticket removes the entry.
struct QueueTicket<'a> {
    shared: &'a LimiterShared,
    waiter: Waiter,
}

impl QueueTicket<'_> {
    /// Sleeps until notified, or until the time in `wait`, for at most a window. Tokio's timer stops while the machine
    /// is suspended, so a call that became admissible meanwhile is admitted at most this long after the wake-up.
    async fn sleep_until_wake(&self, wait: AdmissionWait, now: Moment) {
        let notified = self.waiter.notify.notified();
        match wait {
            AdmissionWait::Event => notified.await,
            AdmissionWait::Until(due) => {
                let sleep = due.duration_since(now).clamp(Duration::from_millis(1), QUOTA_WINDOW);
                tokio::select! {
                    biased;
                    () = notified => {}
                    () = self.shared.clock.sleep(sleep) => {}
                }
            }
        }
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        self.shared
            .with_admission(|admission, now| admission.cancel_ticket(self.waiter.ticket_id, now.moment));
    }
}
