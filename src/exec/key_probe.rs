//! Probe: one cheap call that determines the state of the key.
//!
//! The work queue has no body, no id and no parameter, so that a 403 there can only concern the key. Only a
//! well-formed 200 proves that the key works. An answer that is neither that nor a refusal proves nothing.

use super::call::reply_message;
use super::{JobContext, JobError};
use crate::client::{Verdict, wire};
use crate::model::{Lane, Moment, Operation, RunId};
pub(crate) use crate::reconcile::proof::RefusalCause;
use crate::reconcile::proof::{self, KeyState};
use serde::{Deserialize, Serialize};

/// State of the key with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyStatus {
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
pub(crate) async fn probe_key(context: &JobContext, run: RunId) -> Result<KeyStatus, JobError> {
    let _alone = context.key_proofs.lock_probe().await;
    if let Some(why) = context.key_proofs.last_refusal(context.moment()) {
        return Ok(KeyStatus { key: KeyState::Refused, why });
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
    let worked_at = context.key_proofs.worked_at();
    let KeyStatus { key, why } = probe_key(context, run).await?;
    Ok(proof::judge_refusal(worked_at, sent, (key, why)))
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
