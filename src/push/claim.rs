//! A call with changes: claim (commit) → send → completion (commit), for all kinds of change.
//!
//! The claim is committed before the first byte is sent, so a crash leaves its changes in doubt. A call
//! completes only the changes of its own claim; a change inserted after the claim waits for the next call. The
//! sender of a call records its accepted answer. This module handles calls without an answer, and answers
//! that prove that the call had no effect (docs/rules.md 4, 6).
//!
//! The database may refuse the commit of an answer for good, by another program's trigger for instance. The call is
//! then left as a crash would leave it ([`doubt_unrecorded`]): its changes are in doubt, and `settle` decides them.

use super::summary::PushSummary;
use crate::client::wire::StoredRequest;
use crate::client::{PlatformRequest, Verdict};
use crate::exec::call::{AnsweredExchange, BegunExchange, reply_message};
use crate::exec::change_events::{ids_and_keys, log_outcomes, outcomes_to};
use crate::exec::{JobContext, JobError};
use crate::limiter::Permit;
use crate::model::{ChangeId, ExchangeId, JobKind, Lane, Position, RunId, counted};
use crate::outbox::{ChangeState, Reason};
use crate::projection;
use crate::store::{
    ChangeOutcome, ClaimEvidence, ClaimedChange, Durability, PlannedStockLevel, StockLevelWrite, StoreError,
    WriteTransaction,
};
use crate::telemetry::event;

/// Names of the commits that are retried, as in "cannot …".
const RECORD_ANSWER: &str = "record an answer";
const FIND_CLAIM: &str = "find out if a claim was committed";
const RECORD_DOUBT: &str = "record that a change is in doubt";

pub(super) struct ClaimedCall<'a> {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) request: PlatformRequest,
    pub(super) changes: &'a [ClaimedChange],
    pub(super) stock_levels: &'a [StockLevelWrite],
    /// Stock levels and changes as the plan saw them; empty for changes other than quantities.
    pub(super) planned: &'a [&'a PlannedStockLevel],
    /// Evidence for `settle`, for changes other than quantities.
    pub(super) evidence: &'a [ClaimEvidence],
}

pub(super) enum CallOutcome {
    /// Not sent, because the claim gate is closed, or because a change or a stock level moved since the plan.
    NotClaimed(Permit),
    /// Sent, or refused by the transport; the answer and the outcomes of its changes are committed. In doubt, its
    /// stock levels stay claimed. After a call without effect its changes are pending again.
    Ended(Box<AnsweredExchange>, Vec<ChangeOutcome>),
}

/// Recording of a call's answer within the transaction that completes the call.
pub(super) trait RecordAnswer: Sync {
    /// Writes the facts of the answer, whose exchange ended at a position, and returns the outcomes of the
    /// changes. Repeated if the commit fails with a transient error.
    fn record(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        ended: Position,
    ) -> impl Future<Output = Result<Vec<ChangeOutcome>, StoreError>> + Send;
}

/// Outcomes of the changes of a call that was not accepted.
struct Unaccepted {
    moves: Vec<ChangeOutcome>,
    /// True if the call certainly had no effect. Otherwise its stock levels stay claimed until a check
    /// decides.
    had_no_effect: bool,
}

impl RecordAnswer for Unaccepted {
    async fn record(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        ended: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        if self.had_no_effect {
            write.stock_level_writes_complete(answer.id, ended, answer.sent_at, &[]).await?;
        }
        Ok(self.moves.clone())
    }
}

/// Claims the changes of a call, sends it and completes it; `accepted` records an accepted answer.
pub(super) async fn send_call(
    context: &JobContext,
    permit: Permit,
    claim: ClaimedCall<'_>,
    accepted: &impl RecordAnswer,
) -> Result<CallOutcome, JobError> {
    let Some(begun) = claim_call(context, &claim).await? else {
        return Ok(CallOutcome::NotClaimed(permit));
    };
    let changes: Vec<ChangeId> = claim.changes.iter().map(|claimed| claimed.id).collect();
    let answer = context.send_exchange(permit, begun, claim.request).await;
    let moves = end_call(context, &changes, &answer, accepted).await?;
    Ok(CallOutcome::Ended(Box::new(answer), moves))
}

/// Commits the claim. Returns `None` without a commit if the claim gate is closed, or if a change or a stock
/// level moved since the plan.
///
/// If the reply to the commit is lost, the claim is looked for: only this run concludes what it claimed.
///
/// # Errors
/// [`JobError::Paused`] if an operator paused the pushes.
async fn claim_call(
    context: &JobContext,
    claim: &ClaimedCall<'_>,
) -> Result<Option<BegunExchange>, JobError> {
    if !context.claim_gate.is_open() {
        return Ok(None);
    }
    let mut write = context.store.begin_write(Durability::Full).await?;
    if let Some(pause) = write.pause_of(JobKind::Push, context.now()).await? {
        return Err(JobError::Paused(pause.to_text()));
    }
    if !claim.planned.is_empty() && !write.stock_levels_unchanged(claim.planned).await? {
        return Ok(None);
    }
    let begin = context.exchange_start(claim.run, claim.lane, &claim.request);
    let begun = BegunExchange::new(write.exchange_begin(context.session_id, &begin).await?, &begin);
    let claimed = write.outbox_claim(begun.id, claim.changes, context.now()).await?;
    if claimed != claim.changes.len() as u64 {
        return Ok(None);
    }
    let (operation, target) = (claim.request.operation, claim.request.path.as_str());
    let stored = StoredRequest { operation, target, body: claim.request.body.as_deref().unwrap_or_default() };
    let levels = projection::project_claim::<JobError>(&mut write, begun.id, stored).await?;
    if levels.as_deref() != Some(claim.stock_levels) {
        return Ok(None);
    }
    write.delivery_evidence_store(claim.evidence).await?;
    let is_made = match write.commit().await {
        Err(error) if error.is_commit_unknown() => {
            let look = || was_claimed(context, begun.id, claim.changes);
            context.retry_conclusion(FIND_CLAIM, look).await?
        }
        committed => committed.map(|()| true)?,
    };
    Ok(is_made.then_some(begun))
}

