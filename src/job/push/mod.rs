//! `push`: delivers the outbox. This file has the wishes for stock; beside them go the parcels, behind them all others
//! ([`super::deliver`]).
//!
//! Woken by the outbox, not by a schedule. It works in batches of as many SKUs as one read takes: what is stale in
//! the batch is read, what needs no call is settled, the rest is packed into as few calls as can be and sent, while the
//! next batch is read ([`pipeline`]). Few cells wait for each other first ([`trickle`]). A call that would not be full
//! waits for the next batch while there is one, so the number of calls is the lower bound over the whole backlog. Every
//! call decides its cells once more from what is known at that moment ([`send`]).

mod backlog;
mod brake;
mod foresee;
mod kits;
mod line;
mod pipeline;
mod read;
mod rows;
mod search;
mod send;
mod trickle;
mod turn;
mod unlisted;
pub(super) mod work;

pub(super) use self::foresee::foresee;
use self::kits::Kits;
use self::pipeline::Pipeline;
pub(super) use self::trickle::Starts;
use self::trickle::until;
use self::work::Work;
use super::deliver::Deliver;
use super::moved::{Tally, count};
use super::tell::tell;
use super::{Context, JobError, Report};
use crate::model::{Cell, ExchangeId, JobKind, Moment, RunId, Sku, WarehouseId, WishId};
use crate::outbox::{Reason, State};
use crate::reconcile::packing::{Entry, pack};
use crate::reconcile::proof::TRUSTED_PAGE;
use crate::reconcile::{Lack, Outcome, Step};
use crate::store::{Claim, Durability, Store, StoreError, Verdict, WITNESSES};
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;

/// Reads of one cell in a run that brought no decision, after which its wishes are held: `settle` looks at it again, ever
/// more rarely. Two are normal where the service does not return the SKU: the second holds others too, and so can prove
/// that nobody ever saw it.
const READS_MAX: u8 = 4;
/// The service's limit of entries in an update call (*Limits*).
const ENTRIES_MAX: usize = 25;
/// Limit of calls refused in a row, with none accepted between: that many are no entry's fault, it is the way to the
/// service. One entry brings two or three.
const REFUSED_MAX: usize = 6;
/// Number of SKUs asked for at a time where an earlier answer lacked them: with the witnesses beside them, the answer
/// is small enough to be trusted.
const SMALL_PAGE: usize = TRUSTED_PAGE - WITNESSES;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let (reads, pipe, tally) = (BTreeMap::new(), Pipeline::default(), Tally::default());
    let (unlisted, no_such, waits) = (BTreeMap::new(), BTreeSet::new(), None);
    let (refused, is_cut_off) = (0, false);
    let mut push = Push {
        context,
        run,
        reads,
        pipe,
        tally,
        unlisted,
        no_such,
        waits,
        waits_until: None,
        refused,
        is_cut_off,
        kits: Kits::default(),
    };
    let mut deliver = Deliver::new(context, run);
    let (mut broken, mut news, mut has_waited) = (None, context.new_wishes(), false);
    let wakes = loop {
        let (over, mut parcels) = (CancellationToken::new(), Tally::default());
        let shipping = deliver.parcels(&over, &mut parcels);
        beside(&mut push, &mut broken, &over, shipping).await?;
        push.tally.add(parcels);
        let mut others = Tally::default();
        let rounding = deliver.round(&mut others);
        let goes_on = beside(&mut push, &mut broken, &over, rounding).await?;
        push.tally.add(others);
        if goes_on {
            continue;
        }
        let Some(end) = push.waits_until.filter(|_| broken.is_none()) else { break None };
        // A trickle never ends, and a run does: what follows a run has its turn too.
        if has_waited {
            break Some(JobKind::Push);
        }
        tokio::select! {
            biased;
            () = until(context, Some(end)) => {}
            came = news.changed() => came.expect("the bell hangs as long as the context lives"),
        }
        has_waited = end <= context.moment();
    };
    broken.map_or_else(|| Ok(Report { wakes, ..push.tally.report() }), Err)
}

/// Delivers the stock while `others` are delivered, also what comes meanwhile: no parcel's or product's trouble delays it.
/// `over` is told when no stock is left for the first time. What stops the stock is put into `broken`, once.
async fn beside<T>(
    push: &mut Push<'_>,
    broken: &mut Option<JobError>,
    over: &CancellationToken,
    others: impl Future<Output = Result<T, JobError>>,
) -> Result<T, JobError> {
    let (done, mut news) = (CancellationToken::new(), push.context.new_wishes());
    let stock = async {
        loop {
            if broken.is_none() {
                let drained = push.stock().await;
                over.cancel();
                *broken = drained?;
            }
            over.cancel();
            tokio::select! {
                biased;
                () = done.cancelled() => return Ok(()),
                () = until(push.context, push.waits_until), if push.waits_until.is_some() && broken.is_none() => {}
                came = news.changed() => came.expect("the bell hangs as long as the context lives"),
            }
        }
    };
    let others = async {
        let ended = others.await;
        done.cancel();
        ended
    };
    let (stock, others) = tokio::join!(stock, others);
    stock.and(others)
}

