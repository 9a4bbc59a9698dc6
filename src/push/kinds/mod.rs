//! Delivery of all changes other than quantities, in one file per kind. It is a part of the push.
//!
//! Shipments and trackings go beside the quantities, the other kinds behind them. Every kind has the same
//! steps:
//!
//! 1. order: one change at a time per order, shipment, SKU or name;
//! 2. preflight: a fresh read, recorded like any other;
//! 3. plan (pure);
//! 4. claim and send. The preflight's result is stored with the claim as evidence for
//!    [`settle`](crate::settle);
//! 5. completion of the answer.
//!
//! A round gives each kind one call. Operators' changes go first, in rounds of their own. A change that
//! cannot be sent now is skipped for the rest of the run; it does not block other changes.

mod creates;
mod preview;
mod product_update;
mod quarantine;
mod shipment;
mod tracking;

pub(super) use preview::foresee;

use super::claim::{self, Load, WRITE_ANSWER, Went};
use super::summary::Tally;
use crate::client::Request;
use crate::client::wire::Invalid;
use crate::exec::absence::{self, Lacking, Lacks};
use crate::exec::call::{Answer, words};
use crate::exec::change_events::tell;
use crate::exec::{Context, JobError};
use crate::limiter::Pace;
use crate::model::{Lane, Moment, Operation, Position, RunId, ShipmentId, WishId};
use crate::outbox::{self, Body, Reason, State};
use crate::reconcile::Plan;
use crate::store::{CellWrite, Claim, Durability, Kept, StoreError, Verdict, WishRow, Write};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Limit of a preflight's age when its write has its reservation. An older preflight is repeated
/// (docs/rules.md 4).
const FRESH: Duration = Duration::from_secs(60);

/// Lead of the quantities before shipments go beside them. A few quantities are thus sent in their planned
/// order.
const STOCK_FIRST: Duration = Duration::from_secs(1);

/// Delivery of the changes other than quantities in a run of the push.
pub(super) struct Deliver<'a> {
    context: &'a Context,
    run: RunId,
    /// Changes skipped for the rest of the run.
    left_alone: BTreeSet<WishId>,
    /// Changes that failed together with others; each is sent in a call of its own. Halving would cost
    /// changes of unknown outcome another quiet time per step.
    alone: BTreeSet<WishId>,
    /// True if the last call had a change of `alone`.
    went_alone: bool,
    /// Calls in a row that the platform refused as a whole with an undocumented status.
    refused: usize,
    /// Changes that failed before. They are sent last, so that they do not delay the others.
    unlucky: BTreeSet<WishId>,
    /// Changes that name something which answers lacked.
    lacking: BTreeSet<WishId>,
    /// True if the run makes no further calls. The platform cannot be reached, or it refused too many calls.
    is_cut_off: bool,
}

/// Pending change with a valid body.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    id: WishId,
    is_urgent: bool,
    /// True if the change was released from a brake.
    is_released: bool,
    body: Body,
}

/// Entry of a call, with the evidence to be stored with its claim.
struct Parcel<T> {
    kept: Kept,
    /// Content of the entry.
    entry: T,
}

/// Application of an answer by its kind.
trait Fold: Sync {
    /// Writes the facts of the answer and returns the moves of its changes. Idempotent, because it runs again
    /// after a failed commit.
    async fn fold(
        &self,
        write: &mut Write,
        answer: &Answer,
        ended: Position,
    ) -> Result<Vec<Verdict>, StoreError>;
}

/// Answer without facts: only the moves.
impl Fold for Vec<Verdict> {
    async fn fold(&self, _: &mut Write, _: &Answer, _: Position) -> Result<Vec<Verdict>, StoreError> {
        Ok(self.clone())
    }
}

impl<'a> Deliver<'a> {
    pub(super) fn new(context: &'a Context, run: RunId) -> Self {
        Self {
            context,
            run,
            left_alone: BTreeSet::new(),
            alone: BTreeSet::new(),
            went_alone: false,
            refused: 0,
            unlucky: BTreeSet::new(),
            lacking: BTreeSet::new(),
            is_cut_off: false,
        }
    }

    /// Sends a call for each kind that has something to send. Returns false if nothing is left to do now.
    pub(super) async fn round(&mut self, tally: &mut Tally) -> Result<bool, JobError> {
        let pending = self.context.store.outbox_pending().await?;
        self.round_of(&pending, tally).await
    }

