//! The key as answers show it: its record, and the probe, which is one cheap call that determines its state.
//!
//! The work queue has no body, no id and no parameter, so that a 403 there can only concern the key. Only a
//! well-formed 200 proves that the key works. An answer that is neither that nor a refusal proves nothing.
//!
//! While the key is refused, the limiter holds all calls but probes. While a refusal of a quantity update is not
//! classified, quantity updates wait (docs/rules.md 11). Both wait for the same probe.

use super::call::reply_message;
use super::{JobContext, JobError};
use crate::client::{CallReply, Verdict, wire};
use crate::model::{Lane, Moment, RetryDelays, RunId};
pub(crate) use crate::reconcile::proof::RefusalCause;
use crate::reconcile::proof::{self, KeyState};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// State of the key with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyStatus {
    /// The state.
    pub key: KeyState,
    /// The platform's message, or the reason why there is none; empty if the key works.
    pub why: String,
}

/// Record of the key, shared by all jobs of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRecord(Arc<SharedRecord>);

#[derive(Debug, Default)]
struct SharedRecord {
    state: Mutex<RecordState>,
    /// Held by a probe, so that calls that are refused at one time share its result.
    probing: tokio::sync::Mutex<()>,
    /// True once a call of this process ended without a refusal.
    is_tried: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct RecordState {
    /// Result of the last probe or refusal, and its time. A refusal is forgotten once a call is accepted.
    last: Option<(KeyStatus, Moment)>,
    /// Delay from then to the next probe, and the delays after that one.
    next_probe: (Duration, Option<RetryDelays>),
    /// Quantity updates wait until a probe shows the state of the key.
    holds_updates: bool,
}

impl KeyRecord {
    fn lock_state(&self) -> MutexGuard<'_, RecordState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a probe or a refusal. A failing platform, a lost connection or a 429 tells nothing of the key
    /// (`is_answered` false), and the delays between probes begin anew.
    fn record(&self, status: KeyStatus, is_answered: bool, at: Moment) {
        let mut state = self.lock_state();
        let before = state.next_probe.1.take().filter(|_| is_answered);
        let mut delays = before.unwrap_or_else(RetryDelays::key_probe);
        let delay = delays.next().unwrap_or_default();
        state.next_probe = (delay, (status.key != KeyState::Works).then_some(delays));
        state.holds_updates &= status.key == KeyState::NotKnown;
        state.last = Some((status, at));
    }

    /// Records what the answer of any call shows. A 403 that may mean the content shows nothing.
    pub(super) fn note_answer(&self, reply: &CallReply, at: Moment) {
        match reply.verdict {
            Verdict::Refused => {
                return self.record(
                    KeyStatus { key: KeyState::Refused, why: reply_message(reply) },
                    true,
                    at,
                );
            }
            Verdict::Rejected { status: 403 } => return,
            Verdict::Accepted => {
                self.lock_state().last.take_if(|(status, _)| status.key == KeyState::Refused);
            }
            _ => {}
        }
        self.0.is_tried.send_if_modified(|is_tried| !std::mem::replace(is_tried, true));
    }

    /// Lets the next probe ask the platform, because the key changed.
    pub(crate) fn forget(&self) {
        self.lock_state().last = None;
    }

    /// Waits until a call of this process has ended without a refusal.
    pub(crate) async fn wait_until_tried(&self) {
        // The sender lives in `self`, so the wait ends only with such a call.
        drop(self.0.is_tried.subscribe().wait_for(|is_tried| *is_tried).await);
    }

    /// Returns the time of the last probe, if it proved the key.
    fn worked_at(&self) -> Option<Moment> {
        self.lock_state().last.as_ref().filter(|(status, _)| status.key == KeyState::Works).map(|(_, at)| *at)
    }

    /// Returns the time of the next probe, at least so long after the last one. `None`: it is due.
    pub(crate) fn next_probe_at(&self, least: Duration) -> Option<Moment> {
        let state = self.lock_state();
        state.last.as_ref().map(|(_, at)| at.plus(state.next_probe.0.max(least)))
    }