/// Returns true if a claim of which the reply was lost is committed. Its transaction has ended by then, because a
/// write transaction waits for it.
async fn was_claimed(
    context: &JobContext,
    exchange: ExchangeId,
    changes: &[ClaimedChange],
) -> Result<bool, StoreError> {
    let mut write = context.store.begin_write(Durability::Full).await?;
    let is_made = write.outbox_was_claimed(exchange, changes).await?;
    // The commit notes the position of the claim before its call is sent.
    write.commit().await?;
    Ok(is_made)
}

/// Commits the outcome of a call by the verdict on its answer. Returns the outcomes of its changes.
async fn end_call(
    context: &JobContext,
    changes: &[ChangeId],
    answer: &AnsweredExchange,
    accepted: &impl RecordAnswer,
) -> Result<Vec<ChangeOutcome>, StoreError> {
    let why = reply_message(&answer.reply);
    match answer.reply.verdict {
        Verdict::Accepted => complete_call(context, answer, accepted).await,
        Verdict::Transient | Verdict::InDoubt => complete_in_doubt(context, changes, answer, &why).await,
        Verdict::Throttled(_) | Verdict::NotSent | Verdict::Rejected { .. } | Verdict::Refused => {
            let detail = format!("no effect: {why}");
            let moves = outcomes_to(changes, ChangeState::Pending, Some(Reason::NotSent), &detail);
            complete_call(context, answer, &Unaccepted { moves, had_no_effect: true }).await
        }
    }
}

/// Commits that the outcome is unknown.
async fn complete_in_doubt(
    context: &JobContext,
    changes: &[ChangeId],
    answer: &AnsweredExchange,
    why: &str,
) -> Result<Vec<ChangeOutcome>, StoreError> {
    let detail = format!("sent, but its outcome is unknown: {why}");
    let moves = outcomes_to(changes, ChangeState::InDoubt, Some(Reason::NoAnswer), &detail);
    let moves = complete_call(context, answer, &Unaccepted { moves, had_no_effect: false }).await?;
    let (ids, keys) = ids_and_keys(context, changes).await;
    tracing::warn!(
        event = event::OUTBOX_IN_DOUBT,
        exchange = answer.id.0,
        changes = changes.len(),
        ids,
        keys,
        reason = Reason::NoAnswer.as_str(),
        "{} in doubt: {why}",
        counted(changes.len(), "change")
    );
    Ok(moves)
}

/// Puts the changes in doubt whose answers the database refused for good. No call of a push is in flight. Each change
/// is a commit of its own; one that is refused again waits for the next push and stops nothing else.
pub(super) async fn doubt_unrecorded(context: &JobContext, why: &str) -> Result<(), StoreError> {
    let detail = format!("sent, but the answer cannot be recorded: {why}");
    for id in context.store.outbox_sending().await? {
        let moves = outcomes_to(&[id], ChangeState::InDoubt, Some(Reason::NoAnswer), &detail);
        let put = async || {
            let mut write = context.store.begin_write(Durability::Full).await?;
            write.outbox_transition(ChangeState::Sending, &moves, context.now()).await?;
            write.commit().await
        };
        match context.retry_conclusion(RECORD_DOUBT, put).await {
            Ok(()) => log_outcomes(context, &moves).await,
            Err(error) => {
                tracing::error!(event = event::DATABASE_WRITE_FAILED, "cannot {RECORD_DOUBT}: {error}");
            }
        }
    }
    Ok(())
}

/// Commits the outcome of a call: the exchange, the facts of its answer, and the states of its changes.
/// Retries the commit after a transient error; nothing else is claimed until it succeeds.
async fn complete_call(
    context: &JobContext,
    answer: &AnsweredExchange,
    recorder: &impl RecordAnswer,
) -> Result<Vec<ChangeOutcome>, StoreError> {
    context.retry_conclusion(RECORD_ANSWER, || try_complete_call(context, answer, recorder)).await
}

async fn try_complete_call(
    context: &JobContext,
    answer: &AnsweredExchange,
    recorder: &impl RecordAnswer,
) -> Result<Vec<ChangeOutcome>, StoreError> {
    let mut write = context.store.begin_write(Durability::Full).await?;
    // True if the last attempt was committed despite its error. This one then only returns the outcomes.
    let is_repeated = write.exchange_has_ended(answer.id).await?;
    let ended = context.exchange_end(&mut write, answer).await?;
    let moves = recorder.record(&mut write, answer, ended).await?;
    write.outbox_transition(ChangeState::Sending, &moves, context.now()).await?;
    if !is_repeated {
        write.commit().await?;
    }
    Ok(moves)
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
    write.outbox_transition(ChangeState::Pending, &notes, context.now()).await?;
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
