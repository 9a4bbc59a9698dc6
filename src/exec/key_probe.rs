//! Probe: one cheap call that determines the state of the key, and its recent results.
//!
//! The work queue has no body, no id and no parameter, so that a 403 there can only concern the key. Only a
//! well-formed 200 proves that the key works. An answer that is neither that nor a refusal proves nothing.

use super::call::words;
use super::{Context, JobError};
use crate::client::{Verdict, wire};
use crate::limiter::Pace;
use crate::model::{Lane, Moment, Operation, RunId};
use crate::outbox::Delays;
pub(crate) use crate::reconcile::proof::Judged;
use crate::reconcile::proof::{self, Key, LOOKS_APART};
use crate::store::Durability;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State of the key with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// The state.
    pub key: Key,
    /// The platform's message, or the reason why there is none; empty if the key works.
    pub why: String,
}

/// Calls the work queue and returns the state that its answer proves.
///
/// # Errors
/// Fails if the daemon stops or the database cannot be written. No answer of the platform is an error.
pub async fn probe_key(context: &Context, run: RunId) -> Result<Probed, JobError> {
    let request = wire::work_queue();
    let permit = context.place(Operation::WorkQueue, Lane::Probe, Pace::Paid).await?;
    let write = context.store.begin(Durability::Normal).await?;
    let begun = context.exchange_begin_alone(write, run, Lane::Probe, &request).await?;
    let answer = context.send(permit, begun, request).await;
    context.end_alone(&answer).await?;
    let reply = &answer.reply;
    let (key, why) = match reply.verdict {
        Verdict::Accepted if reply.status == Some(200) => match wire::decode_work_queue(&reply.body) {
            Ok(_) => (Key::Works, String::new()),
            Err(why) => (Key::NotKnown, why.to_string()),
        },
        Verdict::Accepted => {
            (Key::NotKnown, format!("it answered {} instead of 200", reply.status.unwrap_or_default()))
        }
        Verdict::Refused { .. } => (Key::Refused, words(reply)),
        Verdict::Rejected { .. }
        | Verdict::Throttled(_)
        | Verdict::Transient
        | Verdict::NotSent
        | Verdict::InDoubt => (Key::NotKnown, words(reply)),
    };
    context.proofs.probed(key, context.moment());
    Ok(Probed { key, why })
}

/// Classifies the refusal of a call that was sent at `sent` ([`proof::judge`]).
pub(crate) async fn judge(context: &Context, run: RunId, sent: Moment) -> Result<Judged, JobError> {
    let worked_at = context.proofs.state().worked_at;
    let Probed { key, why } = probe_key(context, run).await?;
    Ok(proof::judge(worked_at, sent, (key, why)))
}

/// Recent results of probes, shared by all jobs of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Time of the last probe, if it proved the key.
    worked_at: Option<Moment>,
    /// Quantity updates wait because a refusal could not be classified.
    unjudged: Option<Unjudged>,
}

#[derive(Debug)]
struct Unjudged {
    why: String,
    delays: Delays,
    probe_at: Moment,
}

impl Proofs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn probed(&self, key: Key, at: Moment) {
        self.state().worked_at = (key == Key::Works).then_some(at);
    }

    /// Stops quantity updates until a probe determines the state of the key.
    pub(crate) fn put_off(&self, why: &str, now: Moment) {
        let mut state = self.state();
        let mut delays = state.unjudged.take().map_or_else(Delays::judging, |before| before.delays);
        let probe_at = now.plus(delays.next().unwrap_or(LOOKS_APART));
        state.unjudged = Some(Unjudged { why: why.to_owned(), delays, probe_at });
    }

    /// Returns the reason why quantity updates wait, if they do.
    pub(crate) fn puts_off(&self) -> Option<String> {
        self.state().unjudged.as_ref().map(|unjudged| unjudged.why.clone())
    }

    fn is_due(&self, now: Moment) -> bool {
        self.state().unjudged.as_ref().is_some_and(|unjudged| now >= unjudged.probe_at)
    }

    fn go_on(&self) {
        self.state().unjudged = None;
    }
}

/// Returns the reason why no quantity update may be sent now, if there is one.
///
/// While a refusal is not classified, a due probe is made here. Between probes no quantity update is sent.
pub(crate) async fn put_off(context: &Context, run: RunId) -> Result<Option<String>, JobError> {
    let Some(why) = context.proofs.puts_off() else { return Ok(None) };
    if !context.proofs.is_due(context.moment()) {
        return Ok(Some(why));
    }
    let Probed { key, why } = probe_key(context, run).await?;
    match key {
        Key::NotKnown => {
            context.proofs.put_off(&why, context.moment());
            Ok(Some(why))
        }
        Key::Works => {
            context.proofs.go_on();
            Ok(None)
        }
        Key::Refused => {
            context.proofs.go_on();
            Err(context.refused_by(Operation::WorkQueue, None, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_does_not_say_that_the_key_works_ends_the_proof_that_it_did() {
        let (proofs, then) = (Proofs::default(), Moment(1_000_000));
        for key in [Key::NotKnown, Key::Refused] {
            proofs.probed(Key::Works, then);
            assert_eq!(proofs.state().worked_at, Some(then));
            proofs.probed(key, then);
            assert_eq!(proofs.state().worked_at, None, "{key:?}");
        }
    }

    #[test]
    fn probes_of_an_unjudged_refusal_are_made_with_growing_delays() {
        let (proofs, then) = (Proofs::default(), Moment(0));
        let mut waits = Vec::new();
        for _ in 0..4 {
            proofs.put_off("no answer", then);
            let wait = (0..1_000_000).find(|ms| proofs.is_due(Moment(*ms))).unwrap();
            waits.push(wait / 1000);
        }
        assert_eq!(waits, [1, 2, 4, 8]);
        proofs.go_on();
        assert_eq!((proofs.puts_off(), proofs.is_due(Moment(i64::MAX))), (None, false));
    }
}
