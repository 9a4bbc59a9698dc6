//! Delivery of the wishes that are no quantities, one file per kind; a part of the push: parcels beside the quantities, the
//! others behind them.
//!
//! Every kind goes the same way: *whose turn* (one wish of an order, shipment, SKU or name at a time) → *look* (a fresh
//! read, recorded like any other) → *plan* (pure) → *carry* (claim, send) → *conclude*. What was seen is kept with the
//! claim, so that [`settle`](super::settle) can judge a wish whose answer is lost.
//!
//! A round gives each kind one call; operators' wishes have rounds of their own that go first. A wish that cannot be
//! delivered now is left alone for the rest of the run: nobody waits behind it, and nothing spins.

mod aside;
mod create;
mod foresee;
mod look;
mod product_create;
mod product_update;
mod shipment_create;
mod template_create;
mod tracking_submit;
mod warehouse_create;

pub(super) use create::Create;
pub(super) use foresee::foresee;
pub(super) use look::{Looker, Seen, order, products, shipment};

use super::call::{Answer, words};
use super::carry::{self, Load, WRITE_ANSWER, Went};
use super::lacking::{self, Lacking, Lacks};
use super::moved::Tally;
use super::tell::tell;
use super::{Context, JobError};
use crate::client::Request;
use crate::client::wire::Invalid;
use crate::limiter::Pace;
use crate::model::{Lane, Moment, Operation, Position, RunId, ShipmentId, Sku, WishId};
use crate::outbox::{self, Body, Reason, State};
use crate::reconcile::Plan;
use crate::store::{CellWrite, Claim, Durability, Kept, StoreError, Verdict, WishRow, Write};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A look older than this when its write gets a place in the quota is made again (rules.md 4).
const FRESH: Duration = Duration::from_secs(60);

/// The start that stock has before parcels go beside it: a few counts are sent in the order in which they were planned,
/// and a parcel's calls take as long anyway.
const STOCK_FIRST: Duration = Duration::from_secs(1);

/// The wishes that are no quantities, on their way.
pub(super) struct Deliver<'a> {
    context: &'a Context,
    run: RunId,
    /// Not again in this run.
    left_alone: BTreeSet<WishId>,
    /// They failed together with others: each of them goes in a call of its own. Each costs a look of its own anyway, and
    /// halves would cost those of unknown outcome another quiet time.
    alone: BTreeSet<WishId>,
    /// The last call held one of these.
    went_alone: bool,
    /// Calls in a row that the service refused as a whole, and not for their contents.
    refused: usize,
    /// Tried before without success: they go behind the others, which so wait for nobody's bad luck.
    unlucky: BTreeSet<WishId>,
    /// Answers lacked what they name.
    lacking: BTreeSet<WishId>,
    /// The service cannot be reached: nothing more goes in this run.
    is_cut_off: bool,
}

/// A pending wish whose body makes sense.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    id: WishId,
    is_urgent: bool,
    /// A person let it go past a brake.
    is_released: bool,
    body: Body,
}

/// What one wish is sent with.
struct Parcel<T> {
    kept: Kept,
    /// What its entry in the call is made of.
    entry: T,
}

/// What a kind makes of its answer.
trait Fold: Sync {
    /// Writes what the answer brings, and says where its wishes go. It may be called again, if the commit fails.
    async fn fold(
        &self,
        write: &mut Write,
        answer: &Answer,
        ended: Position,
    ) -> Result<Vec<Verdict>, StoreError>;
}

