//! Update call: reservation → fresh snapshot → plan → claim (commit) → send → complete (commit).
//!
//! The call completes only the changes of its own claim. A change inserted after the claim waits for the next
//! call.

use super::claim::{self, Ending, Load, Went};
use super::read;
use super::snapshot::{Look, OWN_READ_SERVES, OwnReads, Work, gather};
use crate::client::Request;
use crate::client::wire;
use crate::exec::call::{Answer, words};
use crate::exec::key_probe::{self, Judged};
use crate::exec::{Context, JobError, change_events};
use crate::limiter::Pace;
use crate::model::{Cell, Lane, Operation, Quantity, RunId, Sku, WishId};
use crate::outbox::{Reason, State};
use crate::projection::Told;
use crate::reconcile::{Outcome, Step};
use crate::settle::{self, Tally};
use crate::store::{CellWrite, Claim, Durability, Verdict};
use crate::telemetry::event;
use std::collections::BTreeSet;
use std::time::Duration;

const UPDATE: Operation = Operation::UpdateQuantityOnHand;

/// Outcome of a call.
#[derive(Debug)]
pub(super) enum Sent {
    /// No call was made. Nothing is left to write, or the facts aged while the call waited. The stock levels
    /// are planned again.
    Nothing,
    /// Every change of the call moved. The call was answered, or its outcome is unknown.
    Concluded {
        /// Stock levels of the call.
        cells: Vec<Cell>,
        /// Changes applied.
        applied: u64,
        /// Changes that the platform refused.
        rejected: u64,
        /// Changes held for a decision.
        held: u64,
        /// Changes of unknown outcome.
        in_doubt: u64,
    },
    /// Refused as a whole; to be sent again in these parts.
    Halved(Vec<Vec<Cell>>),
    /// Refused as a whole with a status that openapi.yaml does not document for content errors. Sent again in
    /// halves. A call of one stock level has no parts, and its changes are pending again.
    Refused {
        /// The halves.
        parts: Vec<Vec<Cell>>,
        /// Message of the platform.
        why: String,
    },
    /// The call had no effect; its changes are pending again. A reason is given if another attempt is useless
    /// now.
    Waits(Option<String>),
}

/// Entry of the call.
struct Line {
    work: Work,
    write: CellWrite,
    settles: Vec<(WishId, String)>,
}

/// Call to be sent.
pub(super) struct Call {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) pace: Pace,
    pub(super) own_reads: OwnReads,
    pub(super) cells: Vec<Cell>,
}

/// Sends the stock levels as one call, planned again after the reservation.
pub(super) async fn send(context: Context, call: Call) -> Result<Sent, JobError> {
    context.may_claim().await?;
    let permit = context.place(Operation::UpdateQuantityOnHand, call.lane, call.pace).await?;
    let mut call = call;
    let mut lines = lines(&context, &call).await?;
    if lines.is_empty() && is_slow(&context) && permit.keep_for(read_again(&context, &mut call)).await? {
        lines = self::lines(&context, &call).await?;
    }
    // Another call may have been throttled in the meantime. Then the next batch makes a new reservation.
    if lines.is_empty() || !permit.may_send() || context.proofs.puts_off().is_some() {
        permit.give_back();
        return Ok(Sent::Nothing);
    }
    let entries: Vec<wire::QuantityUpdate> = lines.iter().map(Line::entry).collect();
    let request = match request(&entries) {
        Ok(request) => request,
        Err(error) => {
            permit.give_back();
            return Err(error);
        }
    };
    let wishes: Vec<Claim> = lines.iter().flat_map(Line::claims).collect();
    let cells: Vec<CellWrite> = lines.iter().map(|line| line.write.clone()).collect();
    let load =
        Load { run: call.run, lane: call.lane, request: &request, wishes: &wishes, cells: &cells, kept: &[] };
    let Some(begun) = claim::claim(&context, &load).await? else {
        permit.give_back();
        return Ok(Sent::Nothing);
    };
    let answer = context.send(permit, begun, request).await;
    conclude(&context, call.run, lines, answer).await
}

