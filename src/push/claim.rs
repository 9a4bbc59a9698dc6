//! Claim, send and completion of a call, as far as all kinds of change have them in common.
//!
//! The claim is committed before the first byte is sent, so a crash leaves its changes in doubt. Each kind
//! parses its accepted answers. This module handles calls without an answer, and answers that prove that the
//! call had no effect (docs/rules.md 16, 17).

use super::summary::PushSummary;
use crate::client::wire::ParsedRequest;
use crate::client::{PlatformRequest, Verdict};
use crate::exec::call::{AnsweredExchange, BegunExchange, reply_message};
use crate::exec::change_events::{ids_and_keys, log_outcomes, outcomes_to};
use crate::exec::{JobContext, JobError};
use crate::model::{ChangeId, Lane, RunId};
use crate::outbox::{ChangeState, Reason};
use crate::projection::{self, ParsedQuantityAnswer};
use crate::store::{
    ChangeOutcome, ClaimEvidence, ClaimedChange, Durability, PlannedStockLevel, StockLevelWrite, StoreError,
};
use crate::telemetry::event;

/// Name of the commit that is retried after an answer, as in "cannot …".
pub(super) const RECORD_ANSWER: &str = "record an answer";

pub(super) struct ClaimedCall<'a> {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) request: &'a PlatformRequest,
    pub(super) changes: &'a [ClaimedChange],
    pub(super) stock_levels: &'a [StockLevelWrite],
    /// Stock levels and changes as the plan saw them; empty for changes other than quantities.
    pub(super) planned: &'a [&'a PlannedStockLevel],
    /// Evidence for `settle`, for changes other than quantities.
    pub(super) evidence: &'a [ClaimEvidence],
}

/// Outcome of a call before its answer is parsed.
#[derive(Debug)]
pub(super) enum CallOutcome {
    /// Accepted; the end of the exchange is not recorded yet.
    Answered,
    /// Sent with unknown outcome; its changes are in doubt.
    InDoubt,
    /// Throttled; its changes are pending again, and the limiter has the delay.
    Throttled,
    /// Not sent; its changes are pending again. Another attempt at once is useless.
    NotSent(String),
    /// Rejected without effect; its changes are pending again until the caller has judged the refusal.
    Rejected { status: u16, why: String },
}

/// Commits the claim. Returns `None` without a commit if the claim gate is closed, or if a change or a stock
/// level moved since the plan. Then nothing is sent, and the changes are planned again.
pub(super) async fn claim_call(
    context: &JobContext,
    claim: &ClaimedCall<'_>,
) -> Result<Option<BegunExchange>, JobError> {
    if !context.claim_gate.is_open() {
        return Ok(None);
    }
    let mut write = context.store.begin_write(Durability::Full).await?;
    if !claim.planned.is_empty() && !write.stock_levels_unchanged(claim.planned).await? {
        return Ok(None);
    }
    let begin = context.exchange_start(claim.run, claim.lane, claim.request);
    let begun = BegunExchange::new(write.exchange_begin(context.session_id, &begin).await?, &begin);
    let claimed = write.outbox_claim(begun.id, claim.changes, context.now()).await?;
    if claimed != claim.changes.len() as u64 {
        return Ok(None);
    }
    let body = claim.request.body.as_deref().unwrap_or_default();
    let parsed = ParsedRequest::parse_request(claim.request.operation, &claim.request.path, body)?;
    if projection::project_claim(&mut write, begun.id, &parsed).await?.as_deref() != Some(claim.stock_levels)
    {
        return Ok(None);
    }
    write.delivery_evidence_store(claim.evidence).await?;
    write.commit().await?;
    Ok(Some(begun))
}

/// Commits the outcome of a call that was not accepted. Leaves an accepted answer to its kind.
///
/// # Errors
/// [`JobError::KeyRefused`] if the answer refuses the key, after the commit.
pub(super) async fn complete_unaccepted(
    context: &JobContext,
    changes: &[ChangeId],
    answer: &AnsweredExchange,
) -> Result<CallOutcome, JobError> {
    let why = reply_message(&answer.reply);
    let outcome = match answer.reply.verdict {
        Verdict::Accepted => return Ok(CallOutcome::Answered),
        Verdict::Transient | Verdict::InDoubt => {
            complete_in_doubt(context, changes, answer, &why).await?;
            return Ok(CallOutcome::InDoubt);
        }
        Verdict::Throttled(_) => Ok(CallOutcome::Throttled),
        Verdict::NotSent => Ok(CallOutcome::NotSent(why.clone())),
        Verdict::Rejected { status } => Ok(CallOutcome::Rejected { status, why: why.clone() }),
        // The refusal may mean an id or a SKU of path or body, so the sender of the call judges the key.
        Verdict::Refused { may_be_id: true } => {
            Ok(CallOutcome::Rejected { status: answer.reply.status.unwrap_or(403), why: why.clone() })
        }
        Verdict::Refused { may_be_id: false } => Err(()),
    };
    let moves =
        outcomes_to(changes, ChangeState::Pending, Some(Reason::NotSent), &format!("no effect: {why}"));
    complete_call(context, answer, &moves, StockLevelOutcome::NoEffect).await?;
    outcome.map_err(|()| context.key_refused(&answer.reply))
}

