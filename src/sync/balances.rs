//! `balances`: reads the balances of every tracked SKU, stalest first.
//!
//! Each page is committed as it arrives, and the stalest SKU is always read next. A crash or an exhausted
//! quota therefore loses nothing and needs no cursor. The page size adapts ([`super::page_size`]).
//!
//! An answer that lacks much may be cut. The lacking SKUs are read again at the end, in small pages together
//! with known SKUs. Only such an answer can prove that a SKU is missing. A known SKU needs two of them,
//! minutes apart ([`crate::reconcile::proof`]).
//!
//! A page that fails is halved until the failing SKU is isolated; all others go on
//! ([`isolation`](crate::reconcile::isolation)). That SKU is quarantined. It is read isolated when it is due,
//! after all others.

use super::page_size::PageSize;
use crate::client::{Verdict, wire};
use crate::exec::quarantine::{FailureCause, QuarantinedEntries};
use crate::exec::{JobContext, JobError, RunReport, balances, call};
use crate::model::{JobKind, Lane, Operation, Position, RunId, Sku, counted};
use crate::reconcile::brake;
use crate::reconcile::isolation::SuspectQueue;
use crate::reconcile::proof::TRUSTED_PAGE_SKUS;
use crate::store::{BalancesRecorded, Durability, StalestProgress, WITNESSES};
use std::collections::{BTreeSet, VecDeque};
use tokio::task::JoinSet;

const READ_OPERATION: Operation = Operation::GetProductBalances;
/// Number of pages to be loaded per query. Every query begins with a cold cache, because pages are written in
/// between.
const QUEUED_PAGES: usize = 4;
/// Page size of the second read of lacking SKUs. With the witnesses, the answer can prove an absence.
const SMALL_PAGE: usize = TRUSTED_PAGE_SKUS - WITNESSES;
/// Limit of pages in work. One is written, one decoded, and the next requested. With one page less, the next
/// request would wait for both, because the begin of a call is a write too.
const RECORDING_MAX: usize = 3;

/// Reads these SKUs, or all that are due if `only` is empty.
pub(crate) async fn run(context: &JobContext, run: RunId, only: &[Sku]) -> Result<RunReport, JobError> {
    let mut reading = BalancesPass::load(context, run, only).await?;
    let read = reading.read_pages().await;
    // Answered pages are recorded, also after an error.
    let recorded = reading.await_recordings(0).await;
    let gave_up = read?;
    recorded?;
    reading.store_page_size().await?;
    reading.run_report(gave_up)
}

struct BalancesPass<'a> {
    context: &'a JobContext,
    run: RunId,
    queue: Vec<Sku>,
    /// Source of the queue; `None` if an operator named the SKUs.
    tracked: Option<StalestProgress>,
    /// Position of the start: SKUs last read before it are due.
    start_position: Position,
    page_size: PageSize,
    /// Configured page size, and the size proved before this run.
    initial_size: (usize, Option<usize>),
    suspects: SuspectQueue<Sku>,
    isolated: VecDeque<Sku>,
    quarantined: QuarantinedEntries,
    quarantined_count: usize,
    /// Message of the first failure since the last success.
    first_failure: String,
    read_count: usize,
    /// Number of stock levels whose changes waited for this read.
    freed: u64,
    /// True if a quarantine ended, so that the changes of quarantined SKUs are tried again.
    has_ended_quarantine: bool,
    absent: usize,
    /// SKUs that an answer lacked without proof of their absence.
    unproved: Vec<Sku>,
    changed: u64,
    /// SKUs read a second time in this run. A third read proves nothing, because the proof takes minutes.
    rechecked: BTreeSet<Sku>,
    recording: JoinSet<Result<RecordedPage, JobError>>,
}

struct SkuPage {
    skus: Vec<Sku>,
    origin: PageOrigin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PageOrigin {
    Due,
    FailedPart,
    /// Lacking or isolated SKUs, read together with witnesses.
    Recheck,
}

/// Requested page without the witnesses, and its record or the reason why the answer is not plausible.
type RecordedPage = (SkuPage, Result<BalancesRecorded, String>);

impl<'a> BalancesPass<'a> {
    async fn load(context: &'a JobContext, run: RunId, only: &[Sku]) -> Result<Self, JobError> {
        let configured = context.settings().skus_per_call;
        let proved = context.store.page_size(configured).await?;
        let quarantined = context.quarantined_entries(READ_OPERATION).await?;
        let (isolated, queue): (VecDeque<Sku>, VecDeque<Sku>) =
            only.iter().cloned().partition(|sku| quarantined.contains(sku.as_str()));
        Ok(Self {
            context,
            run,
            queue: queue.into(),
            tracked: only.is_empty().then(StalestProgress::default),
            start_position: context.store.journal_position().await?,
            page_size: PageSize::new(configured, proved),
            initial_size: (configured, proved),
            suspects: SuspectQueue::default(),
            isolated,
            quarantined,
            quarantined_count: 0,
            first_failure: String::new(),
            read_count: 0,
            freed: 0,
            has_ended_quarantine: false,
            absent: 0,
            unproved: Vec::new(),
            changed: 0,
            rechecked: BTreeSet::new(),
            recording: JoinSet::new(),
        })
    }

