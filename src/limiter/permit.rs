//! Right to send one call: a reservation in the window and a slot of its operation.

use super::Office;
use super::admission::Grant;
use super::outcome::{Notice, Outcome};
use std::sync::Arc;

/// Right to send one call.
///
/// [Conclude](Self::conclude) it with the outcome. A permit dropped without a conclusion counts as given up
/// at that instant. This is safe while the task that waits for the answer owns the permit.
#[must_use = "a permit dropped unused still costs a place for 60 s; give it back instead"]
pub struct Permit {
    office: Arc<Office>,
    /// `None` once concluded.
    grant: Option<Grant>,
}

impl Permit {
    pub(super) fn new(office: Arc<Office>, grant: Grant) -> Self {
        Self { office, grant: Some(grant) }
    }

    /// Records the outcome of the call. Returns the changes, which the caller logs and stores.
    #[must_use = "what changed has to be logged and kept"]
    pub fn conclude(mut self, outcome: Outcome) -> Vec<Notice> {
        self.end(outcome)
    }

    /// Gives the reservation to the next call at once. Only if nothing was sent and no claim was committed.
    pub fn give_back(mut self) {
        if let Some(grant) = self.grant.take() {
            let now = self.office.moment();
            self.office.desk().give_back(grant, now);
        }
    }

    /// Returns true if no hold set since the grant stops the call.
    ///
    /// Check it last before the send, because another call may have been throttled during the claim. On false
    /// [give the permit back](Self::give_back) and acquire a new one.
    pub fn may_send(&self) -> bool {
        let now = self.office.moment();
        self.grant.is_some_and(|grant| self.office.desk().may_send(grant, now))
    }

    /// Runs another call first and keeps this reservation. Where calls go one at a time, the other call may
    /// go.
    pub async fn keep_for<F: Future>(&self, other: F) -> F::Output {
        let _kept = KeptPlace::of(&self.office);
        other.await
    }

    fn end(&mut self, outcome: Outcome) -> Vec<Notice> {
        let Some(grant) = self.grant.take() else { return Vec::new() };
        let now = self.office.now();
        self.office.desk().conclude(grant, outcome, now)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // The notices are dropped. A call given up makes none but `ShareRecovered`, and `Budget` shows the
        // limit too.
        drop(self.end(Outcome::TimedOut));
    }
}

/// A kept reservation, for the lifetime of the guard.
struct KeptPlace<'a>(&'a Office);

impl<'a> KeptPlace<'a> {
    fn of(office: &'a Office) -> Self {
        let now = office.moment();
        let mut desk = office.desk();
        desk.kept += 1;
        desk.serve(None, now);
        Self(office)
    }
}

impl Drop for KeptPlace<'_> {
    fn drop(&mut self) {
        self.0.desk().kept -= 1;
    }
}
