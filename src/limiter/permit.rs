//! Right to send one call: a reservation in the window and a slot of its operation.
//!
//! A permit dropped without an outcome counts as given up at that instant. This is safe while the task that waits for
//! the answer owns the permit.

use super::admission::CallGrant;
use super::{LimiterEvent, LimiterShared, QuotaOutcome};
use std::sync::Arc;

#[must_use = "a permit dropped unused still costs a reservation for 60 s; call return_unused instead"]
pub(crate) struct Permit {
    shared: Arc<LimiterShared>,
    grant: Option<CallGrant>,
}

impl Permit {
    pub(super) fn new(shared: Arc<LimiterShared>, grant: CallGrant) -> Self {
        Self { shared, grant: Some(grant) }
    }

    /// Records the outcome of the call. Returns the changes, which the caller logs and stores.
    #[must_use = "the events have to be logged and stored"]
    pub(crate) fn complete_call(mut self, outcome: QuotaOutcome) -> Vec<LimiterEvent> {
        self.end_grant(outcome)
    }

    /// Gives the reservation to the next call at once. Only if nothing was sent and no claim was committed.
    pub(crate) fn return_unused(mut self) {
        if let Some(grant) = self.grant.take() {
            self.shared.with_admission(|admission, now| admission.return_grant(grant, now.moment));
        }
    }

    /// Returns true if no hold set since the grant stops the call. Check it last before the send, and on
    /// false acquire a new permit.
    pub(crate) fn may_send(&self) -> bool {
        self.shared.with_admission(|admission, now| {
            self.grant.is_some_and(|grant| admission.may_send(grant, now.moment))
        })
    }

    /// Runs another call first and keeps this reservation. Where calls go one at a
    /// time, the other call may go.
    pub(crate) async fn keep_while<F: Future>(&self, other: F) -> F::Output {
        let _kept = KeptReservation::new(&self.shared);
        other.await
    }

    fn end_grant(&mut self, outcome: QuotaOutcome) -> Vec<LimiterEvent> {
        let Some(grant) = self.grant.take() else { return Vec::new() };
        self.shared.with_admission(|admission, now| admission.complete_call(grant, outcome, now))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // A call given up causes `LimitRecovered` only, and `QuotaUsage` has the limit.
        drop(self.end_grant(QuotaOutcome::TimedOut));
    }
}

struct KeptReservation<'a>(&'a LimiterShared);

impl<'a> KeptReservation<'a> {
    fn new(shared: &'a LimiterShared) -> Self {
        shared.with_admission(|admission, now| {
            admission.kept_reservations += 1;
            admission.run_admission(None, now.moment);
        });
        Self(shared)
    }
}

impl Drop for KeptReservation<'_> {
    fn drop(&mut self) {
        self.0.lock_admission().kept_reservations -= 1;
    }
}