    /// Reads page after page. Returns the reason if it gives up.
    async fn read_pages(&mut self) -> Result<Option<String>, JobError> {
        loop {
            self.await_recordings(RECORDING_MAX - 1).await?;
            self.fill_queue().await?;
            let mut page = self.next_page();
            if page.skus.is_empty() {
                // Pages still being recorded may add SKUs to be read again.
                self.await_recordings(0).await?;
                page = self.next_page();
            }
            if page.skus.is_empty() {
                return Ok(None);
            }
            self.context.pause_until(self.suspects.not_before()).await?;
            self.read_page(page).await?;
            if self.suspects.is_exhausted() {
                return Ok(Some(self.first_failure.clone()));
            }
        }
    }

    /// Fills the queue with the SKUs of a page, if so many are due.
    async fn fill_queue(&mut self) -> Result<(), JobError> {
        let Some(progress) = &mut self.tracked else { return Ok(()) };
        while self.queue.len() < self.page_size.get() {
            let limit = QUEUED_PAGES * self.page_size.get() - self.queue.len();
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let texts = self.context.store.tracked_sku_stalest(self.start_position, progress, limit).await?;
            if texts.is_empty() {
                break;
            }
            // A page of invalid SKUs must not end the run, because valid ones may follow.
            for sku in texts.into_iter().filter_map(|text| Sku::new(text).ok()) {
                if !self.quarantined.contains(sku.as_str()) {
                    self.queue.push(sku);
                } else if self.quarantined.retry_at(self.context.now(), sku.as_str()).is_some() {
                    self.quarantined_count += 1;
                } else {
                    self.isolated.push_back(sku);
                }
            }
        }
        Ok(())
    }

    /// Returns the next page. The order is: parts of failed pages, the queue, lacking SKUs, isolated SKUs.
    fn next_page(&mut self) -> SkuPage {
        if let Some(skus) = self.suspects.take() {
            return SkuPage { skus, origin: PageOrigin::FailedPart };
        }
        if !self.queue.is_empty() {
            let skus = self.queue.drain(..self.page_size.get().min(self.queue.len())).collect();
            return SkuPage { skus, origin: PageOrigin::Due };
        }
        // With the witnesses, the answer can prove an absence.
        let first = self.unproved.len().saturating_sub(SMALL_PAGE);
        let skus = self.unproved.split_off(first);
        if skus.is_empty() {
            return SkuPage {
                skus: self.isolated.pop_front().into_iter().collect(),
                origin: PageOrigin::Recheck,
            };
        }
        self.rechecked.extend(skus.iter().cloned());
        SkuPage { skus, origin: PageOrigin::Recheck }
    }

    /// Reads a page. Splits it after a failure, or puts it back to the queue.
    async fn read_page(&mut self, SkuPage { skus, origin }: SkuPage) -> Result<(), JobError> {
        let mut requested = skus.clone();
        if origin == PageOrigin::Recheck {
            requested.extend(self.context.store.witness_skus(&skus).await?);
        }
        let request = wire::get_product_balances(&requested)?;
        let (context, run) = (self.context, self.run);
        // The queue is filled while the request is in flight.
        let (answer, filled) = tokio::join!(context.read_once(run, Lane::Poll, request), self.fill_queue());
        let answer = answer?;
        if answer.reply.verdict == Verdict::Accepted {
            // The next page is requested before this one is recorded, which may still show that this one was
            // cut.
            self.page_size.record_success(skus.len() >= self.page_size.get());
            self.record_page(answer, SkuPage { skus, origin }, requested);
            return filled;
        }
        context.exchange_end_ignored(&answer).await?;
        filled?;
        let why = call::reply_message(&answer.reply);
        match context.classify_failure(run, &answer.reply).await? {
            FailureCause::Entry => {
                if origin == PageOrigin::Due && answer.reply.may_shrink_page() {
                    self.page_size.record_failure();
                }
                return self.split_page(skus, why).await;
            }
            FailureCause::Throttled => {}
            FailureCause::Unsent => {
                self.suspects.note_failure(context.moment());
                self.first_failure = why;
            }
        }
        self.queue.splice(..0, skus);
        Ok(())
    }

    /// Splits a page that failed. A page of one SKU is quarantined on proof. Otherwise the SKU is read once
    /// more after the others, because their success is the missing proof.
    async fn split_page(&mut self, page: Vec<Sku>, why: String) -> Result<(), JobError> {
        let is_guilty = self.context.record_failure(READ_OPERATION, &sku_names(&page), &why).await?;
        // The message for the whole page is more useful than those for its parts.
        if !self.suspects.is_failing() {
            self.first_failure = why;
        }
        let Some(isolated) = self.suspects.failed(page, self.context.moment()) else { return Ok(()) };
        if is_guilty {
            self.quarantined_count += 1;
        } else {
            self.isolated.push_back(isolated);
        }
        Ok(())
    }

