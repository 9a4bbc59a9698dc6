//! Recent results of probes, shared by all jobs of this process.

use crate::client::Verdict;
use crate::model::{Moment, RetryDelays};
use crate::reconcile::proof::{ABSENCE_CHECKS_APART, KeyState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Recent results of probes, shared by all jobs of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyProofs(Arc<SharedProofs>);

#[derive(Debug, Default)]
struct SharedProofs {
    state: Mutex<ProofState>,
    /// Held by a probe, so that calls that are refused at one time share its result.
    probing: tokio::sync::Mutex<()>,
    /// True once a call of this process ended without a refusal.
    is_tried: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct ProofState {
    /// Result, reason and time of the last probe. A refusal is forgotten once a call is accepted.
    last: Option<(KeyState, String, Moment)>,
    /// True if the last probe met a failing platform, a lost connection or a 429, which tell nothing of the key.
    is_unanswered: bool,
    /// Quantity updates wait because a refusal could not be classified.
    unjudged_refusal: Option<UnjudgedRefusal>,
}

#[derive(Debug)]
struct UnjudgedRefusal {
    why: String,
    delays: RetryDelays,
    probe_at: Moment,
}

impl KeyProofs {
    /// Returns the time of the last probe, if it proved the key.
    pub(super) fn worked_at(&self) -> Option<Moment> {
        let state = self.lock_state();
        state.last.as_ref().filter(|(key, ..)| *key == KeyState::Works).map(|(.., at)| *at)
    }

    /// Waits until no other probe is made. Probes at one time share the result of the first.
    pub(super) async fn lock_probe(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.probing.lock().await
    }

    fn lock_state(&self) -> MutexGuard<'_, ProofState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record_probe(&self, key: KeyState, why: &str, is_answered: bool, at: Moment) {
        let mut state = self.lock_state();
        state.last = Some((key, why.to_owned(), at));
        state.is_unanswered = !is_answered;
    }

    pub(super) fn last_refusal(&self, now: Moment) -> Option<String> {
        let (_, why, at) = self.lock_state().last.clone().filter(|(key, ..)| *key == KeyState::Refused)?;
        (now.duration_since(at) < RetryDelays::KEY_PROBES_APART).then_some(why)
    }

    /// Lets the next probe ask the platform, because the key changed.
    pub(crate) fn forget_refusal(&self) {
        self.lock_state().last.take_if(|(key, ..)| *key == KeyState::Refused);
    }

    pub(super) fn note_answer(&self, verdict: Verdict) {
        match verdict {
            Verdict::Refused { .. } => return,
            Verdict::Accepted => self.forget_refusal(),
            _ => {}
        }
        self.0.is_tried.send_if_modified(|is_tried| !std::mem::replace(is_tried, true));
    }

    /// Waits until a call of this process has ended without a refusal.
    pub(crate) async fn wait_until_tried(&self) {
        // The sender lives in `self`, so the wait ends only with such a call.
        drop(self.0.is_tried.subscribe().wait_for(|is_tried| *is_tried).await);
    }

    /// Returns true if the last probe met a failing platform, a lost connection or a 429. Delays begin anew then.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.lock_state().is_unanswered
    }

    /// Stops quantity updates until a probe determines the state of the key.
    pub(crate) fn hold_updates(&self, why: &str, now: Moment) {
        let mut state = self.lock_state();
        let is_answered = !state.is_unanswered;
        let before = state.unjudged_refusal.take().filter(|_| is_answered);
        let mut delays = before.map_or_else(RetryDelays::refusal_probe, |before| before.delays);
        let probe_at = now.plus(delays.next().unwrap_or(ABSENCE_CHECKS_APART));
        state.unjudged_refusal = Some(UnjudgedRefusal { why: why.to_owned(), delays, probe_at });
    }

    pub(crate) fn update_hold(&self) -> Option<String> {
        self.lock_state().unjudged_refusal.as_ref().map(|unjudged| unjudged.why.clone())
    }

    pub(super) fn is_probe_due(&self, now: Moment) -> bool {
        self.lock_state().unjudged_refusal.as_ref().is_some_and(|unjudged| now >= unjudged.probe_at)
    }

    pub(super) fn release_updates(&self) {
        self.lock_state().unjudged_refusal = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_does_not_say_that_the_key_works_ends_the_proof_that_it_did() {
        let (proofs, then) = (KeyProofs::default(), Moment(1_000_000));
        for key in [KeyState::NotKnown, KeyState::Refused] {
            proofs.record_probe(KeyState::Works, "", true, then);
            assert_eq!(proofs.worked_at(), Some(then));
            proofs.record_probe(key, "", true, then);
            assert_eq!(proofs.worked_at(), None, "{key:?}");
        }
    }

    #[test]
    fn probes_of_an_unjudged_refusal_are_made_with_growing_delays_that_an_outage_begins_anew() {
        let (proofs, then) = (KeyProofs::default(), Moment(0));
        let mut waits = Vec::new();
        for is_answered in [true, true, true, false, false, true] {
            proofs.record_probe(KeyState::NotKnown, "", is_answered, then);
            proofs.hold_updates("no answer", then);
            let wait = (0..1_000_000).find(|ms| proofs.is_probe_due(Moment(*ms))).unwrap();
            waits.push(wait / 1000);
        }
        assert_eq!(waits, [1, 2, 4, 1, 1, 2]);
        proofs.release_updates();
        assert_eq!((proofs.update_hold(), proofs.is_probe_due(Moment(i64::MAX))), (None, false));
    }
}