struct Push<'a> {
    context: &'a Context,
    run: RunId,
    /// How often each cell was read without a decision.
    reads: BTreeMap<Cell, u8>,
    pipe: Pipeline,
    tally: Tally,
    /// Warehouses that the list lacks, with the wishes that name them.
    unlisted: BTreeMap<WarehouseId, BTreeSet<WishId>>,
    /// Warehouses that are proved not to be there.
    no_such: BTreeSet<WarehouseId>,
    /// The reason why some wishes wait.
    waits: Option<String>,
    /// Few cells wait for more until then, and nothing is under way.
    waits_until: Option<Moment>,
    /// Calls in a row that the service refused as a whole.
    refused: usize,
    /// Trying on is no use in this run.
    is_cut_off: bool,
    kits: Kits,
}

impl Push<'_> {
    /// All wishes for stock; facts that cannot be read are returned.
    async fn stock(&mut self) -> Result<Option<JobError>, JobError> {
        let drained = loop {
            let drained = self.drain().await?;
            if drained.is_some() {
                break drained;
            }
            let (listed, answered) = (self.read_warehouses().await?, self.ask_for_kits().await?);
            if !listed && !answered {
                break drained;
            }
        };
        if let Some(why) = self.waits.take() {
            self.tally.note(why);
        }
        Ok(drained)
    }

    /// Moves what makes no sense to where it is read. Each is judged by itself: one that somebody moved meanwhile stays
    /// where that put it.
    async fn reject(&mut self, moves: &[Verdict]) -> Result<(), JobError> {
        if moves.is_empty() {
            return Ok(());
        }
        let mut write = self.context.store.begin(Durability::Full).await?;
        let moved = write.outbox_move_each(State::Pending, moves, self.context.now()).await?;
        write.commit().await?;
        let moved: Vec<Verdict> =
            moves.iter().filter(|verdict| moved.contains(&verdict.id)).cloned().collect();
        self.tally.rejected += moved.len() as u64;
        tell(self.context, &moved).await;
        Ok(())
    }

    fn reads(&self, work: &Work) -> u8 {
        self.reads.get(&work.cell).copied().unwrap_or(0)
    }

    /// Holds the wishes of cells that no answer decided; false where one of them changed meanwhile.
    async fn hold_unread(&mut self, works: &[&Work]) -> Result<bool, JobError> {
        let held = |work: &&Work| {
            let detail = match work.lack {
                Some(lack) => lack.sentence(&work.cell.sku, Some(work.cell.warehouse_id)),
                None => "the service was asked for this cell several times and no answer decided it; it is looked at \
                         again by itself"
                    .into(),
            };
            let held = |id: &WishId| Verdict::new(*id, State::Held, Some(Reason::NoFact.as_str()), &*detail);
            work.pending.iter().map(held).collect::<Vec<_>>()
        };
        let waiting = works.iter().flat_map(held).collect();
        self.carry_out(works, Settled { waiting, ..Settled::default() }).await
    }

    /// Carries out what needs no call; false where a cell or a wish changed since the look: then nothing was done, and
    /// the cells are to be planned again.
    async fn settle(&mut self, works: &[&Work]) -> Result<bool, JobError> {
        let (mut moves, mut settled) = (Settled::default(), Vec::new());
        for work in works {
            if moves.add(work) {
                settled.push(*work);
            }
        }
        if settled.is_empty() { Ok(true) } else { self.carry_out(&settled, moves).await }
    }

    /// Commits the moves of these cells, all of them or none. What becomes of a wish depends on the cell's other wishes and
    /// on its fact: a plan is carried out only while all of them are what it was made from.
    async fn carry_out(&mut self, works: &[&Work], moves: Settled) -> Result<bool, JobError> {
        let now = self.context.now();
        let mut write = self.context.store.begin(Durability::Full).await?;
        let seen: Vec<_> = works.iter().map(|work| &work.seen).collect();
        if !write.cells_stand(&seen).await? {
            return Ok(false);
        }
        let (mut moved, mut applied) = (0, 0);
        for (exchange, agreed) in &moves.agreed {
            let claims: Vec<Claim> = agreed.iter().map(|(claim, _)| *claim).collect();
            let verdicts: Vec<Verdict> = agreed.iter().map(|(_, verdict)| verdict.clone()).collect();
            write.outbox_claim(*exchange, &claims, now).await?;
            applied += write.outbox_move(State::Sending, &verdicts, now).await?;
        }
        let agreed = works.iter().filter(|work| matches!(work.plan.step, Step::Agreed(_)));
        let agreed = agreed.filter_map(|work| Some((work.product?, work.cell.warehouse_id.0)));
        write.mismatch_end(&agreed.collect::<Vec<_>>()).await?;
        moved += write.outbox_move(State::Pending, &moves.waiting, now).await?;
        moved += write.outbox_move(State::Held, &moves.superseded, now).await?;
        if applied + moved != moves.len() {
            return Ok(false);
        }
        write.commit().await?;
        self.tally.applied += applied;
        self.tally.held += count(&moves.waiting, State::Held);
        self.tally.rejected += count(&moves.waiting, State::Rejected);
        tell(self.context, &moves.waiting).await;
        tell(self.context, &moves.superseded).await;
        Ok(true)
    }
}