    /// Sends shipments and trackings until the quantities are `over`. A big recount can take half an hour.
    /// Shipments write no stock level, so they do not conflict with the quantities. They start after
    /// [`STOCK_FIRST`].
    pub(super) async fn parcels(
        &mut self,
        over: &CancellationToken,
        tally: &mut Tally,
    ) -> Result<(), JobError> {
        let mut news = self.context.new_wishes();
        let _ = timeout(STOCK_FIRST, over.cancelled()).await;
        while !over.is_cancelled() {
            let parcels = self.context.store.outbox_parcels().await?;
            if !self.round_of(&parcels, tally).await? {
                tokio::select! {
                    () = over.cancelled() => {}
                    came = news.changed() => came.expect("the bell hangs as long as the context lives"),
                }
            }
        }
        Ok(())
    }

    async fn round_of(&mut self, pending: &[WishRow], tally: &mut Tally) -> Result<bool, JobError> {
        if self.is_cut_off {
            return Ok(false);
        }
        self.unlucky = unlucky(pending);
        self.alone.extend(quarantine::did_not_land(pending));
        let wishes: Vec<Wish> = pending.iter().filter_map(Wish::of).collect();
        let lacking = Lacking::read(self.context).await?;
        let lacks = |wish: &&Wish| lacking.has(&lacking_subject(wish.id));
        self.lacking = wishes.iter().filter(lacks).map(|wish| wish.id).collect();
        // A change that a person or a due time made pending again has no reason, and is not skipped here.
        let unproved = pending.iter().filter(|row| row.reason.as_deref() == Some(Reason::Unproved.as_str()));
        for id in unproved.map(|row| WishId(row.id)) {
            if let Some(what) = lacking.not_yet(self.context, &lacking_subject(id)) {
                self.left_alone.insert(id);
                tally.note(what.to_owned());
            }
        }
        for lane in [Lane::Operator, Lane::Push] {
            let mine = |wish: &&Wish| {
                wish.is_urgent == (lane == Lane::Operator) && !self.left_alone.contains(&wish.id)
            };
            let mine: Vec<Wish> = wishes.iter().filter(mine).cloned().collect();
            if self.pass(lane, &mine, tally).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn pass(&mut self, lane: Lane, wishes: &[Wish], tally: &mut Tally) -> Result<bool, JobError> {
        if wishes.is_empty() {
            return Ok(false);
        }
        let mut went = shipment::deliver(self, lane, wishes, tally).await?;
        went |= tracking::deliver(self, lane, wishes, tally).await?;
        went |= creates::deliver(self, lane, wishes, tally).await?;
        went |= product_update::deliver(self, lane, wishes, tally).await?;
        Ok(went)
    }

    /// Returns the first change of each ordering key. Leaves out keys with a call in flight or in doubt.
    async fn in_turn<T>(
        &self,
        wishes: Vec<(WishId, String, T)>,
    ) -> Result<Vec<(WishId, String, T)>, JobError> {
        if wishes.is_empty() {
            return Ok(wishes);
        }
        let under_way = self.context.store.delivery_under_way().await?;
        Ok(turn(wishes, &under_way, &self.unlucky))
    }

    /// Returns the first `limit` changes for a call. Isolated changes and the others take turns.
    fn share_call<T>(&mut self, wishes: Vec<(WishId, String, T)>, limit: usize) -> Vec<(WishId, String, T)> {
        let (mut alone, mut others): (Vec<_>, Vec<_>) =
            wishes.into_iter().partition(|(id, ..)| self.alone.contains(id));
        self.went_alone = !alone.is_empty() && (others.is_empty() || !self.went_alone);
        if self.went_alone {
            alone.truncate(1);
            return alone;
        }
        others.truncate(limit);
        others
    }

    /// Returns the result of a read. `None` after a failure: a refusal counts as an absence, and any other
    /// failure skips the change.
    async fn seen<T>(
        &mut self,
        id: WishId,
        look: Result<T, JobError>,
        tally: &mut Tally,
    ) -> Result<Option<T>, JobError> {
        match look {
            Ok(seen) => Ok(Some(seen)),
            Err(JobError::Rejected { what, why, .. }) => {
                let detail = format!("the service refuses to show {what}: {why}");
                self.lacks(id, Reason::ServiceRefused, detail, tally).await?;
                Ok(None)
            }
            Err(error @ (JobError::GivenUp { .. } | JobError::Implausible(_))) => {
                self.left_alone.insert(id);
                self.wait(&[(id, Reason::NotSent, error.to_string())]).await?;
                tally.note(error.to_string());
                Ok(None)
            }
            Err(error @ (JobError::Stopped | JobError::Refused(_) | JobError::Store(_))) => Err(error),
        }
    }

    /// Returns the content of a plan that sends. Otherwise moves the change, or skips it.
    async fn planned<T>(
        &mut self,
        id: WishId,
        plan: Plan<T>,
        tally: &mut Tally,
    ) -> Result<Option<T>, JobError> {
        if !matches!(plan, Plan::Lacking { .. } | Plan::Read) && self.lacking.remove(&id) {
            absence::end(self.context, &lacking_subject(id)).await?;
        }
        match plan {
            Plan::Go(what) => return Ok(Some(what)),
            Plan::Held { reason, detail } => self.stop(id, State::Held, reason, detail, tally).await?,
            Plan::Lacking { reason, detail } => self.lacks(id, reason, detail, tally).await?,
            Plan::Rejected { reason, detail } => {
                self.stop(id, State::Rejected, reason, detail, tally).await?;
            }
            Plan::Read => {
                self.left_alone.insert(id);
                tally.note(format!("what wish {id} depends on moved while it was read"));
            }
        }
        Ok(None)
    }

    /// Handles an answer that lacks the thing a change names. The change waits for a second answer and is
    /// then held. It is rejected only if known facts contradict it.
    async fn lacks(
        &mut self,
        id: WishId,
        reason: Reason,
        detail: String,
        tally: &mut Tally,
    ) -> Result<(), JobError> {
        let subject = lacking_subject(id);
        match absence::judge(self.context, self.run, &subject, &detail).await? {
            Lacks::Proved => {
                let is_wrong = self.context.store.lacking_is_wrong(id).await?;
                let to = if is_wrong { State::Rejected } else { State::Held };
                self.stop(id, to, reason, detail, tally).await
            }
            Lacks::NotProved(why) => {
                self.left_alone.insert(id);
                self.wait(&[(id, Reason::Unproved, why.clone())]).await?;
                tally.note(why);
                Ok(())
            }
        }
    }

    /// Moves a pending change to a state without a call. Does nothing if the change is no longer pending.
    async fn stop(
        &mut self,
        id: WishId,
        to: State,
        reason: Reason,
        detail: String,
        tally: &mut Tally,
    ) -> Result<(), JobError> {
        let moves = [Verdict::new(id, to, Some(reason.as_str()), detail)];
        let mut write = self.context.store.begin(Durability::Full).await?;
        if write.outbox_move(State::Pending, &moves, self.context.now()).await? != 1 {
            return Ok(());
        }
        write.commit().await?;
        tell(self.context, &moves).await;
        tally.count(&moves);
        Ok(())
    }

    /// Notes at pending changes what they wait for.
    async fn wait(&mut self, waiting: &[(WishId, Reason, String)]) -> Result<(), JobError> {
        if waiting.is_empty() {
            return Ok(());
        }
        let note = |(id, reason, detail): &(WishId, Reason, String)| {
            Verdict::new(*id, State::Pending, Some(reason.as_str()), detail)
        };
        let notes: Vec<Verdict> = waiting.iter().map(note).collect();
        let mut write = self.context.store.begin(Durability::Normal).await?;
        write.outbox_note(State::Pending, &notes, self.context.now()).await?;
        write.commit().await?;
        Ok(())
    }

    /// Sends entries in one call; see [`Self::carry`].
    async fn carry_parcels<T>(
        &mut self,
        lane: Lane,
        request: Result<Request, Invalid>,
        parcels: &[Parcel<T>],
        seen_at: Moment,
        tally: &mut Tally,
    ) -> Result<Option<Answer>, JobError> {
        let kept: Vec<Kept> = parcels.iter().map(|parcel| parcel.kept.clone()).collect();
        self.carry(lane, request, &kept, &[], seen_at, tally).await
    }

    /// Claims changes and sends their call. Returns an accepted answer, which the caller must complete.
    /// `None` if nothing was sent or the outcome needs no parsing. `seen_at` is the time of the oldest
    /// preflight.
    async fn carry(
        &mut self,
        lane: Lane,
        request: Result<Request, Invalid>,
        kept: &[Kept],
        cells: &[CellWrite],
        seen_at: Moment,
        tally: &mut Tally,
    ) -> Result<Option<Answer>, JobError> {
        let request = request.map_err(|why| JobError::Implausible(why.to_string()))?;
        self.context.may_claim().await?;
        let permit = self.context.place(request.operation, lane, Pace::Paid).await?;
        if self.context.moment().since(seen_at) > FRESH || !permit.may_send() {
            permit.give_back();
            return Ok(None);
        }
        let wishes: Vec<Claim> = kept.iter().map(|kept| Claim { id: kept.id, written: None }).collect();
        let load = Load { run: self.run, lane, request: &request, wishes: &wishes, cells, kept };
        let Some(begun) = claim::claim(self.context, &load).await? else {
            permit.give_back();
            return Ok(None);
        };
        let answer = self.context.send(permit, begun, request).await;
        tally.calls += 1;
        let operation = answer.reply.operation;
        let ids: Vec<WishId> = kept.iter().map(|kept| kept.id).collect();
        match claim::unanswered(self.context, &ids, &answer).await? {
            Went::Answered => {
                self.refused = 0;
                self.context.worked(operation, &quarantine::entries(kept)).await?;
                return Ok(Some(answer));
            }
            Went::InDoubt => {
                // `settle` judges the update of a product, and also its repetition.
                if operation != Operation::UpdateProduct {
                    self.context.failed(operation, &quarantine::entries(kept), &words(&answer.reply)).await?;
                }
                tally.in_doubt += ids.len() as u64;
            }
            Went::Throttled => {}
            Went::NotSent(why) => self.cut_off(why, tally),
            Went::Refused { status, why } => self.refused(kept, (status, why), &answer, tally).await?,
        }
        Ok(None)
    }

    fn cut_off(&mut self, why: String, tally: &mut Tally) {
        self.is_cut_off = true;
        tally.note(why);
    }

    /// Commits an answer with its facts and the moves of its changes. Retries the commit after a transient
    /// error.
    async fn conclude(&self, answer: &Answer, fold: &impl Fold, tally: &mut Tally) -> Result<(), JobError> {
        let mut insist = self.context.insist(WRITE_ANSWER);
        let moves = loop {
            let attempt = self.try_conclude(answer, fold).await;
            if let Some(moves) = insist.on(attempt).await? {
                break moves;
            }
        };
        tell(self.context, &moves).await;
        tally.count(&moves);
        Ok(())
    }

    async fn try_conclude(&self, answer: &Answer, fold: &impl Fold) -> Result<Vec<Verdict>, StoreError> {
        let mut write = self.context.store.begin(Durability::Full).await?;
        let is_over = write.exchange_is_over(answer.id).await?;
        let position = self.context.exchange_end(&mut write, answer).await?;
        let moves = fold.fold(&mut write, answer, position).await?;
        write.outbox_move(State::Sending, &moves, self.context.now()).await?;
        if !is_over {
            // Otherwise the last attempt was committed despite its error, and this attempt only returns the
            // moves.
            write.commit().await?;
        }
        Ok(moves)
    }
}

impl Wish {
    /// Parses a change. `None` for quantities and for invalid bodies, which the quantities' part rejects.
    fn of(row: &WishRow) -> Option<Self> {
        let body = outbox::read(&row.kind, &row.body).ok()?;
        let (is_urgent, is_released) = (row.priority > 0, row.released_ms.is_some());
        body.cell().is_none().then_some(Self { id: WishId(row.id), is_urgent, is_released, body })
    }
}

/// Returns the changes that failed before.
fn unlucky(pending: &[WishRow]) -> BTreeSet<WishId> {
    let unlucky = pending.iter().filter(|row| row.reason.as_deref() == Some(Reason::NotSent.as_str()));
    unlucky.map(|row| WishId(row.id)).collect()
}

/// Returns the first change of each ordering key, previously failed ones last. Leaves out keys with a call in
/// flight or in doubt.
fn turn<T>(
    wishes: Vec<(WishId, String, T)>,
    under_way: &BTreeSet<String>,
    unlucky: &BTreeSet<WishId>,
) -> Vec<(WishId, String, T)> {
    let subjects: Vec<String> = wishes.iter().map(|(_, subject, _)| subject.clone()).collect();
    let turn: BTreeSet<usize> = crate::reconcile::create::in_turn(&subjects, under_way).into_iter().collect();
    let first = wishes.into_iter().enumerate().filter(|(index, _)| turn.contains(index));
    let mut first: Vec<_> = first.map(|(_, wish)| wish).collect();
    first.sort_by_key(|(id, ..)| unlucky.contains(id));
    first
}

/// Returns the ordering key of an order.
fn order_subject(wish: &outbox::ShipmentCreate) -> String {
    format!("order {}", wish.order_id)
}

/// Returns the key of the change in the table of absences.
fn lacking_subject(wish: WishId) -> String {
    format!("change {wish}")
}

/// Returns the ordering key of a shipment.
fn shipment_subject(shipment: ShipmentId) -> String {
    format!("shipment {shipment}")
}

/// Returns the move of a change that the platform refused.
fn refusal(id: WishId, messages: &[String]) -> Verdict {
    let words = if messages.is_empty() { "it gave no reason".into() } else { messages.join(" ") };
    let detail = format!("the service refused it: {words}");
    Verdict::new(id, State::Rejected, Some(Reason::ServiceRefused.as_str()), detail)
}

/// Returns the move of a change that the answer does not identify.
fn unmatched(id: WishId) -> Verdict {
    let detail = "the answer does not say what became of it";
    Verdict::new(id, State::InDoubt, Some(Reason::Unmatched.as_str()), detail)
}
