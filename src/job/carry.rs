//! Carrying wishes to the service: claim (commit) → send → conclude (commit), as far as it is the same for every kind.
//!
//! A claim stands on disk before the first byte leaves: a crash leaves its wishes in doubt, never unknown. What an
//! answer says only its kind can read; what it means that none came, or one that proves that nothing was done, is the
//! same for all of them and is written down here (rules.md 16, 17).

use super::call::{Answer, Sent, words};
use super::record::Told;
use super::tell::listed;
use super::{Context, JobError, record};
use crate::client::wire::Asked;
use crate::client::{Request, Verdict as Answered};
use crate::model::{Lane, RunId, WishId};
use crate::outbox::{Reason, State};
use crate::store::{CellWrite, Claim, Durability, Kept, StoreError, Verdict};
use crate::telemetry::event;

/// What is insisted on when an answer came, as in "cannot …".
pub(super) const WRITE_ANSWER: &str = "write down an answer";

/// The wishes of one call, and what is kept with their claim.
pub(super) struct Load<'a> {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) request: &'a Request,
    pub(super) wishes: &'a [Claim],
    /// The cells it writes.
    pub(super) cells: &'a [CellWrite],
    /// What judging its other wishes will need.
    pub(super) kept: &'a [Kept],
}

/// What became of a call, before its answer is read.
#[derive(Debug)]
pub(super) enum Went {
    /// Answered; nothing is written down yet.
    Answered,
    /// Sent, outcome unknown: its wishes are in doubt.
    InDoubt,
    /// Told to wait: its wishes are pending again, and the limiter knows when.
    Throttled,
    /// No byte left: its wishes are pending again, and trying again at once is no use.
    NotSent(String),
    /// The content was refused and nothing was done; its wishes are pending again until somebody judges them.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The service's words.
        why: String,
    },
}

/// Commits the claim. None where a wish was moved by somebody else or a cell moved since the plan, or where an answer
/// waits to be written down: then nothing is to be sent, and the next look plans anew.
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
    if record::claimed(&mut write, begun.id, &asked).await?.as_deref() != Some(load.cells) {
        return Ok(None);
    }
    write.delivery_claim(load.kept).await?;
    write.commit().await?;
    Ok(Some(begun))
}

/// Writes down what became of a call that was not answered in the expected shape; an answer is left to its kind.
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
        // The id in the path may be meant: the key is judged by whoever sent the call.
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

/// The cells stay claimed: until a look at the service nobody knows what they hold.
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

/// What becomes of the cells of a call.
#[derive(Clone, Copy)]
pub(super) enum Ending<'a> {
    /// Nobody knows: the cells stay claimed until a look at the service.
    Open,
    /// Nothing was done: they hold what they held.
    NotDone,
    /// These were to be written, in the order of the entries, and the answer says what became of each.
    Answered(&'a [CellWrite], &'a Told),
}

/// Commits what came of a call: the exchange, the wishes' states, the cells. Until that stands nothing else is claimed.
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
        // The last attempt did commit, whatever it said.
        return Ok(());
    }
    let position = context.exchange_end(&mut write, answer).await?;
    write.outbox_move(State::Sending, moves, context.now()).await?;
    let when = (position, answer.sent_at);
    match ending {
        Ending::Open => {}
        Ending::NotDone => write.cell_conclude(answer.id, position, answer.sent_at, &[]).await?,
        Ending::Answered(written, told) => {
            record::quantities_answered(&mut write, answer.id, when, written, told).await?;
        }
    }
    write.commit().await
}

/// The same move for every wish.
fn all(wishes: &[WishId], to: State, reason: Reason, detail: &str) -> Vec<Verdict> {
    wishes.iter().map(|id| Verdict::new(*id, to, Some(reason.as_str()), detail)).collect()
}