/// The writes of a batch as calls. While more is to come, by a read or from the rest of the backlog, a call that would
/// not be full waits for it, unless an operator does or something in it cannot wait.
fn calls<'w>(writes: &[&'w Work], has_more: bool, cannot_wait: impl Fn(&Work) -> bool) -> Vec<Vec<&'w Work>> {
    let entries: Vec<Entry<'_>> = writes.iter().map(|work| work.entry()).collect();
    let packed = pack(&entries).into_iter();
    let mut calls: Vec<Vec<&Work>> =
        packed.map(|call| call.into_iter().map(|index| writes[index]).collect()).collect();
    if has_more {
        calls.retain(|call| {
            call.len() == ENTRIES_MAX || call.iter().any(|work| work.urgent || cannot_wait(work))
        });
    }
    calls
}

/// The SKUs of the next read before a push: all that are stale, or first a few of those an answer lacked, with as many of
/// the others as a small page takes.
fn skus_to_read(stale: &[&Work]) -> BTreeSet<Sku> {
    if !stale.iter().any(lacked) {
        return stale.iter().map(|work| work.cell.sku.clone()).collect();
    }
    let mut skus: BTreeSet<Sku> = BTreeSet::new();
    let first = stale.iter().filter(|work| lacked(work)).chain(stale.iter().filter(|work| !lacked(work)));
    for work in first {
        if skus.len() >= SMALL_PAGE {
            break;
        }
        skus.insert(work.cell.sku.clone());
    }
    skus
}

/// True if an answer lacked the SKU as if it were gone.
fn lacked(work: &&Work) -> bool {
    work.lack.is_some_and(Lack::wants_witnesses)
}

/// The SKUs to be asked for beside a page: where an earlier answer lacked one of its own, a few that are known to be there.
async fn witnesses_of(store: &Store, stale: &[&Work], skus: &BTreeSet<Sku>) -> Result<Vec<Sku>, StoreError> {
    if !stale.iter().any(|work| lacked(work) && skus.contains(&work.cell.sku)) {
        return Ok(Vec::new());
    }
    store.witnesses(&skus.iter().cloned().collect::<Vec<_>>()).await
}

/// The moves of a batch that need no call.
#[derive(Default)]
struct Settled {
    /// The service holds the wanted quantity already: applied by the exchange that said so.
    agreed: BTreeMap<ExchangeId, Vec<(Claim, Verdict)>>,
    /// From pending.
    waiting: Vec<Verdict>,
    /// From held.
    superseded: Vec<Verdict>,
}

impl Settled {
    fn len(&self) -> u64 {
        let agreed: usize = self.agreed.values().map(Vec::len).sum();
        (agreed + self.waiting.len() + self.superseded.len()) as u64
    }

    /// Adds what a cell's plan settles without a call; whether that is anything. A count that is yet to be written
    /// supersedes nothing: it may be withdrawn or refused, and the movements before it would be lost with it.
    fn add(&mut self, work: &Work) -> bool {
        let before = self.len();
        for decision in &work.plan.decisions {
            let (id, verdict) = (decision.id, work.verdict(decision));
            match (&decision.outcome, &work.plan.step) {
                (Outcome::Settles { .. }, Step::Agreed(quantity)) => {
                    let claim = Claim { id, written: Some(quantity.0) };
                    self.agreed.entry(work.fact_exchange).or_default().push((claim, verdict));
                }
                (Outcome::Settles { .. }, Step::Nothing | Step::Read | Step::Write { .. })
                | (Outcome::Cancelled { .. }, Step::Write { .. }) => {}
                (Outcome::Held { .. } | Outcome::Rejected { .. } | Outcome::Cancelled { .. }, _) => {
                    let from_held = !work.pending.contains(&id);
                    if from_held { &mut self.superseded } else { &mut self.waiting }.push(verdict);
                }
            }
        }
        self.len() > before
    }
}
