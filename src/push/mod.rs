//! `push`: delivers the changes of the outbox.
//!
//! This module sends quantities. Shipments and trackings go beside them, all other changes behind them
//! ([`kinds`]). The outbox wakes the job, not a schedule.
//!
//! The job works in batches of as many SKUs as one read takes ([`pipeline`]). It reads the stale stock levels
//! of a batch and applies the changes that need no call. It packs the rest into as few calls as possible. It
//! reads the next batch while calls are in flight.
//!
//! - A few stock levels wait for others first ([`delay`]).
//! - A call that would not be full waits for the next batch while there is one. The number of calls is
//!   therefore the lower bound over the whole backlog.
//! - Each call decides its stock levels again from the facts at its send ([`send`]).
//!
//! | files | subject |
//! | --- | --- |
//! | `snapshot`, `snapshot_rows`, `backlog` | the facts and changes of a batch, the queue of stock levels |
//! | `pipeline`, `call_queue`, `routes`, `delay` | batches, queued calls, isolated SKUs, delay of a few |
//! | `read`, `fault_search`, `unlisted`, `kits` | reads before a call |
//! | `brake`, `trips` | the brakes over the backlog and over one update |
//! | `send`, `claim`, `summary` | one call: claim, send, completion, and the summary of the run |
//! | `kinds` | the kinds other than quantities |
//! | `preview`, `preview_quantities` | the plan of the next push without a call |

mod backlog;
mod brake;
mod call_queue;
mod claim;
mod delay;
mod fault_search;
mod kinds;
mod kits;
mod pipeline;
mod preview;
mod preview_quantities;
mod read;
mod routes;
mod send;
mod snapshot;
mod snapshot_rows;
mod summary;
mod trips;
mod unlisted;

pub use preview::{Planned, Preview, preview};

use self::delay::until;
use self::kinds::Deliver;
use self::kits::Kits;
use self::pipeline::Pipeline;
use self::snapshot::Work;
use self::summary::{Tally, count};
use crate::exec::change_events::tell;
use crate::exec::{Context, JobError, Report};
use crate::model::{Cell, ExchangeId, JobKind, Moment, RunId, Sku, WarehouseId, WishId};
use crate::outbox::{Reason, State};
use crate::reconcile::packing::{Entry, pack};
use crate::reconcile::proof::TRUSTED_PAGE;
use crate::reconcile::{Lack, Outcome, Step};
use crate::store::{Claim, Durability, Store, StoreError, Verdict, WITNESSES};
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;

/// Limit of reads of a stock level in a run that brought no decision. Then its changes are held, and `settle`
/// checks it again with growing delays. Two reads are normal for a SKU that the platform does not return: the
/// second holds other SKUs too, and so can prove the absence.
const READS_MAX: u8 = 4;
/// Limit of entries in an update call (docs/interface.md, Limits).
const ENTRIES_MAX: usize = 25;
/// Limit of calls refused in a row, with none accepted between them. A single bad entry causes two or three
/// refusals; more of them mean that the fault is not in an entry.
const REFUSED_MAX: usize = 6;
/// Limit of SKUs in a read of SKUs that an earlier answer lacked. With the witnesses, the read has at most
/// [`TRUSTED_PAGE`] SKUs, so its answer can prove an absence.
const SMALL_PAGE: usize = TRUSTED_PAGE - WITNESSES;

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
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
        // A run waits only once, because a trickle may never end and other work starts only after the run.
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

/// Delivers quantities until `others` has ended, also quantities that arrive in that time. A failure of
/// shipments or products does not delay them. Cancels `over` when no quantity is left for the first time.
/// Puts the error that stops the quantities into `broken`; then no further quantities are sent.
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
    /// Number of reads of each stock level without a decision.
    reads: BTreeMap<Cell, u8>,
    pipe: Pipeline,
    tally: Tally,
    /// Warehouses that the list lacks, with the changes that name them.
    unlisted: BTreeMap<WarehouseId, BTreeSet<WishId>>,
    /// Warehouses that are proved not to exist.
    no_such: BTreeSet<WarehouseId>,
    /// Reason why some changes wait.
    waits: Option<String>,
    /// End of the wait of a few stock levels, if nothing is in flight.
    waits_until: Option<Moment>,
    /// Calls in a row that the platform refused as a whole.
    refused: usize,
    /// True if further attempts are useless in this run.
    is_cut_off: bool,
    kits: Kits,
}

impl Push<'_> {
    /// Delivers all quantity changes. Returns the error if facts cannot be read.
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

    /// Rejects changes whose body is invalid. A change that left the state pending in the meantime keeps its
    /// new state.
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

    /// Holds the changes of stock levels that no answer decided. Returns false if a change or fact has
    /// changed since the snapshot; then nothing is held.
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

    /// Finishes the changes that need no call. Returns false if a stock level or a change has changed since
    /// the snapshot. Then nothing is done, and the stock levels must be planned again.
    async fn settle(&mut self, works: &[&Work]) -> Result<bool, JobError> {
        let (mut moves, mut settled) = (Settled::default(), Vec::new());
        for work in works {
            if moves.add(work) {
                settled.push(*work);
            }
        }
        if settled.is_empty() { Ok(true) } else { self.carry_out(&settled, moves).await }
    }

    /// Commits the moves of these stock levels, all of them or none. The outcome of a change depends on the
    /// other changes of its stock level and on the fact. The plan is therefore carried out only if all of
    /// them are unchanged.
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

/// Packs the writes of a batch into calls. If `has_more` (a read is in flight or the backlog is not empty), a
/// call that is not full is left out. A call with an operator's change, or with a write that cannot wait, is
/// kept.
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

/// Returns the SKUs of the next read before a push. These are all stale SKUs, unless an answer lacked some of
/// them: then the lacking SKUs come first, up to [`SMALL_PAGE`] SKUs in all.
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

/// Returns true if an answer lacked the SKU as a whole.
fn lacked(work: &&Work) -> bool {
    work.lack.is_some_and(Lack::wants_witnesses)
}

/// Returns the witnesses of a page: SKUs that are known to exist. Empty unless an earlier answer lacked a SKU
/// of the page.
async fn witnesses_of(store: &Store, stale: &[&Work], skus: &BTreeSet<Sku>) -> Result<Vec<Sku>, StoreError> {
    if !stale.iter().any(|work| lacked(work) && skus.contains(&work.cell.sku)) {
        return Ok(Vec::new());
    }
    store.witnesses(&skus.iter().cloned().collect::<Vec<_>>()).await
}

/// Moves of a batch that need no call.
#[derive(Default)]
struct Settled {
    /// Changes whose wanted quantity the platform holds already, by the exchange that showed it.
    agreed: BTreeMap<ExchangeId, Vec<(Claim, Verdict)>>,
    /// Moves from pending.
    waiting: Vec<Verdict>,
    /// Moves from held.
    superseded: Vec<Verdict>,
}

impl Settled {
    fn len(&self) -> u64 {
        let agreed: usize = self.agreed.values().map(Vec::len).sum();
        (agreed + self.waiting.len() + self.superseded.len()) as u64
    }

    /// Adds the moves of a plan that need no call. Returns true if there are any. A count that is not written
    /// yet supersedes nothing: if it were cancelled or refused, the adjusts before it would be lost.
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