    /// Stores the page size if it changed, so that it survives a restart.
    async fn store_page_size(&self) -> Result<(), JobError> {
        let (configured, proved) = self.initial_size;
        if self.page_size.get() == proved.unwrap_or(configured) {
            return Ok(());
        }
        let mut write = self.context.store.begin_write(Durability::Normal).await?;
        write.page_size_store(configured, self.page_size.get()).await?;
        Ok(write.commit().await?)
    }

    fn record_page(&mut self, answer: call::AnsweredExchange, page: SkuPage, requested: Vec<Sku>) {
        let context = self.context.clone();
        let is_new = self.tracked.as_ref().is_some_and(StalestProgress::is_at_never_read);
        let is_first = page.origin == PageOrigin::Due && is_new;
        self.recording.spawn(async move {
            let checked = if is_first {
                balances::record_new_balances(&context, &answer, &requested).await
            } else {
                balances::record_balances(&context, &answer, &requested).await
            };
            let may_lack_all = page.origin == PageOrigin::Due && page.skus.len() <= SMALL_PAGE;
            let recorded = checked.and_then(|checked| {
                if !(may_lack_all && checked.wants_witnesses()) {
                    return checked.into_recorded();
                }
                // A small page may consist of missing SKUs; it must not stop the pass.
                let (absent, unproven_skus) = (page.skus.clone(), page.skus.clone());
                Ok(BalancesRecorded { absent, unproven_skus, ..Default::default() })
            });
            match recorded {
                Ok(recorded) => Ok((page, Ok(recorded))),
                Err(JobError::Implausible(why)) => Ok((page, Err(why))),
                Err(error) => Err(error),
            }
        });
    }

    /// Waits until at most `pages` are being recorded. Counts the results of the others.
    async fn await_recordings(&mut self, pages: usize) -> Result<(), JobError> {
        let mut failed = Ok(());
        while self.recording.len() > pages {
            let Some(done) = self.recording.join_next().await else { break };
            let counted = match done.expect("a page that is recorded neither panics nor is stopped") {
                Ok((page, Ok(recorded))) => self.count_page(&page, recorded).await,
                Ok((page, Err(why))) => self.split_page(page.skus, why).await,
                Err(error) => Err(error),
            };
            failed = failed.and(counted);
        }
        failed
    }

    async fn count_page(
        &mut self,
        SkuPage { skus, origin }: &SkuPage,
        recorded: BalancesRecorded,
    ) -> Result<(), JobError> {
        self.suspects.succeeded();
        self.changed += recorded.stock_levels_changed;
        self.freed += recorded.stock_levels_unblocked;
        let is_empty = recorded.absent.len() >= skus.len();
        // With witnesses in the answer, a lacking SKU is missing; its call did not fail.
        if *origin == PageOrigin::Recheck || !is_empty {
            self.has_ended_quarantine |=
                self.context.record_read_success(READ_OPERATION, &sku_names(skus), !is_empty).await?;
        }
        if *origin == PageOrigin::Recheck {
            self.absent += recorded.absent.len();
            return Ok(());
        }
        self.read_count += if is_empty { 0 } else { skus.len() };
        self.absent += recorded.absent.len() - recorded.unproven_skus.len();
        if brake::is_cut_answer(skus.len() as u64, recorded.unproven_skus.len() as u64) {
            self.page_size.record_failure();
        }
        let rechecked = &self.rechecked;
        self.unproved.extend(recorded.unproven_skus.into_iter().filter(|sku| !rechecked.contains(sku)));
        Ok(())
    }

    fn run_report(&self, gave_up: Option<String>) -> Result<RunReport, JobError> {
        let mut summary = format!(
            "{} read, {} new or changed",
            counted(self.read_count, "SKU"),
            counted(self.changed, "stock level")
        );
        if self.absent > 0 {
            summary.push_str(&format!(", {} not returned by the platform", self.absent));
        }
        if self.quarantined_count > 0 {
            summary.push_str(&format!(", {} quarantined", self.quarantined_count));
        }
        let report = match gave_up {
            None => RunReport::ok(summary),
            Some(why) if self.read_count == 0 => {
                return Err(JobError::GivenUp { what: "balances".into(), why });
            }
            Some(why) => {
                RunReport::partial(format!("{summary}; then it failed: {why}; the next run continues"))
            }
        };
        // The read replaces checks of `settle`, which would have woken the push.
        let wakes = (self.freed > 0 || self.has_ended_quarantine).then_some(JobKind::Push);
        Ok(RunReport { wakes, ..report.with_effect(self.changed > 0) })
    }
}

fn sku_names(skus: &[Sku]) -> Vec<&str> {
    skus.iter().map(Sku::as_str).collect()
}
