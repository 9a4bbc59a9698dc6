//! Right to send one call: a reservation in the window and a slot of its operation.

use super::LimiterShared;
use super::admission::CallGrant;
use super::outcome::{LimiterEvent, QuotaOutcome};
use std::sync::Arc;

/// Right to send one call.
///
/// [Conclude](Self::complete_call) it with the outcome. A permit dropped without a conclusion counts as given up
/// at that instant. This is safe while the task that waits for the answer owns the permit.
#[must_use = "a permit dropped unused still costs a place for 60 s; give it back instead"]
pub struct Permit {
    shared: Arc<LimiterShared>,
    /// `None` once concluded.
    grant: Option<CallGrant>,
}

impl Permit {
    pub(super) fn new(office: Arc<LimiterShared>, grant: CallGrant) -> Self {
        Self { shared: office, grant: Some(grant) }
    }

    /// Records the outcome of the call. Returns the changes, which the caller logs and stores.
    #[must_use = "what changed has to be logged and kept"]
    pub fn complete_call(mut self, outcome: QuotaOutcome) -> Vec<LimiterEvent> {
        self.end_grant(outcome)
    }

    /// Gives the reservation to the next call at once. Only if nothing was sent and no claim was committed.
    pub fn return_unused(mut self) {
        if let Some(grant) = self.grant.take() {
            let now = self.shared.moment();
            self.shared.lock_admission().return_grant(grant, now);
        }
    }

    /// Returns true if no hold set since the grant stops the call.
    ///
    /// Check it last before the send, because another call may have been throttled during the claim. On false
    /// [give the permit back](Self::return_unused) and acquire a new one.
    pub fn may_send(&self) -> bool {
        let now = self.shared.moment();
        self.grant.is_some_and(|grant| self.shared.lock_admission().may_send(grant, now))
    }

    /// Runs another call first and keeps this reservation. Where calls go one at a time, the other call may
    /// go.
    pub async fn keep_while<F: Future>(&self, other: F) -> F::Output {
        let _kept = KeptReservation::new(&self.shared);
        other.await
    }

    fn end_grant(&mut self, outcome: QuotaOutcome) -> Vec<LimiterEvent> {
        let Some(grant) = self.grant.take() else { return Vec::new() };
        let now = self.shared.now();
        self.shared.lock_admission().complete_call(grant, outcome, now)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // The notices are dropped. A call given up makes none but `ShareRecovered`, and `Budget` shows the
        // limit too.
        drop(self.end_grant(QuotaOutcome::TimedOut));
    }
}

/// A kept reservation, for the lifetime of the guard.
struct KeptReservation<'a>(&'a LimiterShared);

impl<'a> KeptReservation<'a> {
    fn new(office: &'a LimiterShared) -> Self {
        let now = office.moment();
        let mut admission = office.lock_admission();
        admission.kept_reservations += 1;
        admission.run_admission(None, now);
        Self(office)
    }
}

impl Drop for KeptReservation<'_> {
    fn drop(&mut self) {
        self.0.lock_admission().kept_reservations -= 1;
    }
}
