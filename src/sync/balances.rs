//! `balances`: reads the balances of every tracked SKU, stalest first.
//!
//! Each page is committed as it arrives, and the stalest SKU is always read next. A crash or an exhausted
//! quota therefore loses nothing and needs no cursor. The page size adapts ([`super::page_size`]).
//!
//! An answer that lacks much may be cut, so the next pages are smaller. A SKU that an answer lacks is judged by the
//! next pass: two answers prove that it is missing ([`crate::reconcile::proof`]).
//!
//! A page that fails is halved until the failing SKU is isolated; all others go on
//! ([`isolation`](crate::reconcile::isolation)). That SKU is quarantined. It is read isolated when it is due,
//! after all others.

use super::page_size::{PAGE_MIN, PageSize};
use crate::client::Verdict;
use crate::exec::balances_reader::{PageEnd, PageRead, RecordedPage, ask_page, record_page};
use crate::exec::quarantine::{EntryRoute, Quarantine};
use crate::exec::reads::ReadOrigin;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{JobKind, Lane, Operation, Position, RunId, Sku, counted};
use crate::reconcile::brake;
use crate::reconcile::isolation::SuspectQueue;
use crate::store::StalestProgress;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use tokio::task::JoinSet;

const READ_OPERATION: Operation = Operation::GetProductBalances;
/// Number of pages to be loaded per query. Every query begins with a cold cache, because pages are written in
/// between.
const QUEUED_PAGES: usize = 4;
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
    context.proved_page_skus.store(reading.page_size.get(), Ordering::Relaxed);
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
    failed_pages: SuspectQueue<Sku>,
    isolated: VecDeque<Sku>,
    quarantine: Quarantine<'a>,
    quarantined_count: usize,
    read_count: usize,
    /// Number of stock levels whose changes waited for this read.
    freed: u64,
    /// True if a quarantine ended, so that the changes of quarantined SKUs are tried again.
    has_ended_quarantine: bool,
    absent: usize,
    changed: u64,
    recording: JoinSet<Result<(SkuPage, PageRead), JobError>>,
}

struct SkuPage {
    skus: Vec<Sku>,
    /// False for a part of a failed page, and for an isolated SKU.
    is_from_queue: bool,
}

impl<'a> BalancesPass<'a> {
    async fn load(context: &'a JobContext, run: RunId, only: &[Sku]) -> Result<Self, JobError> {
        let quarantine = context.quarantine().await?;
        let (isolated, queue): (VecDeque<Sku>, VecDeque<Sku>) =
            only.iter().cloned().partition(|sku| quarantine.contains(READ_OPERATION, sku.as_str()));
        Ok(Self {
            context,
            run,
            queue: queue.into(),
            tracked: only.is_empty().then(StalestProgress::default),
            start_position: context.store.journal_position().await?,
            page_size: PageSize::new(context.settings().skus_per_call, context.page_skus()),
            failed_pages: SuspectQueue::default(),
            isolated,
            quarantine,
            quarantined_count: 0,
            read_count: 0,
            freed: 0,
            has_ended_quarantine: false,
            absent: 0,
            changed: 0,
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
            self.context.pause_until(self.failed_pages.not_before()).await?;
            self.read_page(page).await?;
            if let Some(why) = self.failed_pages.exhaustion() {
                return Ok(Some(why.to_owned()));
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
                match self.quarantine.read_route(READ_OPERATION, sku.as_str()) {
                    EntryRoute::Shared | EntryRoute::Suspect => self.queue.push(sku),
                    EntryRoute::Isolated => self.isolated.push_back(sku),
                    EntryRoute::Deferred(..) => self.quarantined_count += 1,
                }
            }
        }
        Ok(())
    }

    /// Returns the next page. The order is: parts of failed pages, the queue, isolated SKUs.
    fn next_page(&mut self) -> SkuPage {
        if let Some(skus) = self.failed_pages.take() {
            return SkuPage { skus, is_from_queue: false };
        }
        if !self.queue.is_empty() {
            let skus = self.queue.drain(..self.page_size.get().min(self.queue.len())).collect();
            return SkuPage { skus, is_from_queue: true };
        }
        let skus = self.isolated.pop_front().into_iter().collect();
        SkuPage { skus, is_from_queue: false }
    }

    /// Reads a page. The queue is filled while the request is in flight, and the next page is requested before
    /// this one is recorded, which may still show that this one was cut.
    async fn read_page(&mut self, page: SkuPage) -> Result<(), JobError> {
        let (context, run) = (self.context, self.run);
        let origin = ReadOrigin { context, run, lane: Lane::Poll };
        let (answered, filled) = tokio::join!(ask_page(origin, &page.skus), self.fill_queue());
        let answered = answered?;
        if answered.1.reply.verdict != Verdict::Accepted {
            let read = record_page(origin, &page.skus, answered).await?;
            self.end_page(page, read);
            return filled;
        }
        self.page_size.record_success(page.skus.len() >= self.page_size.get());
        let context = context.clone();
        self.recording.spawn(async move {
            let origin = ReadOrigin { context: &context, run, lane: Lane::Poll };
            let read = record_page(origin, &page.skus, answered).await?;
            Ok((page, read))
        });
        filled
    }

    /// Waits until at most `pages` are being recorded. Counts the results of the others.
    async fn await_recordings(&mut self, pages: usize) -> Result<(), JobError> {
        let mut failed = Ok(());
        while self.recording.len() > pages {
            let Some(done) = self.recording.join_next().await else { break };
            let ended = match done.expect("a page that is recorded neither panics nor is stopped") {
                Ok((page, read)) => {
                    self.end_page(page, read);
                    Ok(())
                }
                Err(error) => Err(error),
            };
            failed = failed.and(ended);
        }
        failed
    }

    /// Takes the result of a page. A SKU that fails alone is quarantined on proof. Otherwise it is read once more
    /// after the others, because their success is the missing proof.
    fn end_page(&mut self, SkuPage { skus, is_from_queue }: SkuPage, read: PageRead) {
        if is_from_queue && matches!(read, PageRead::Failed { may_shrink: true, .. }) {
            self.page_size.record_failure();
        }
        match self.failed_pages.end_page(skus.clone(), read, self.context.moment()) {
            PageEnd::Recorded(page) => self.count_page(&skus, page),
            PageEnd::Isolated { is_quarantined: true, .. } => self.quarantined_count += 1,
            PageEnd::Isolated { sku, is_quarantined: false } => self.isolated.push_back(sku),
            PageEnd::Requeued => {}
        }
    }

    fn count_page(&mut self, skus: &[Sku], page: RecordedPage) {
        let recorded = page.recorded;
        self.changed += recorded.stock_levels_changed;
        self.freed += recorded.stock_levels_unblocked;
        self.has_ended_quarantine |= page.has_ended_quarantine;
        self.read_count += if recorded.absent.len() < skus.len() { skus.len() } else { 0 };
        self.absent += recorded.absent.len();
        if skus.len() > PAGE_MIN && brake::is_cut_answer(skus.len() as u64, recorded.unproved) {
            self.page_size.record_failure();
        }
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
            None if self.read_count == 0 && self.absent > 0 => {
                let why = format!(
                    "the platform returned no record of {}; check the spelling, and that the account is the right \
                     one: tallyd check --online",
                    counted(self.absent, "SKU")
                );
                return Err(JobError::GivenUp { what: "balances".into(), why });
            }
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