/// Returns true if facts age while a write waits for its reservation, because the quota is small. Then the
/// write keeps its reservation while its facts are read. Otherwise the read would use up the reservation, and
/// the facts would be too old again at the next one.
fn is_slow(context: &Context) -> bool {
    let limit = context.limiter.budget().limit;
    let apart = Duration::from_secs(60) / limit.max(1);
    limit > 1 && apart * 2 > context.settings().quantities.max_fact_age.max(OWN_READ_SERVES)
}

/// Reads the stock levels of a call for their write. Returns false if no read is needed, or if the read
/// failed.
async fn read_again(context: &Context, call: &mut Call) -> Result<bool, JobError> {
    let settings = context.settings();
    let look = Look::now(context, &settings.quantities, &call.own_reads);
    let works = gather(&context.store, look, Some(&call.cells)).await?.works;
    if !works.iter().any(|work| work.plan.step == Step::Read) {
        return Ok(false);
    }
    let skus: BTreeSet<Sku> = works.iter().map(|work| work.cell.sku.clone()).collect();
    let page = read::page(context, call.run, call.lane, (skus.into_iter().collect(), Vec::new())).await?;
    let read::Page::Came { exchange, .. } = page else { return Ok(false) };
    call.own_reads.extend(call.cells.iter().map(|cell| (cell.clone(), exchange)));
    Ok(true)
}

/// Builds the call that writes these entries.
pub(super) fn request(entries: &[wire::QuantityUpdate]) -> Result<Request, JobError> {
    wire::update_quantity_on_hand(entries).map_err(|why| {
        JobError::Implausible(format!("tallyd packed a call that the service would refuse: {why}"))
    })
}

/// Returns the entries that are still to be written. Empty if a fact aged while the call waited for its
/// reservation.
async fn lines(context: &Context, call: &Call) -> Result<Vec<Line>, JobError> {
    let settings = context.settings();
    let look = Look::now(context, &settings.quantities, &call.own_reads);
    let works = gather(&context.store, look, Some(&call.cells)).await?.works;
    if works.iter().any(|work| work.plan.step == Step::Read) {
        return Ok(Vec::new());
    }
    Ok(works.into_iter().filter_map(Line::of).collect())
}

impl Line {
    fn of(work: Work) -> Option<Self> {
        let (Step::Write { from, to }, Some(product)) = (work.plan.step, work.product) else { return None };
        let write = CellWrite { product, warehouse_id: work.cell.warehouse_id.0, before: from, written: to };
        let settles = work.plan.decisions.iter().filter_map(|decision| match &decision.outcome {
            Outcome::Settles { how } => Some((decision.id, how.clone())),
            Outcome::Held { .. } | Outcome::Rejected { .. } | Outcome::Cancelled { .. } => None,
        });
        Some(Self { settles: settles.collect(), write, work })
    }

    fn entry(&self) -> wire::QuantityUpdate {
        self.work.update(self.write.written)
    }

    fn claims(&self) -> impl Iterator<Item = Claim> + '_ {
        let written = Some(self.write.written.0);
        self.settles.iter().map(move |(id, _)| Claim { id: *id, written })
    }

    fn wishes(&self) -> impl Iterator<Item = WishId> + '_ {
        self.settles.iter().map(|(id, _)| *id)
    }

    /// Returns the move for every change of the entry.
    fn all(&self, to: State, reason: Reason, detail: &str) -> impl Iterator<Item = Verdict> {
        self.settles.iter().map(move |(id, _)| Verdict::new(*id, to, Some(reason.as_str()), detail))
    }

    fn applied(&self) -> impl Iterator<Item = Verdict> {
        self.settles.iter().map(|(id, how)| Verdict::new(*id, State::Applied, None, how))
    }
}

