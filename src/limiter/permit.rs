//! The right to send one call: a place of the window and a slot of its operation.

use super::Office;
use super::desk::Grant;
use super::outcome::{Notice, Outcome};
use crate::model::{Lane, Operation};
use std::sync::Arc;

/// One call may be sent. To be [concluded](Self::conclude) when it is over; dropped without, it counts as
/// given up at that instant, which is safe as long as whoever waits for the answer holds it.
#[must_use = "a permit dropped unused still costs a place for 60 s; give it back instead"]
pub struct Permit {
    office: Arc<Office>,
    /// `None` once concluded.
    grant: Option<Grant>,
    operation: Operation,
    lane: Lane,
}

impl Permit {
    pub(super) fn new(office: Arc<Office>, grant: Grant) -> Self {
        Self { office, grant: Some(grant), operation: grant.operation, lane: grant.lane }
    }

    /// The operation that may be called.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The lane it came through.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Says what came of the call; returns what that changed, for the log and to be kept.
    #[must_use = "what changed has to be logged and kept"]
    pub fn conclude(mut self, outcome: Outcome) -> Vec<Notice> {
        self.end(outcome)
    }

    /// Nothing was sent and nothing will be (nor was a claim committed): the place goes to the next call at once.
    pub fn give_back(mut self) {
        if let Some(grant) = self.grant.take() {
            let now = self.office.moment();
            self.office.desk().give_back(grant, now);
        }
    }

    /// Uses the permit for another operation, if that has a slot and is not held (rules.md 4: the fact grew old while
    /// its write waited, the permit goes to the read). False: it stays what it was.
    pub fn turn_to(&mut self, operation: Operation) -> bool {
        let now = self.office.moment();
        let Some(grant) = &mut self.grant else { return false };
        let turned = self.office.desk().turn_to(grant, operation, now);
        self.operation = grant.operation;
        turned
    }

    /// Whether no hold was set since it was granted; asked last before the send, since other calls may have been
    /// throttled while this one was claimed. If not: [give it back](Self::give_back) and acquire anew.
    pub fn may_send(&self) -> bool {
        let now = self.office.moment();
        self.grant.is_some_and(|grant| self.office.desk().may_send(grant, now))
    }

    /// Makes another call first, and keeps the place for this one. Where calls go one by one, the other goes.
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
        // Nobody hears the notices; a call given up makes none but the share's recovery, which `Budget` shows too.
        drop(self.end(Outcome::TimedOut));
    }
}

/// A place is kept for as long as this lives.
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
