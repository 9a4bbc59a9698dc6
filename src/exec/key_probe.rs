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

/// State of the key with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatus {
    /// The state.
    pub key: KeyState,
    /// The platform's message, or the reason why there is none; empty if the key works.
    pub why: String,
}

/// Calls the work queue and returns the state that its answer proves.
///
/// # Errors
/// Fails if the daemon stops or the database cannot be written. No answer of the platform is an error.
pub async fn probe_key(context: &JobContext, run: RunId) -> Result<KeyStatus, JobError> {
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
    context.key_proofs.record_probe(key, context.moment());
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
pub(crate) struct KeyProofs(Arc<Mutex<ProofState>>);

#[derive(Debug, Default)]
struct ProofState {
    /// Time of the last probe, if it proved the key.
    worked_at: Option<Moment>,
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_probe(&self, key: KeyState, at: Moment) {
        self.lock_state().worked_at = (key == KeyState::Works).then_some(at);
    }

    /// Stops quantity updates until a probe determines the state of the key.
    pub(crate) fn hold_updates(&self, why: &str, now: Moment) {
        let mut state = self.lock_state();
        let mut delays =
            state.unjudged_refusal.take().map_or_else(RetryDelays::refusal_probe, |before| before.delays);
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
            proofs.record_probe(KeyState::Works, then);
            assert_eq!(proofs.lock_state().worked_at, Some(then));
            proofs.record_probe(key, then);
            assert_eq!(proofs.lock_state().worked_at, None, "{key:?}");
        }
    }

    #[test]
    fn probes_of_an_unjudged_refusal_are_made_with_growing_delays() {
        let (proofs, then) = (KeyProofs::default(), Moment(0));
        let mut waits = Vec::new();
        for _ in 0..4 {
            proofs.hold_updates("no answer", then);
            let wait = (0..1_000_000).find(|ms| proofs.is_probe_due(Moment(*ms))).unwrap();
            waits.push(wait / 1000);
        }
        assert_eq!(waits, [1, 2, 4, 8]);
        proofs.release_updates();
        assert_eq!((proofs.update_hold(), proofs.is_probe_due(Moment(i64::MAX))), (None, false));
    }
}