async fn conclude(context: &Context, run: RunId, lines: Vec<Line>, answer: Answer) -> Result<Sent, JobError> {
    let wishes: Vec<WishId> = lines.iter().flat_map(Line::wishes).collect();
    match claim::unanswered(context, &wishes, &answer).await? {
        Went::Answered => accepted(context, run, lines, &answer).await,
        Went::InDoubt => {
            context.failed(UPDATE, &skus(&lines), &words(&answer.reply)).await?;
            let in_doubt = wishes.len() as u64;
            Ok(Sent::Concluded { cells: cells(&lines), applied: 0, rejected: 0, held: 0, in_doubt })
        }
        Went::Throttled => Ok(Sent::Waits(None)),
        Went::NotSent(why) => Ok(Sent::Waits(Some(why))),
        Went::Refused { status: status @ (400 | 403), why } => {
            refused_whole(context, run, &lines, &answer, (status, &why)).await
        }
        Went::Refused { why, .. } => refused_strangely(context, &lines, &why).await,
    }
}

/// Handles a refusal with a status that is not documented for content errors. It proves nothing against a
/// change. A call of several stock levels is still cut in two, because one SKU may cause the failure and is
/// then quarantined.
async fn refused_strangely(context: &Context, lines: &[Line], why: &str) -> Result<Sent, JobError> {
    context.failed(UPDATE, &skus(lines), why).await?;
    let cells = cells(lines);
    let parts = if cells.len() > 1 { halves(&cells) } else { Vec::new() };
    Ok(Sent::Refused { parts, why: why.to_owned() })
}

fn halves(cells: &[Cell]) -> Vec<Vec<Cell>> {
    let (left, right) = cells.split_at(cells.len() / 2);
    vec![left.to_vec(), right.to_vec()]
}

/// Handles a refusal with status 400 or 403 (docs/rules.md 18). It may mean the key or the content, so the
/// key is judged first. Only then is the call cut in two to find the offending entry.
async fn refused_whole(
    context: &Context,
    run: RunId,
    lines: &[Line],
    answer: &Answer,
    (status, why): (u16, &str),
) -> Result<Sent, JobError> {
    // No notice if another call holds the operation already: one judgement serves both calls.
    drop(
        context.limiter.hold_operation(
            Operation::UpdateQuantityOnHand,
            format!("a quantity update was answered {status}"),
        ),
    );
    let judged = key_probe::judge(context, run, answer.sent_moment).await;
    if let Ok(Judged::NotKnown(unknown)) = &judged {
        put_off(context, lines, why, unknown).await?;
    }
    context.limiter.release_operation(Operation::UpdateQuantityOnHand);
    let cells = cells(lines);
    match judged? {
        Judged::Refused => return Err(context.refused(&answer.reply)),
        Judged::NotKnown(unknown) => return Ok(Sent::Waits(Some(unknown))),
        Judged::Content | Judged::Again if status == 403 => {
            return refused_strangely(context, lines, why).await;
        }
        Judged::Content | Judged::Again if cells.len() > 1 => {
            return Ok(Sent::Halved(halves(&cells)));
        }
        Judged::Again => return Ok(Sent::Halved(vec![cells])),
        Judged::Content => {}
    }
    let detail = format!("the service refused it: {why}");
    let moves: Vec<Verdict> =
        lines.iter().flat_map(|line| line.all(State::Rejected, Reason::ServiceRefused, &detail)).collect();
    let mut write = context.store.begin(Durability::Full).await?;
    let rejected = write.outbox_move(State::Pending, &moves, context.now()).await?;
    if rejected != moves.len() as u64 {
        // A change of the entry left the state pending in the meantime. The rest is another entry, which was
        // not refused.
        return Ok(Sent::Nothing);
    }
    write.commit().await?;
    change_events::tell(context, &moves).await;
    Ok(Sent::Concluded { cells, applied: 0, rejected, held: 0, in_doubt: 0 })
}

