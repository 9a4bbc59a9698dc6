//! Probe: one cheap call that determines the state of the key, and its recent results.
//!
//! The work queue has no body, no id and no parameter, so that a 403 there can only concern the key. Only a
//! well-formed 200 proves that the key works. An answer that is neither that nor a refusal proves nothing.

use super::call::{BegunExchange, reply_message};
use super::{JobContext, JobError};
use crate::client::{Verdict, wire};
use crate::limiter::PacePayment;
use crate::model::{Lane, Moment, Operation, RetryDelays, RunId};
pub(crate) use crate::reconcile::proof::RefusalCause;
use crate::reconcile::proof::{self, ABSENCE_CHECKS_APART, KeyState};
use crate::store::Durability;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// State of the key with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatus {
    /// The state.
    pub key: KeyState,
    /// The platform's message, or the reason why there is none; empty if the key works.
    pub why: String,
}

/// Calls the work queue and returns the state that its answer proves. A refusal of the last minute stands for another
/// one, so jobs and commands together make one probe a minute with a refused key.
///
/// # Errors
/// Fails if the daemon stops or the database cannot be written. No answer of the platform is an error.
pub async fn probe_key(context: &JobContext, run: RunId) -> Result<KeyStatus, JobError> {
    let _alone = context.key_proofs.0.probing.lock().await;
    if let Some(why) = context.key_proofs.last_refusal(context.moment()) {
        return Ok(KeyStatus { key: KeyState::Refused, why });
    }
    let request = wire::work_queue();
    let permit = context.reserve_call(Operation::WorkQueue, Lane::Probe, PacePayment::Paid).await?;
    let write = context.store.begin_write(Durability::Normal).await?;
    let begin = context.exchange_start(run, Lane::Probe, &request);
    let id = write.exchange_begin_and_commit(context.session_id, &begin).await?;
    let begun = BegunExchange::new(id, &begin);
    let answer = context.send_exchange(permit, begun, request).await;
    context.exchange_end_ignored(&answer).await?;
    let reply = &answer.reply;
    let (key, why) = match reply.verdict {
        Verdict::Accepted if reply.status == Some(200) => match wire::decode_work_queue(&reply.body) {
            Ok(_) => (KeyState::Works, String::new()),
            Err(why) => (KeyState::NotKnown, why.to_string()),
        },
        Verdict::Accepted => (
            KeyState::NotKnown,
            format!("the platform answered {} instead of 200", reply.status.unwrap_or_default()),
        ),
        Verdict::Refused { .. } => (KeyState::Refused, reply_message(reply)),
        Verdict::Rejected { .. }
        | Verdict::Throttled(_)
        | Verdict::Transient
        | Verdict::NotSent
        | Verdict::InDoubt => (KeyState::NotKnown, reply_message(reply)),
    };
    let is_answered = !matches!(key, KeyState::NotKnown) || matches!(reply.verdict, Verdict::Rejected { .. });
    context.key_proofs.record_probe(key, &why, is_answered, context.moment());
    Ok(KeyStatus { key, why })
}

/// Classifies the refusal of a call that was sent at `sent` ([`proof::judge_refusal`]).
pub(crate) async fn judge_refusal(
    context: &JobContext,
    run: RunId,
    sent: Moment,
) -> Result<RefusalCause, JobError> {
    let worked_at = context.key_proofs.lock_state().worked_at;
    let KeyStatus { key, why } = probe_key(context, run).await?;
    Ok(proof::judge_refusal(worked_at, sent, (key, why)))
}

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
    /// Time of the last probe, if it proved the key.
    worked_at: Option<Moment>,
    /// Reason and time of the last probe, if it was refused and nothing was accepted since.
    refused: Option<(String, Moment)>,
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
    fn lock_state(&self) -> MutexGuard<'_, ProofState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_probe(&self, key: KeyState, why: &str, is_answered: bool, at: Moment) {
        let mut state = self.lock_state();
        state.worked_at = (key == KeyState::Works).then_some(at);
        state.refused = (key == KeyState::Refused).then(|| (why.to_owned(), at));
        state.is_unanswered = !is_answered;
    }

    fn last_refusal(&self, now: Moment) -> Option<String> {
        let (why, at) = self.lock_state().refused.clone()?;
        (now.duration_since(at) < RetryDelays::KEY_PROBES_APART).then_some(why)
    }

    /// Lets the next probe ask the platform, because the key changed.
    pub(crate) fn forget_refusal(&self) {
        self.lock_state().refused = None;
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

    fn is_probe_due(&self, now: Moment) -> bool {
        self.lock_state().unjudged_refusal.as_ref().is_some_and(|unjudged| now >= unjudged.probe_at)
    }

    fn release_updates(&self) {
        self.lock_state().unjudged_refusal = None;
    }
}

/// Returns the reason why no quantity update may be sent now, if there is one.
///
/// While a refusal is not classified, a due probe is made here. Between probes no quantity update is sent.
pub(crate) async fn check_update_hold(context: &JobContext, run: RunId) -> Result<Option<String>, JobError> {
    let Some(why) = context.key_proofs.update_hold() else { return Ok(None) };
    if !context.key_proofs.is_probe_due(context.moment()) {
        return Ok(Some(why));
    }
    let KeyStatus { key, why } = probe_key(context, run).await?;
    match key {
        KeyState::NotKnown => {
            context.key_proofs.hold_updates(&why, context.moment());
            Ok(Some(why))
        }
        KeyState::Works => {
            context.key_proofs.release_updates();
            Ok(None)
        }
        KeyState::Refused => {
            context.key_proofs.release_updates();
            Err(context.key_refused_by(Operation::WorkQueue, None, why))
        }
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
            assert_eq!(proofs.lock_state().worked_at, Some(then));
            proofs.record_probe(key, "", true, then);
            assert_eq!(proofs.lock_state().worked_at, None, "{key:?}");
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