/// An answer that brings nothing but its wishes' moves.
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

    /// One call for each kind that has something to send; false when nothing is left to do now.
    pub(super) async fn round(&mut self, tally: &mut Tally) -> Result<bool, JobError> {
        let pending = self.context.store.outbox_pending().await?;
        self.round_of(&pending, tally).await
    }

    /// Ships and tracks until the stock is `over`: a parcel does not wait behind half an hour of counts. It writes no
    /// cell, so neither is in the other's way. It begins after [`STOCK_FIRST`].
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
        self.alone.extend(aside::did_not_land(pending));
        let wishes: Vec<Wish> = pending.iter().filter_map(Wish::of).collect();
        let lacking = Lacking::read(self.context).await?;
        let lacks = |wish: &&Wish| lacking.has(&lacking_subject(wish.id));
        self.lacking = wishes.iter().filter(lacks).map(|wish| wish.id).collect();
        // What a person or a due time made pending again has no reason, and is looked at now.
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
        let mut went = shipment_create::deliver(self, lane, wishes, tally).await?;
        went |= tracking_submit::deliver(self, lane, wishes, tally).await?;
        went |= create::deliver(self, lane, wishes, tally).await?;
        went |= product_update::deliver(self, lane, wishes, tally).await?;
        Ok(went)
    }

    /// Whose turn it is: the first wish of each subject for which nothing is under way.
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

    /// The first `limit` of them for one call; one that failed among others goes by itself, in turn with the others.
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

    /// Result of a look, unless it failed: what the service refuses to show is as good as lacking, what cannot be read
    /// now leaves the wish alone.
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

    /// What a plan sends; a wish that is not sent is moved to where it is read why.
    async fn planned<T>(
        &mut self,
        id: WishId,
        plan: Plan<T>,
        tally: &mut Tally,
    ) -> Result<Option<T>, JobError> {
        if !matches!(plan, Plan::Lacking { .. } | Plan::Read) && self.lacking.remove(&id) {
            lacking::end(self.context, &lacking_subject(id)).await?;
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

    /// An answer lacks what a wish names: the wish waits for a second look, and is then held for a person. It is refused
    /// for good only where what is known speaks against it.
    async fn lacks(
        &mut self,
        id: WishId,
        reason: Reason,
        detail: String,
        tally: &mut Tally,
    ) -> Result<(), JobError> {
        let subject = lacking_subject(id);
        match lacking::judge(self.context, self.run, &subject, &detail).await? {
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

    /// Moves a pending wish that is not sent, unless somebody moved it meanwhile.
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

    /// Says of wishes that stay pending what they wait for.
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

    /// Sends parcels in one call; see [`Self::carry`].
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

    /// Claims the parcels and sends their call. The answer is returned where one came that the kind has to read; it
    /// is not written down yet. `seen_at`: when the oldest look at what they depend on was made.
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
        let Some(begun) = carry::claim(self.context, &load).await? else {
            permit.give_back();
            return Ok(None);
        };
        let answer = self.context.send(permit, begun, request).await;
        tally.calls += 1;
        let operation = answer.reply.operation;
        let ids: Vec<WishId> = kept.iter().map(|kept| kept.id).collect();
        match carry::unanswered(self.context, &ids, &answer).await? {
            Went::Answered => {
                self.refused = 0;
                self.context.worked(operation, &aside::entries(kept)).await?;
                return Ok(Some(answer));
            }
            Went::InDoubt => {
                // What became of a product's update is judged by itself, and so is whether it is sent again.
                if operation != Operation::UpdateProduct {
                    self.context.failed(operation, &aside::entries(kept), &words(&answer.reply)).await?;
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

    /// Commits an answer with what it brings and what it means for its wishes, until that stands.
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
            // Else the last attempt did commit, whatever it said, and this one only tells the moves.
            write.commit().await?;
        }
        Ok(moves)
    }
}

impl Wish {
    /// The wish, unless it is a quantity's or makes no sense (which the quantities' round rejects).
    fn of(row: &WishRow) -> Option<Self> {
        let body = outbox::read(&row.kind, &row.body).ok()?;
        let (is_urgent, is_released) = (row.priority > 0, row.released_ms.is_some());
        body.cell().is_none().then_some(Self { id: WishId(row.id), is_urgent, is_released, body })
    }
}

/// The wishes that were tried before without success.
fn unlucky(pending: &[WishRow]) -> BTreeSet<WishId> {
    let unlucky = pending.iter().filter(|row| row.reason.as_deref() == Some(Reason::NotSent.as_str()));
    unlucky.map(|row| WishId(row.id)).collect()
}

/// The first wish of each subject for which nothing is under way, those with bad luck last.
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

/// The order's name among subjects.
fn order_subject(wish: &outbox::ShipmentCreate) -> String {
    format!("order {}", wish.order_id)
}

/// The wish's name among what answers lacked.
fn lacking_subject(wish: WishId) -> String {
    format!("change {wish}")
}

/// The shipment's name among subjects.
fn shipment_subject(shipment: ShipmentId) -> String {
    format!("shipment {shipment}")
}

/// The product's name among subjects: twins in spelling are one.
pub(super) fn sku_subject(sku: &Sku) -> String {
    format!("sku {}", sku.fold())
}

/// What the service's words on one record of an answer mean for its wish.
fn refusal(id: WishId, messages: &[String]) -> Verdict {
    let words = if messages.is_empty() { "it gave no reason".into() } else { messages.join(" ") };
    let detail = format!("the service refused it: {words}");
    Verdict::new(id, State::Rejected, Some(Reason::ServiceRefused.as_str()), detail)
}

/// An answer that does not say what became of a wish.
fn unmatched(id: WishId) -> Verdict {
    let detail = "the answer does not say what became of it";
    Verdict::new(id, State::InDoubt, Some(Reason::Unmatched.as_str()), detail)
}