/// Suspends all quantity updates until a probe shows the state of the key. Notes the reason at the changes of
/// this call.
async fn put_off(context: &Context, lines: &[Line], why: &str, unknown: &str) -> Result<(), JobError> {
    context.proofs.put_off(unknown, context.moment());
    let detail = format!(
        "not done: {why}; that may mean the key, and the platform does not tell whether it accepts it: {unknown}; \
         the key is asked for again and again, and then it is sent"
    );
    let notes: Vec<Verdict> =
        lines.iter().flat_map(|line| line.all(State::Pending, Reason::OperationHeld, &detail)).collect();
    let mut write = context.store.begin(Durability::Normal).await?;
    write.outbox_note(State::Pending, &notes, context.now()).await?;
    Ok(write.commit().await?)
}

/// Completes each entry by the answer's status and messages. If they do not identify the entries, the stock
/// levels are read back at once. `settle` makes the second check if one is needed; this call does not wait
/// for it.
async fn accepted(
    context: &Context,
    run: RunId,
    lines: Vec<Line>,
    answer: &Answer,
) -> Result<Sent, JobError> {
    let skus: Vec<Sku> = lines.iter().map(|line| line.work.cell.sku.clone()).collect();
    let told = Told::read(&answer.reply.body, &skus);
    let mut moves = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match (&told, told.refused(index)) {
            (Told::Unclear(said), _) => {
                let detail = format!("the service's answer does not say which entries it means: {said}");
                moves.extend(line.all(State::InDoubt, Reason::Unmatched, &detail));
            }
            (Told::Refused(_), Some(why)) => {
                let detail = format!("the service refused it: {why}");
                moves.extend(line.all(State::Rejected, Reason::ServiceRefused, &detail));
            }
            (Told::Refused(_), None) => moves.extend(line.applied()),
        }
    }
    let is_unclear = matches!(told, Told::Unclear(_));
    let written: Vec<CellWrite> = lines.iter().map(|line| line.write.clone()).collect();
    claim::conclude(context, answer, &moves, Ending::Answered(&written, &told)).await?;
    let names: Vec<&str> = skus.iter().map(Sku::as_str).collect();
    context.worked(UPDATE, &names).await?;
    say(context, &lines, &moves, answer).await;
    let looked =
        if is_unclear { settle::look_back(context, run, answer.id).await? } else { Tally::default() };
    let tally = |state: State| moves.iter().filter(|verdict| verdict.to == state.as_str()).count() as u64;
    Ok(Sent::Concluded {
        cells: cells(&lines),
        applied: tally(State::Applied) + looked.landed,
        rejected: tally(State::Rejected),
        held: looked.held,
        in_doubt: tally(State::InDoubt).saturating_sub(looked.landed + looked.held),
    })
}

fn skus(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.work.cell.sku.as_str()).collect()
}

fn cells(lines: &[Line]) -> Vec<Cell> {
    lines.iter().map(|line| line.work.cell.clone()).collect()
}

/// Logs the call in one line. Changes that were not applied get a line of their own.
///
/// `window_ms` is the age of the oldest fact: a sale at the platform within that time was not visible.
async fn say(context: &Context, lines: &[Line], moves: &[Verdict], answer: &Answer) {
    let oldest = lines.iter().filter_map(|line| line.work.fact_at).min();
    let window = oldest.map(|at| context.moment().since(at));
    let window_ms = window.map(|window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
    let written: i64 = lines
        .iter()
        .map(|line| (line.write.written.0 - line.write.before.unwrap_or(Quantity(0)).0).abs())
        .sum();
    let wishes: Vec<WishId> = moves.iter().map(|verdict| verdict.id).collect();
    let (ids, keys) = change_events::listed(context, &wishes).await;
    tracing::info!(
        event = event::OUTBOX_SETTLED,
        exchange = answer.id.0,
        entries = lines.len(),
        wishes = wishes.len(),
        ids,
        keys,
        units_moved = written,
        window_ms,
        "{} entries answered",
        lines.len()
    );
    let others = moves.iter().filter(|verdict| verdict.to != State::Applied.as_str());
    change_events::tell(context, &others.cloned().collect::<Vec<_>>()).await;
}
