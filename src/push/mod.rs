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
//! - Each call checks its plan at its send, and plans again if something moved ([`send`]).
//!
//! | files | subject |
//! | --- | --- |
//! | `snapshot`, `snapshot_rows`, `backlog` | the facts and changes of a batch, the queue of stock levels |
//! | `pipeline`, `finished_calls`, `call_queue`, `routes`, `delay` | batches, queued calls, their completion, isolated SKUs, delay of a few |
//! | `unlisted`, `kits` | reads before a call |
//! | `brake` | the brakes over the backlog and over one update |
//! | `send`, `claim`, `refusal`, `summary` | one call: claim, send, completion, its end, the summary of the run |
//! | `kinds` | the kinds other than quantities |
//! | `preview` | the plan of the next push without a call |

mod backlog;
mod brake;
mod call_queue;
mod claim;
mod delay;
mod finished_calls;
mod kinds;
mod kits;
mod pipeline;
mod preview;
mod refusal;
mod routes;
mod send;
mod snapshot;
mod snapshot_rows;
mod summary;
mod unlisted;

pub use preview::{PlannedRequest, PushPreview, preview_push};

use self::kinds::DeliveryRun;
use self::kits::PossibleKits;
use self::pipeline::PushPipeline;
use self::snapshot::PendingStockLevel;
use self::summary::{PushSummary, count_state};
use crate::exec::balances_reader::PROVING_PAGE_SKUS;
use crate::exec::change_events::log_outcomes;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{
    ChangeId, ExchangeId, JobKind, Moment, RunId, Sku, StockLevel, UPDATE_MAX_ENTRIES, WarehouseId,
};
use crate::outbox::{ChangeState, Reason};
use crate::reconcile::packing::{PackingEntry, pack_calls};
use crate::reconcile::{ChangeDecision, ProductLack, StockLevelStep};
use crate::store::{ChangeOutcome, ClaimedChange, Durability, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;

/// Limit of reads of a stock level in a run that brought no decision. Then its changes are held, and `settle`
/// checks it again with growing delays. Two reads are normal for a SKU that the platform does not return: the
/// second holds other SKUs too, and so can prove the absence.
const READS_MAX: u8 = 4;

/// Delivers all changes. No call is in flight at the begin and at the end of the run, so a change that is `sending`
/// then has an answer that could not be recorded.
pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    claim::doubt_unrecorded(context, "the commit of an earlier run failed").await?;
    let delivered = deliver_changes(context, run).await;
    if let Err(error) = &delivered {
        claim::doubt_unrecorded(context, &error.to_string()).await?;
    }
    delivered
}

async fn deliver_changes(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let (mut push, mut deliver) = (PushRun::new(context, run), DeliveryRun::new(context, run));
    let (mut broken, mut news, mut has_waited) = (None, context.subscribe_changes(), false);
    let wakes = loop {
        let over = CancellationToken::new();
        push_beside(&mut push, &mut broken, &over, deliver.send_shipments(&over)).await?;
        let goes_on = push_beside(&mut push, &mut broken, &over, deliver.send_round()).await?;
        if goes_on {
            continue;
        }
        let Some(end) = push.wait_end.filter(|_| broken.is_none()) else {
            break (push.has_more && !push.is_cut_off).then_some(JobKind::Push);
        };
        // A run waits only once, because a trickle may never end and other work starts only after the run.
        if has_waited {
            break Some(JobKind::Push);
        }
        tokio::select! {
            biased;
            waited = context.pause_until(Some(end)) => waited?,
            came = news.changed() => came.expect("the context owns the sender"),
        }
        has_waited = end <= context.moment();
    };
    push.summary.add_summary(deliver.summary);
    broken.map_or_else(|| Ok(RunReport { wakes, ..push.summary.run_report() }), Err)
}

