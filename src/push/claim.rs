//! Claim, send and completion of a call, as far as all kinds of change have them in common.
//!
//! The claim is committed before the first byte is sent, so a crash leaves its changes in doubt. Each kind
//! parses its accepted answers. This module handles calls without an answer, and answers that prove that the
//! call had no effect (docs/rules.md 16, 17).

use crate::client::wire::Asked;
use crate::client::{Request, Verdict as Answered};
use crate::exec::call::{Answer, Sent, words};
use crate::exec::change_events::listed;
use crate::exec::{Context, JobError};
use crate::model::{Lane, RunId, WishId};
use crate::outbox::{Reason, State};
use crate::projection::{self, Told};
use crate::store::{CellWrite, Claim, Durability, Kept, StoreError, Verdict};
use crate::telemetry::event;

/// Name of the commit that is retried after an answer, as in "cannot …".
pub(super) const WRITE_ANSWER: &str = "write down an answer";

/// Claimed call: its request, its changes and their evidence.
pub(super) struct Load<'a> {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) request: &'a Request,
    pub(super) wishes: &'a [Claim],
    /// Stock levels that the request writes.
    pub(super) cells: &'a [CellWrite],
    /// Evidence for `settle`, for changes other than quantities.
    pub(super) kept: &'a [Kept],
}

/// Outcome of a call before its answer is parsed.
#[derive(Debug)]
pub(super) enum Went {
    /// Accepted; the end of the exchange is not recorded yet.
    Answered,
    /// Sent with unknown outcome; its changes are in doubt.
    InDoubt,
    /// Throttled; its changes are pending again, and the limiter has the delay.
    Throttled,
    /// Not sent; its changes are pending again. Another attempt at once is useless.
    NotSent(String),
    /// Refused without effect; its changes are pending again until the caller has judged the refusal.
    Refused {
        /// HTTP status.
        status: u16,
        /// Message of the platform.
        why: String,
    },
}

/// Commits the claim. Returns `None` without a commit if the claim gate is closed, or if a change or a stock
/// level moved since the plan. Then nothing is sent, and the changes are planned again.
pub(super) async fn claim(context: &Context, load: &Load<'_>) -> Result<Option<Sent>, JobError> {
    if !context.gate.is_open() {
        return Ok(None);
    }
    let mut write = context.store.begin(Durability::Full).await?;
    let begun = context.exchange_begin(&mut write, load.run, load.lane, load.request).await?;
    let claimed = write.outbox_claim(begun.id, load.wishes, context.now()).await?;
    if claimed != load.wishes.len() as u64 {
        return Ok(None);
    }
    let body = load.request.body.as_deref().unwrap_or_default();
    let asked = Asked::read(load.request.operation, &load.request.path, body);
    let asked = asked.map_err(|why| JobError::Implausible(why.to_string()))?;
    if projection::claimed(&mut write, begun.id, &asked).await?.as_deref() != Some(load.cells) {
        return Ok(None);
    }
    write.delivery_claim(load.kept).await?;
    write.commit().await?;
    Ok(Some(begun))
}

/// Commits the outcome of a call that was not accepted. Leaves an accepted answer to its kind.
///
/// # Errors
/// [`JobError::Refused`] if the answer refuses the key, after the commit.
pub(super) async fn unanswered(
    context: &Context,
    wishes: &[WishId],
    answer: &Answer,
) -> Result<Went, JobError> {
    let why = words(&answer.reply);
    match answer.reply.verdict {
        Answered::Accepted => Ok(Went::Answered),
        Answered::Transient | Answered::InDoubt => {
            in_doubt(context, wishes, answer, &why).await?;
            Ok(Went::InDoubt)
        }
        Answered::Throttled(_) => {
            not_done(context, wishes, answer, &why).await?;
            Ok(Went::Throttled)
        }
        Answered::NotSent => {
            not_done(context, wishes, answer, &why).await?;
            Ok(Went::NotSent(why))
        }
        Answered::Rejected { status } => {
            not_done(context, wishes, answer, &why).await?;
            Ok(Went::Refused { status, why })
        }
        // The refusal may mean the id in the path, so the sender of the call judges the key.
        Answered::Refused { may_be_id: true } => {
            not_done(context, wishes, answer, &why).await?;
            Ok(Went::Refused { status: answer.reply.status.unwrap_or(403), why })
        }
        Answered::Refused { may_be_id: false } => {
            not_done(context, wishes, answer, &why).await?;
            Err(context.refused(&answer.reply))
        }
    }
}

/// Commits that the outcome is unknown. The stock levels stay claimed until a check decides.
async fn in_doubt(context: &Context, wishes: &[WishId], answer: &Answer, why: &str) -> Result<(), JobError> {
    let detail = format!("sent, but no answer tells what became of it: {why}");
    let moves = all(wishes, State::InDoubt, Reason::NoAnswer, &detail);
    conclude(context, answer, &moves, Ending::Open).await?;
    let (ids, keys) = listed(context, wishes).await;
    tracing::warn!(
        event = event::OUTBOX_IN_DOUBT,
        exchange = answer.id.0,
        wishes = wishes.len(),
        ids,
        keys,
        reason = Reason::NoAnswer.as_str(),
        "{} wish(es) are in doubt: {why}",
        wishes.len()
    );
    Ok(())
}

async fn not_done(context: &Context, wishes: &[WishId], answer: &Answer, why: &str) -> Result<(), JobError> {
    let moves = all(wishes, State::Pending, Reason::NotSent, &format!("not done: {why}"));
    Ok(conclude(context, answer, &moves, Ending::NotDone).await?)
}

/// Outcome of a call for its stock levels.
#[derive(Clone, Copy)]
pub(super) enum Ending<'a> {
    /// Unknown: the stock levels stay claimed until a check decides.
    Open,
    /// No effect: the stock levels are unchanged.
    NotDone,
    /// Accepted: the writes in the order of the entries, and the parsed answer.
    Answered(&'a [CellWrite], &'a Told),
}

/// Commits the outcome of a call.
///
/// This covers the exchange, the states of the changes and the stock levels. Retries the commit after a
/// transient error; nothing else is claimed until it succeeds.
pub(super) async fn conclude(
    context: &Context,
    answer: &Answer,
    moves: &[Verdict],
    ending: Ending<'_>,
) -> Result<(), StoreError> {
    let mut insist = context.insist(WRITE_ANSWER);
    loop {
        let attempt = try_conclude(context, answer, moves, ending).await;
        if let Some(done) = insist.on(attempt).await? {
            return Ok(done);
        }
    }
}

async fn try_conclude(
    context: &Context,
    answer: &Answer,
    moves: &[Verdict],
    ending: Ending<'_>,
) -> Result<(), StoreError> {
    let mut write = context.store.begin(Durability::Full).await?;
    if write.exchange_is_over(answer.id).await? {
        // The last attempt was committed despite its error.
        return Ok(());
    }
    let position = context.exchange_end(&mut write, answer).await?;
    write.outbox_move(State::Sending, moves, context.now()).await?;
    let when = (position, answer.sent_at);
    match ending {
        Ending::Open => {}
        Ending::NotDone => write.cell_conclude(answer.id, position, answer.sent_at, &[]).await?,
        Ending::Answered(written, told) => {
            projection::quantities_answered(&mut write, answer.id, when, written, told).await?;
        }
    }
    write.commit().await
}

/// Returns the move for every change.
fn all(wishes: &[WishId], to: State, reason: Reason, detail: &str) -> Vec<Verdict> {
    wishes.iter().map(|id| Verdict::new(*id, to, Some(reason.as_str()), detail)).collect()
}
