//! `balances`: the balances of every tracked SKU, stalest first.
//!
//! Each page is committed as it arrives, and the stalest SKU is always the next to be read: a crash or a spent budget
//! loses nothing and needs no cursor. How many SKUs a page takes is found out ([`super::page_size`]).
//!
//! An answer that lacks much may have been cut silently: what it lacked is asked for again at the end, in pages so small
//! that their answers are trusted, with SKUs beside it that are known to be there. Such looks alone prove that a SKU is
//! missing, and of a SKU that was known it takes two of them, minutes apart ([`crate::reconcile::proof`]).
//!
//! Between the passes some are read before their turn ([`super::early`]), never instead of one: each pass reads every SKU
//! older than its start.

use super::page_size::PageSize;
use super::{Context, JobError, Report, call, record};
use crate::client::{Verdict, wire};
use crate::model::{JobKind, Lane, Position, RunId, Sku};
use crate::outbox::Delays;
use crate::reconcile::brake;
use crate::reconcile::proof::TRUSTED_PAGE;
use crate::store::{BalancesRecorded, Durability, Stalest, WITNESSES};
use tokio::task::JoinSet;

/// Failed attempts in a row after which the run ends; the next run goes on where this one stopped.
const FAILURES_MAX: usize = 24;
/// SKUs are looked for so many pages at a time: each look begins with a cold cache, as pages are written all along.
const QUEUED_PAGES: usize = 4;
/// What was lacking is asked for again so many at a time: with the witnesses beside it, the answer is small enough to be
/// trusted.
const SMALL_PAGE: usize = TRUSTED_PAGE - WITNESSES;
/// Pages under way at a time: one is written, another decoded meanwhile, and the next asked for. With one less, the next is
/// asked for only when the first is written: to begin a call is a write too, which waits behind that of the second.
const RECORDING_MAX: usize = 3;

/// Reads these SKUs, or all that are due where none is named.
pub(super) async fn run(context: &Context, run: RunId, only: &[Sku]) -> Result<Report, JobError> {
    let mut reading = Reading::begin(context, run, only).await?;
    let read = reading.pages().await;
    // What was answered is recorded, however the reading ended.
    let recorded = reading.record_up_to(0).await;
    let gave_up = read?;
    recorded?;
    reading.remember().await?;
    reading.report(gave_up)
}

/// One pass over the tracked SKUs.
struct Reading<'a> {
    context: &'a Context,
    run: RunId,
    /// To be read next.
    queue: Vec<Sku>,
    /// Where the queue is filled from; `None`: a person named the SKUs.
    tracked: Option<Stalest>,
    /// What was read before this is due.
    before: Position,
    size: PageSize,
    /// What is configured, and what was proved before this run.
    before_size: (usize, Option<usize>),
    failures: usize,
    delays: Delays,
    asked: usize,
    /// Cells whose wishes waited for a look at them.
    freed: u64,
    absent: usize,
    /// Not returned, but not sure to be missing.
    unsure: Vec<Sku>,
    /// The pages are of `unsure` now.
    rereads: bool,
    changed: u64,
    /// Pages that came, with how many SKUs they were asked for, and whether these were asked for again.
    recording: JoinSet<Result<(usize, bool, BalancesRecorded), JobError>>,
}

impl<'a> Reading<'a> {
    async fn begin(context: &'a Context, run: RunId, only: &[Sku]) -> Result<Self, JobError> {
        let configured = context.settings().skus_per_call;
        let proved = context.store.page_size(configured).await?;
        Ok(Self {
            context,
            run,
            queue: only.to_vec(),
            tracked: only.is_empty().then(Stalest::default),
            before: context.store.position().await?,
            size: PageSize::new(configured, proved),
            before_size: (configured, proved),
            failures: 0,
            delays: Delays::page_retry(),
            asked: 0,
            freed: 0,
            absent: 0,
            unsure: Vec::new(),
            rereads: false,
            changed: 0,
            recording: JoinSet::new(),
        })
    }

    /// Reads page after page; the reason is returned where it is time to give up.
    async fn pages(&mut self) -> Result<Option<String>, JobError> {
        loop {
            self.record_up_to(RECORDING_MAX - 1).await?;
            self.fill().await?;
            let mut page = self.next_page();
            if page.is_empty() {
                // What is being recorded may show SKUs that are to be read again.
                self.record_up_to(0).await?;
                page = self.next_page();
            }
            if page.is_empty() {
                return Ok(None);
            }
            if let Some(gave_up) = self.read(page).await? {
                return Ok(Some(gave_up));
            }
        }
    }

    /// Makes sure that a page is queued, as far as so much is due.
    async fn fill(&mut self) -> Result<(), JobError> {
        let Some(stands) = &mut self.tracked else { return Ok(()) };
        while self.queue.len() < self.size.get() {
            let limit = QUEUED_PAGES * self.size.get() - self.queue.len();
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let texts = self.context.store.tracked_sku_stalest(self.before, stands, limit).await?;
            if texts.is_empty() {
                break;
            }
            // A page of texts that are no SKUs must not end the run: those behind it are read all the same.
            self.queue.extend(texts.into_iter().filter_map(|text| Sku::new(text).ok()));
        }
        Ok(())
    }