/// Delivers quantities until `others` has ended, also quantities that arrive in that time. A failure of
/// shipments or products does not delay them. Cancels `over` when no quantity is left for the first time.
/// Puts the error that stops the quantities into `broken`; then no further quantities are sent.
async fn push_beside<T>(
    push: &mut PushRun<'_>,
    broken: &mut Option<JobError>,
    over: &CancellationToken,
    others: impl Future<Output = Result<T, JobError>>,
) -> Result<T, JobError> {
    let (done, mut news) = (CancellationToken::new(), push.context.subscribe_changes());
    let stock = async {
        loop {
            if broken.is_none() {
                let drained = push.push_quantities().await;
                over.cancel();
                *broken = drained?;
            }
            over.cancel();
            tokio::select! {
                biased;
                () = done.cancelled() => return Ok(()),
                waited = push.context.pause_until(push.wait_end), if push.wait_end.is_some() && broken.is_none() => waited?,
                came = news.changed() => came.expect("the context owns the sender"),
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

struct PushRun<'a> {
    context: &'a JobContext,
    run: RunId,
    /// Number of reads of each stock level without a decision.
    read_counts: BTreeMap<StockLevel, u8>,
    pipeline: PushPipeline,
    summary: PushSummary,
    /// Warehouses that the list lacks, with the changes that name them.
    unlisted: BTreeMap<WarehouseId, BTreeSet<ChangeId>>,
    /// Warehouses that are proved not to exist.
    absent_warehouses: BTreeSet<WarehouseId>,
    /// Reason why some changes wait.
    wait_reason: Option<String>,
    /// End of the wait of a few stock levels, if nothing is in flight.
    wait_end: Option<Moment>,
    /// Calls in a row that the platform refused as a whole.
    consecutive_refusals: usize,
    /// True if further attempts are useless in this run.
    is_cut_off: bool,
    possible_kits: PossibleKits,
    /// Change after which the window begins: the part of the outbox that is planned at once.
    window_after: ChangeId,
    /// Last change of the window, if others are behind it.
    window_end: Option<ChangeId>,
    /// True if changes are left to the next run.
    has_more: bool,
}

impl<'a> PushRun<'a> {
    fn new(context: &'a JobContext, run: RunId) -> Self {
        Self {
            context,
            run,
            read_counts: BTreeMap::new(),
            pipeline: PushPipeline::default(),
            summary: PushSummary::default(),
            unlisted: BTreeMap::new(),
            absent_warehouses: BTreeSet::new(),
            wait_reason: None,
            wait_end: None,
            consecutive_refusals: 0,
            is_cut_off: false,
            possible_kits: PossibleKits::default(),
            window_after: ChangeId(0),
            window_end: None,
            has_more: false,
        }
    }

    /// Delivers the quantity changes of the first window in which one can move. Its end moves on with them. The
    /// next run delivers the changes behind it, so that other jobs have their turn. Returns the error if facts
    /// cannot be read.
    async fn push_quantities(&mut self) -> Result<Option<JobError>, JobError> {
        let moved_before = self.summary.moved();
        (self.window_after, self.has_more) = (ChangeId(0), false);
        let drained = loop {
            let drained = self.drain_quantities().await?;
            if drained.is_some() {
                break drained;
            }
            let (listed, answered) = (self.read_warehouses().await?, self.read_possible_kits().await?);
            if listed || answered {
                continue;
            }
            let Some(end) = self.window_end.filter(|_| !self.is_cut_off) else { break None };
            if self.summary.moved() > moved_before {
                self.has_more = true;
                break None;
            }
            self.window_after = end;
        };
        if let Some(why) = self.wait_reason.take() {
            self.summary.note_failure(why);
        }
        Ok(drained)
    }

    /// Rejects changes whose body is invalid. A change that left the state pending in the meantime keeps its
    /// new state.
    async fn reject_invalid(&mut self, moves: &[ChangeOutcome]) -> Result<(), JobError> {
        if moves.is_empty() {
            return Ok(());
        }
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        let moved = write.outbox_transition_each(ChangeState::Pending, moves, self.context.now()).await?;
        write.commit().await?;
        let moved: Vec<ChangeOutcome> =
            moves.iter().filter(|verdict| moved.contains(&verdict.id)).cloned().collect();
        self.summary.rejected += moved.len() as u64;
        log_outcomes(self.context, &moved).await;
        Ok(())
    }

    fn read_count(&self, work: &PendingStockLevel) -> u8 {
        self.read_counts.get(&work.stock_level).copied().unwrap_or(0)
    }

    /// Holds the changes of stock levels that no answer decided. Returns false if a change or fact has
    /// changed since the snapshot; then nothing is held.
    async fn hold_unread(&mut self, works: &[&PendingStockLevel]) -> Result<bool, JobError> {
        let held = |work: &&PendingStockLevel| {
            let StockLevel { sku, warehouse_id } = &work.stock_level;
            let detail = match work.lack {
                Some(lack) => lack.hold_detail(sku, Some(*warehouse_id)),
                None if work.read_rows.row.may_be_linked => format!(
                    "the platform's record of `{sku}` no longer names warehouse {warehouse_id}; it is looked at again, \
                     and the change goes on by itself when an answer shows the link or answers minutes apart lack it"
                ),
                None => "the platform was asked for this stock level several times and no answer decided it; it is looked at \
                         again by itself"
                    .into(),
            };
            let held =
                |id: &ChangeId| ChangeOutcome::new(*id, ChangeState::Held, Some(Reason::NoFact), &*detail);
            work.pending_changes.iter().map(held).collect::<Vec<_>>()
        };
        let waiting = works.iter().flat_map(held).collect();
        self.commit_outcomes(
            works,
            OutcomesWithoutCall { from_pending: waiting, ..OutcomesWithoutCall::default() },
        )
        .await
    }

    /// Finishes the changes that need no call. Returns false if a stock level or a change has changed since
    /// the snapshot. Then nothing is done, and the stock levels must be planned again.
    async fn finish_without_call(&mut self, works: &[&PendingStockLevel]) -> Result<bool, JobError> {
        let (mut moves, mut settled) = (OutcomesWithoutCall::default(), Vec::new());
        for work in works {
            if moves.add_level(work) {
                settled.push(*work);
            }
        }
        if settled.is_empty() { Ok(true) } else { self.commit_outcomes(&settled, moves).await }
    }

    /// Commits the moves of these stock levels, all of them or none. The outcome of a change depends on the
    /// other changes of its stock level and on the fact. The plan is therefore carried out only if all of
    /// them are unchanged.
    async fn commit_outcomes(
        &mut self,
        works: &[&PendingStockLevel],
        moves: OutcomesWithoutCall,
    ) -> Result<bool, JobError> {
        let now = self.context.now();
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        let seen: Vec<_> = works.iter().map(|work| &work.read_rows).collect();
        if !write.stock_levels_unchanged(&seen).await? {
            return Ok(false);
        }
        let (mut moved, mut applied) = (0, 0);
        for (exchange, agreed) in &moves.agreed {
            let claims: Vec<ClaimedChange> = agreed.iter().map(|(claim, _)| *claim).collect();
            let verdicts: Vec<ChangeOutcome> = agreed.iter().map(|(_, verdict)| verdict.clone()).collect();
            write.outbox_claim(*exchange, &claims, now).await?;
            applied += write.outbox_transition(ChangeState::Sending, &verdicts, now).await?;
        }
        let agreed = works.iter().filter(|work| matches!(work.plan.step, StockLevelStep::Agreed(_)));
        let agreed = agreed.filter_map(|work| Some((work.product?, work.stock_level.warehouse_id.0)));
        write.mismatch_close(&agreed.collect::<Vec<_>>()).await?;
        moved += write.outbox_transition(ChangeState::Pending, &moves.from_pending, now).await?;
        moved += write.outbox_transition(ChangeState::Held, &moves.from_held, now).await?;
        if applied + moved != moves.len() {
            return Ok(false);
        }
        write.commit().await?;
        self.summary.applied += applied;
        self.summary.held += count_state(&moves.from_pending, ChangeState::Held);
        self.summary.rejected += count_state(&moves.from_pending, ChangeState::Rejected);
        log_outcomes(self.context, &moves.from_pending).await;
        log_outcomes(self.context, &moves.from_held).await;
        Ok(true)
    }
}

/// Packs the writes of a batch into calls. If `has_more` (a read is in flight or the backlog is not empty), a
/// call that is not full is left out. A call with an operator's change, or with a write that cannot wait, is
/// kept.
fn pack_writes<'w>(
    writes: &[&'w PendingStockLevel],
    has_more: bool,
    cannot_wait: impl Fn(&PendingStockLevel) -> bool,
) -> Vec<Vec<&'w PendingStockLevel>> {
    let entries: Vec<PackingEntry<'_>> = writes.iter().map(|work| work.packing_entry()).collect();
    let packed = pack_calls(&entries).into_iter();
    let mut calls: Vec<Vec<&PendingStockLevel>> =
        packed.map(|call| call.into_iter().map(|index| writes[index]).collect()).collect();
    if has_more {
        calls.retain(|call| {
            call.len() == UPDATE_MAX_ENTRIES || call.iter().any(|work| work.is_urgent || cannot_wait(work))
        });
    }
    calls
}

/// Returns the SKUs of the next read before a push. These are all stale SKUs, unless an answer lacked some of
/// them: then the lacking SKUs come first, up to [`PROVING_PAGE_SKUS`] SKUs in all.
fn skus_to_read(stale: &[&PendingStockLevel]) -> BTreeSet<Sku> {
    if !stale.iter().any(is_lacking) {
        return stale.iter().map(|work| work.stock_level.sku.clone()).collect();
    }
    let mut skus: BTreeSet<Sku> = BTreeSet::new();
    let first =
        stale.iter().filter(|work| is_lacking(work)).chain(stale.iter().filter(|work| !is_lacking(work)));
    for work in first {
        if skus.len() >= PROVING_PAGE_SKUS {
            break;
        }
        skus.insert(work.stock_level.sku.clone());
    }
    skus
}

/// Returns true if an answer lacked the SKU as a whole.
fn is_lacking(work: &&PendingStockLevel) -> bool {
    work.lack.is_some_and(ProductLack::needs_confirmation)
}

/// Returns the witnesses of a page: SKUs that are known to exist, and undecided spellings of the page's SKUs.
/// Empty unless an earlier answer lacked a SKU of the page.
async fn witnesses_of(
    store: &Store,
    stale: &[&PendingStockLevel],
    skus: &BTreeSet<Sku>,
) -> Result<Vec<Sku>, StoreError> {
    if !stale.iter().any(|work| is_lacking(work) && skus.contains(&work.stock_level.sku)) {
        return Ok(Vec::new());
    }
    store.skus_beside(&skus.iter().cloned().collect::<Vec<_>>()).await
}

/// Moves of a batch that need no call.
#[derive(Default)]
struct OutcomesWithoutCall {
    /// Changes whose wanted quantity the platform holds already, by the exchange that showed it.
    agreed: BTreeMap<ExchangeId, Vec<(ClaimedChange, ChangeOutcome)>>,
    /// Moves from pending.
    from_pending: Vec<ChangeOutcome>,
    /// Moves from held.
    from_held: Vec<ChangeOutcome>,
}

impl OutcomesWithoutCall {
    fn len(&self) -> u64 {
        let agreed: usize = self.agreed.values().map(Vec::len).sum();
        (agreed + self.from_pending.len() + self.from_held.len()) as u64
    }

    /// Adds the moves of a plan that need no call. Returns true if there are any. A count that is not written
    /// yet supersedes nothing: if it were cancelled or refused, the adjusts before it would be lost.
    fn add_level(&mut self, work: &PendingStockLevel) -> bool {
        let before = self.len();
        for decision in &work.plan.decisions {
            let (id, verdict) = (decision.id, work.change_outcome(decision));
            match (&decision.decision, &work.plan.step) {
                (ChangeDecision::Completes { .. }, StockLevelStep::Agreed(quantity)) => {
                    let claim = ClaimedChange { id, written: Some(quantity.0) };
                    self.agreed.entry(work.fact_exchange).or_default().push((claim, verdict));
                }
                (
                    ChangeDecision::Completes { .. },
                    StockLevelStep::Nothing | StockLevelStep::ReadFirst | StockLevelStep::Write { .. },
                )
                | (ChangeDecision::Cancelled { .. }, StockLevelStep::Write { .. }) => {}
                (
                    ChangeDecision::Held { .. }
                    | ChangeDecision::Rejected { .. }
                    | ChangeDecision::Cancelled { .. },
                    _,
                ) => {
                    let from_held = !work.pending_changes.contains(&id);
                    if from_held { &mut self.from_held } else { &mut self.from_pending }.push(verdict);
                }
            }
        }
        self.len() > before
    }
}