/// Commits that the outcome is unknown. The stock levels stay claimed until a check decides.
async fn complete_in_doubt(
    context: &JobContext,
    changes: &[ChangeId],
    answer: &AnsweredExchange,
    why: &str,
) -> Result<(), JobError> {
    let detail = format!("sent, but its outcome is unknown: {why}");
    let moves = outcomes_to(changes, ChangeState::InDoubt, Some(Reason::NoAnswer), &detail);
    complete_call(context, answer, &moves, StockLevelOutcome::Unknown).await?;
    let (ids, keys) = ids_and_keys(context, changes).await;
    tracing::warn!(
        event = event::OUTBOX_IN_DOUBT,
        exchange = answer.id.0,
        changes = changes.len(),
        ids,
        keys,
        reason = Reason::NoAnswer.as_str(),
        "{} change(s) are in doubt: {why}",
        changes.len()
    );
    Ok(())
}

#[derive(Clone, Copy)]
pub(super) enum StockLevelOutcome<'a> {
    Unknown,
    NoEffect,
    /// Accepted: the writes in the order of the entries, and the parsed answer.
    Answered(&'a [StockLevelWrite], &'a ParsedQuantityAnswer),
}

/// Commits the outcome of a call.
///
/// This covers the exchange, the states of the changes and the stock levels. Retries the commit after a
/// transient error; nothing else is claimed until it succeeds.
pub(super) async fn complete_call(
    context: &JobContext,
    answer: &AnsweredExchange,
    moves: &[ChangeOutcome],
    ending: StockLevelOutcome<'_>,
) -> Result<(), StoreError> {
    context.retry_commit(RECORD_ANSWER, || try_complete_call(context, answer, moves, ending)).await
}

async fn try_complete_call(
    context: &JobContext,
    answer: &AnsweredExchange,
    moves: &[ChangeOutcome],
    ending: StockLevelOutcome<'_>,
) -> Result<(), StoreError> {
    let mut write = context.store.begin_write(Durability::Full).await?;
    if write.exchange_has_ended(answer.id).await? {
        // The last attempt was committed despite its error.
        return Ok(());
    }
    let position = context.exchange_end(&mut write, answer).await?;
    write.outbox_transition(ChangeState::Sending, moves, context.now()).await?;
    let when = (position, answer.sent_at);
    match ending {
        StockLevelOutcome::Unknown => {}
        StockLevelOutcome::NoEffect => {
            write.stock_level_writes_complete(answer.id, position, answer.sent_at, &[]).await?
        }
        StockLevelOutcome::Answered(written, parsed) => {
            projection::project_quantity_answer(&mut write, answer.id, when, written, parsed).await?;
        }
    }
    write.commit().await
}

pub(super) async fn store_wait_reasons(
    context: &JobContext,
    reasons: Vec<(ChangeId, Reason, String)>,
) -> Result<(), JobError> {
    let note = |(id, reason, detail)| ChangeOutcome::new(id, ChangeState::Pending, Some(reason), detail);
    let notes: Vec<ChangeOutcome> = reasons.into_iter().map(note).collect();
    if notes.is_empty() {
        return Ok(());
    }
    let mut write = context.store.begin_write(Durability::Normal).await?;
    write.outbox_reason_update(ChangeState::Pending, &notes, context.now()).await?;
    Ok(write.commit().await?)
}

/// Moves pending changes to states without a call, all of them or none. Returns false if one is no longer
/// pending.
pub(super) async fn finish_pending(
    context: &JobContext,
    moves: &[ChangeOutcome],
    counts: &mut PushSummary,
) -> Result<bool, StoreError> {
    let mut write = context.store.begin_write(Durability::Full).await?;
    if write.outbox_transition(ChangeState::Pending, moves, context.now()).await? != moves.len() as u64 {
        return Ok(false);
    }
    write.commit().await?;
    log_outcomes(context, moves).await;
    counts.count_outcomes(moves);
    Ok(true)
}