    fn next_page(&mut self) -> Vec<Sku> {
        if self.queue.is_empty() {
            self.rereads = true;
            let first = self.unsure.len().saturating_sub(SMALL_PAGE);
            return self.unsure.split_off(first);
        }
        self.queue.drain(..self.size.get().min(self.queue.len())).collect()
    }

    /// Reads one page; the reason is returned when it is time to give up.
    async fn read(&mut self, page: Vec<Sku>) -> Result<Option<String>, JobError> {
        let mut asked = page.clone();
        if self.rereads {
            asked.extend(self.context.store.witnesses(&page).await?);
        }
        let request =
            wire::get_product_balances(&asked).map_err(|why| JobError::Implausible(why.to_string()))?;
        let (context, run) = (self.context, self.run);
        // The next page is looked for while this one is on its way.
        let (answer, filled) = tokio::join!(context.read_once(run, Lane::Poll, request), self.fill());
        let answer = answer?;
        if answer.reply.verdict == Verdict::Accepted {
            self.failures = 0;
            self.delays = Delays::page_retry();
            // The next page is asked for before this one is recorded, which may still show that it was cut.
            self.size.worked(page.len() >= self.size.get());
            self.record(answer, asked);
            return filled.map(|()| None);
        }
        context.end_alone(&answer).await?;
        if self.rereads {
            self.unsure.extend(page);
        } else {
            self.queue.splice(..0, page);
        }
        filled?;
        self.failed(&answer).await
    }

    /// What was found out about the page size outlives the program.
    async fn remember(&self) -> Result<(), JobError> {
        let (configured, proved) = self.before_size;
        if self.size.get() == proved.unwrap_or(configured) {
            return Ok(());
        }
        let mut write = self.context.store.begin(Durability::Normal).await?;
        write.page_size_keep(configured, self.size.get()).await?;
        Ok(write.commit().await?)
    }

    /// Records a page while the next is read.
    fn record(&mut self, answer: call::Answer, page: Vec<Sku>) {
        let context = self.context.clone();
        let is_again = self.rereads;
        let is_first = !is_again && self.tracked.as_ref().is_some_and(Stalest::is_at_never_read);
        self.recording.spawn(async move {
            let looked = if is_first {
                record::first_balances_look(&context, &answer, &page).await?
            } else {
                record::balances_look(&context, &answer, &page).await?
            };
            // A page that is small may hold nothing but what is gone; it must not keep the others from being read.
            if looked.wants_witnesses() && !is_again && page.len() <= SMALL_PAGE {
                let (asked, absent) = (page.len(), page.clone());
                return Ok((asked, false, BalancesRecorded { absent, unsure: page, ..Default::default() }));
            }
            Ok((page.len(), is_again, looked.plausible()?))
        });
    }

    /// Waits until at most so many pages are being recorded, and counts what the others brought.
    async fn record_up_to(&mut self, pages: usize) -> Result<(), JobError> {
        let mut failed = Ok(());
        while self.recording.len() > pages {
            let Some(done) = self.recording.join_next().await else { break };
            match done.expect("a page that is recorded neither panics nor is stopped") {
                Ok((asked, is_again, recorded)) => self.count(asked, is_again, recorded),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    fn count(&mut self, asked: usize, is_again: bool, recorded: BalancesRecorded) {
        self.changed += recorded.cells_changed;
        self.freed += recorded.freed;
        if is_again {
            // Once a run: what this does not prove takes minutes.
            self.absent += recorded.absent.len();
            return;
        }
        self.asked += asked;
        self.absent += recorded.absent.len() - recorded.unsure.len();
        if brake::looks_cut(asked as u64, recorded.unsure.len() as u64) {
            self.size.failed();
        }
        self.unsure.extend(recorded.unsure);
    }

    async fn failed(&mut self, answer: &call::Answer) -> Result<Option<String>, JobError> {
        let reply = &answer.reply;
        match reply.verdict {
            Verdict::Throttled(_) => return Ok(None),
            Verdict::Refused { .. } => {
                self.context.refuse_key(reply);
                return Err(JobError::Refused(call::words(reply)));
            }
            Verdict::Rejected { .. } if !reply.wants_smaller_page() => return Ok(Some(call::words(reply))),
            Verdict::Accepted
            | Verdict::Rejected { .. }
            | Verdict::Transient
            | Verdict::NotSent
            | Verdict::InDoubt => {}
        }
        if reply.wants_smaller_page() {
            self.size.failed();
        }
        self.failures += 1;
        if self.failures >= FAILURES_MAX {
            return Ok(Some(call::words(reply)));
        }
        if let Some(delay) = self.delays.next() {
            self.context.pause(delay).await?;
        }
        Ok(None)
    }

    fn report(&self, gave_up: Option<String>) -> Result<Report, JobError> {
        let mut summary = format!("{} SKU(s) read, {} cell(s) new or changed", self.asked, self.changed);
        if self.absent > 0 {
            summary.push_str(&format!(", {} not returned by the service", self.absent));
        }
        let report = match gave_up {
            None => Report::ok(summary),
            Some(why) if self.asked == 0 => return Err(JobError::GivenUp { what: "balances".into(), why }),
            Some(why) => Report::partial(format!("{summary}; then it failed: {why}; the next run goes on")),
        };
        // `settle` would have looked at these cells, and woken the push.
        Ok(Report { wakes: (self.freed > 0).then_some(JobKind::Push), ..report })
    }
}