    /// Stops quantity updates until a probe shows the state of the key.
    pub(crate) fn hold_updates(&self) {
        self.lock_state().holds_updates = true;
    }

    pub(crate) fn holds_updates(&self) -> bool {
        self.lock_state().holds_updates
    }
}

/// Calls the work queue and returns the state that its answer proves. A refusal of the last minute stands for another
/// one, so jobs and commands together make one probe a minute with a refused key.
///
/// # Errors
/// Fails if the daemon stops or the database cannot be written. No answer of the platform is an error.
pub(crate) async fn probe_key(context: &JobContext, run: RunId) -> Result<KeyStatus, JobError> {
    let _alone = context.key.0.probing.lock().await;
    let last = context.key.lock_state().last.clone();
    if let Some((status, at)) = last
        && status.key == KeyState::Refused
        && context.moment().duration_since(at) < RetryDelays::KEY_PROBES_APART
    {
        return Ok(status);
    }
    let answer = context.read_once(run, Lane::Probe, wire::work_queue()).await?;
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
        // The call has recorded it.
        Verdict::Refused => return Ok(KeyStatus { key: KeyState::Refused, why: reply_message(reply) }),
        Verdict::Rejected { .. }
        | Verdict::Throttled(_)
        | Verdict::Transient
        | Verdict::NotSent
        | Verdict::InDoubt => (KeyState::NotKnown, reply_message(reply)),
    };
    let is_answered = key == KeyState::Works || matches!(reply.verdict, Verdict::Rejected { .. });
    let status = KeyStatus { key, why };
    context.key.record(status.clone(), is_answered, context.moment());
    Ok(status)
}

/// Classifies the refusal of a call that was sent at `sent` ([`proof::judge_refusal`]).
pub(crate) async fn judge_refusal(
    context: &JobContext,
    run: RunId,
    sent: Moment,
) -> Result<RefusalCause, JobError> {
    let worked_at = context.key.worked_at();
    let KeyStatus { key, why } = probe_key(context, run).await?;
    Ok(proof::judge_refusal(worked_at, sent, (key, why)))
}

/// Returns the reason why no quantity update may be sent now, if there is one. A due probe is made here; a key that is
/// refused stops the next call.
pub(crate) async fn check_update_hold(context: &JobContext, run: RunId) -> Result<Option<String>, JobError> {
    let (is_held, last) = {
        let state = context.key.lock_state();
        (state.holds_updates, state.last.clone())
    };
    let is_due = context.key.next_probe_at(Duration::ZERO).is_none_or(|at| at <= context.moment());
    let status = match last {
        _ if !is_held => return Ok(None),
        Some((status, _)) if !is_due => status,
        _ => probe_key(context, run).await?,
    };
    Ok((status.key == KeyState::NotKnown).then_some(status.why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(key: KeyState) -> KeyStatus {
        KeyStatus { key, why: String::new() }
    }

    #[test]
    fn a_probe_that_does_not_say_that_the_key_works_ends_the_proof_that_it_did() {
        let (record, then) = (KeyRecord::default(), Moment(1_000_000));
        for key in [KeyState::NotKnown, KeyState::Refused] {
            record.record(status(KeyState::Works), true, then);
            assert_eq!(record.worked_at(), Some(then));
            record.record(status(key), true, then);
            assert_eq!(record.worked_at(), None, "{key:?}");
        }
    }

    #[test]
    fn probes_of_an_unjudged_refusal_are_made_with_growing_delays_that_an_outage_begins_anew() {
        let (record, then) = (KeyRecord::default(), Moment(0));
        record.hold_updates();
        let mut waits = Vec::new();
        for is_answered in [true, true, true, false, false, true] {
            record.record(status(KeyState::NotKnown), is_answered, then);
            waits.push(record.next_probe_at(Duration::ZERO).unwrap().0 / 1000);
            assert!(record.holds_updates());
        }
        assert_eq!(waits, [1, 2, 4, 1, 1, 2]);
        assert_eq!(record.next_probe_at(RetryDelays::KEY_PROBES_APART), Some(Moment(60_000)));
        record.record(status(KeyState::Works), true, then);
        assert!(!record.holds_updates());
    }
}
