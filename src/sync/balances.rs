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
//!
//! Prefetches between the passes ([`super::prefetch`]) replace no pass: each pass reads every SKU read before
//! its start.

use super::page_size::PageSize;
use crate::client::{Verdict, wire};
use crate::exec::quarantine::{Aside, Failed, Way};
use crate::exec::{Context, JobError, Report, balances, call};
use crate::model::{JobKind, Lane, Operation, Position, RunId, Sku};
use crate::outbox::Delays;
use crate::reconcile::brake;
use crate::reconcile::isolation::Groups;
use crate::reconcile::proof::TRUSTED_PAGE;
use crate::store::{BalancesRecorded, Durability, Stalest, WITNESSES};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::task::JoinSet;

const READ: Operation = Operation::GetProductBalances;
/// Limit of consecutive failures, after which the run ends.
const FAILURES_MAX: usize = 24;
/// Consecutive failures that need no pause. A single bad SKU causes two or three failures.
const FAILURES_OF_ONE: usize = 2;
/// Limit of isolated attempts per run at a SKU without proof against it.
const ALONE_MAX: u32 = 4;
/// Number of pages to be loaded per query. Every query begins with a cold cache, because pages are written in
/// between.
const QUEUED_PAGES: usize = 4;
/// Page size of the second read of lacking SKUs. With the witnesses, the answer can prove an absence.
const SMALL_PAGE: usize = TRUSTED_PAGE - WITNESSES;
/// Limit of pages in work. One is written, one decoded, and the next requested. With one page less, the next
/// request would wait for both, because the begin of a call is a write too.
const RECORDING_MAX: usize = 3;

/// Reads these SKUs, or all that are due if `only` is empty.
pub(crate) async fn run(context: &Context, run: RunId, only: &[Sku]) -> Result<Report, JobError> {
    let mut reading = Reading::begin(context, run, only).await?;
    let read = reading.pages().await;
    // Answered pages are recorded, also after an error.
    let recorded = reading.record_up_to(0).await;
    let gave_up = read?;
    recorded?;
    reading.remember().await?;
    reading.report(gave_up)
}

/// Pass over the tracked SKUs.
struct Reading<'a> {
    context: &'a Context,
    run: RunId,
    /// SKUs to be read next.
    queue: Vec<Sku>,
    /// Source of the queue; `None` if an operator named the SKUs.
    tracked: Option<Stalest>,
    /// Position of the start: SKUs last read before it are due.
    before: Position,
    size: PageSize,
    /// Configured page size, and the size proved before this run.
    before_size: (usize, Option<usize>),
    /// Parts of pages that failed.
    parts: Groups<Sku>,
    /// SKUs read isolated, after all others.
    alone: VecDeque<Sku>,
    /// Isolated failures in this run of each SKU without proof against it.
    tried: BTreeMap<Sku, u32>,
    aside: Aside,
    /// Number of SKUs that are quarantined and not read.
    set_aside: usize,
    /// Consecutive failures.
    failures: usize,
    /// Message of the first of these failures.
    why: String,
    /// Number of SKUs that stay unread although they are not quarantined.
    unread: usize,
    delays: Delays,
    asked: usize,
    /// Number of stock levels whose changes waited for this read.
    freed: u64,
    /// True if a quarantine ended, so that the changes of quarantined SKUs are tried again.
    is_taken_back: bool,
    absent: usize,
    /// SKUs that an answer lacked without proof of their absence.
    unsure: Vec<Sku>,
    changed: u64,
    /// SKUs read a second time in this run. A third read proves nothing, because the proof takes minutes.
    again: BTreeSet<Sku>,
    /// Answered pages that are being recorded.
    recording: JoinSet<Result<Page, JobError>>,
}

/// SKUs of a request.
struct Asked {
    skus: Vec<Sku>,
    kind: Kind,
}

/// Origin of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Queue of due SKUs.
    First,
    /// Part of a page that failed.
    Part,
    /// Lacking or isolated SKUs, read together with witnesses.
    Again,
}

/// Recorded page.
struct Page {
    /// Requested SKUs without the witnesses.
    asked: Vec<Sku>,
    kind: Kind,
    /// Result of the record, or the reason why the answer is not plausible.
    came: Result<BalancesRecorded, String>,
}

impl<'a> Reading<'a> {
    async fn begin(context: &'a Context, run: RunId, only: &[Sku]) -> Result<Self, JobError> {
        let configured = context.settings().skus_per_call;
        let proved = context.store.page_size(configured).await?;
        let aside = context.aside(READ).await?;
        let (alone, queue): (VecDeque<Sku>, VecDeque<Sku>) =
            only.iter().cloned().partition(|sku| aside.contains(sku.as_str()));
        Ok(Self {
            context,
            run,
            queue: queue.into(),
            tracked: only.is_empty().then(Stalest::default),
            before: context.store.position().await?,
            size: PageSize::new(configured, proved),
            before_size: (configured, proved),
            parts: Groups::default(),
            alone,
            tried: BTreeMap::new(),
            aside,
            set_aside: 0,
            failures: 0,
            why: String::new(),
            unread: 0,
            delays: Delays::page_retry(),
            asked: 0,
            freed: 0,
            is_taken_back: false,
            absent: 0,
            unsure: Vec::new(),
            changed: 0,
            again: BTreeSet::new(),
            recording: JoinSet::new(),
        })
    }

    /// Reads page after page. Returns the reason if it gives up.
    async fn pages(&mut self) -> Result<Option<String>, JobError> {
        loop {
            self.record_up_to(RECORDING_MAX - 1).await?;
            self.fill().await?;
            let mut page = self.next_page();
            if page.skus.is_empty() {
                // Pages still being recorded may add SKUs to be read again.
                self.record_up_to(0).await?;
                page = self.next_page();
            }
            if page.skus.is_empty() {
                return Ok(None);
            }
            self.read(page).await?;
            if self.failures >= FAILURES_MAX {
                return Ok(Some(self.why.clone()));
            }
        }
    }

    /// Fills the queue with the SKUs of a page, if so many are due.
    async fn fill(&mut self) -> Result<(), JobError> {
        let Some(stands) = &mut self.tracked else { return Ok(()) };
        while self.queue.len() < self.size.get() {
            let limit = QUEUED_PAGES * self.size.get() - self.queue.len();
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let texts = self.context.store.tracked_sku_stalest(self.before, stands, limit).await?;
            if texts.is_empty() {
                break;
            }
            // A page of invalid SKUs must not end the run, because valid ones may follow.
            for sku in texts.into_iter().filter_map(|text| Sku::new(text).ok()) {
                match self.aside.contains(sku.as_str()).then(|| self.aside.way(self.context, sku.as_str())) {
                    None => self.queue.push(sku),
                    Some(Way::Later(..)) => self.set_aside += 1,
                    Some(Way::Alone | Way::Suspect | Way::Together) => self.alone.push_back(sku),
                }
            }
        }
        Ok(())
    }

    /// Returns the next page. The order is: parts of failed pages, the queue, lacking SKUs, isolated SKUs.
    fn next_page(&mut self) -> Asked {
        if let Some(skus) = self.parts.next_part() {
            return Asked { skus, kind: Kind::Part };
        }
        if !self.queue.is_empty() {
            let skus = self.queue.drain(..self.size.get().min(self.queue.len())).collect();
            return Asked { skus, kind: Kind::First };
        }
        // With the witnesses, the answer can prove an absence.
        let first = self.unsure.len().saturating_sub(SMALL_PAGE);
        let skus = self.unsure.split_off(first);
        if skus.is_empty() {
            return Asked { skus: self.alone.pop_front().into_iter().collect(), kind: Kind::Again };
        }
        self.again.extend(skus.iter().cloned());
        Asked { skus, kind: Kind::Again }
    }

    /// Reads a page. Splits it after a failure, or puts it back to the queue.
    async fn read(&mut self, Asked { skus, kind }: Asked) -> Result<(), JobError> {
        let mut asked = skus.clone();
        if kind == Kind::Again {
            asked.extend(self.context.store.witnesses(&skus).await?);
        }
        let request =
            wire::get_product_balances(&asked).map_err(|why| JobError::Implausible(why.to_string()))?;
        let (context, run) = (self.context, self.run);
        // The queue is filled while the request is in flight.
        let (answer, filled) = tokio::join!(context.read_once(run, Lane::Poll, request), self.fill());
        let answer = answer?;
        if answer.reply.verdict == Verdict::Accepted {
            // The next page is requested before this one is recorded, which may still show that this one was
            // cut.
            self.size.worked(skus.len() >= self.size.get());
            self.record(answer, skus, asked, kind);
            return filled;
        }
        context.end_alone(&answer).await?;
        filled?;
        let failed = context.failure(run, &answer.reply).await?;
        if failed == Failed::Entries {
            if kind == Kind::First && answer.reply.wants_smaller_page() {
                self.size.failed();
            }
            self.split(skus, call::words(&answer.reply)).await?;
        } else {
            self.queue.splice(..0, skus);
            if failed == Failed::Throttled {
                return Ok(());
            }
            self.failures += 1;
            self.why = call::words(&answer.reply);
        }
        let pause = (self.failures > FAILURES_OF_ONE).then(|| self.delays.next()).flatten();
        match pause {
            Some(delay) => context.pause(delay).await,
            None => Ok(()),
        }
    }

    /// Splits a page that failed. A page of one SKU is quarantined on proof. Otherwise the SKU is read once
    /// more after the others, because their success is the missing proof.
    async fn split(&mut self, page: Vec<Sku>, why: String) -> Result<(), JobError> {
        self.failures += 1;
        let is_guilty = self.context.failed(READ, &names(&page), &why).await?;
        // The message for the whole page is more useful than those for its parts.
        if self.failures == 1 {
            self.why = why;
        }
        let Some(alone) = self.parts.split(page) else { return Ok(()) };
        let tried = self.tried.entry(alone.clone()).or_default();
        *tried += 1;
        if is_guilty {
            self.set_aside += 1;
        } else if *tried < ALONE_MAX {
            self.alone.push_back(alone);
        } else {
            self.unread += 1;
        }
        Ok(())
    }

    /// Stores the page size if it changed, so that it survives a restart.
    async fn remember(&self) -> Result<(), JobError> {
        let (configured, proved) = self.before_size;
        if self.size.get() == proved.unwrap_or(configured) {
            return Ok(());
        }
        let mut write = self.context.store.begin(Durability::Normal).await?;
        write.page_size_keep(configured, self.size.get()).await?;
        Ok(write.commit().await?)
    }

    /// Records a page in a task while the next one is read.
    fn record(&mut self, answer: call::Answer, skus: Vec<Sku>, asked: Vec<Sku>, kind: Kind) {
        let context = self.context.clone();
        let is_new = self.tracked.as_ref().is_some_and(Stalest::is_at_never_read);
        let is_first = kind == Kind::First && is_new;
        self.recording.spawn(async move {
            let looked = if is_first {
                balances::first_balances_look(&context, &answer, &asked).await
            } else {
                balances::balances_look(&context, &answer, &asked).await
            };
            let came = match looked {
                // A small page may consist of missing SKUs; it must not stop the pass.
                Ok(looked) if looked.wants_witnesses() && kind == Kind::First && skus.len() <= SMALL_PAGE => {
                    let (absent, unsure) = (skus.clone(), skus.clone());
                    Ok(BalancesRecorded { absent, unsure, ..Default::default() })
                }
                Ok(looked) => looked.plausible(),
                Err(error) => Err(error),
            };
            match came {
                Ok(recorded) => Ok(Page { asked: skus, kind, came: Ok(recorded) }),
                Err(JobError::Implausible(why)) => Ok(Page { asked: skus, kind, came: Err(why) }),
                Err(error) => Err(error),
            }
        });
    }

    /// Waits until at most `pages` are being recorded. Counts the results of the others.
    async fn record_up_to(&mut self, pages: usize) -> Result<(), JobError> {
        let mut failed = Ok(());
        while self.recording.len() > pages {
            let Some(done) = self.recording.join_next().await else { break };
            let counted = match done.expect("a page that is recorded neither panics nor is stopped") {
                Ok(Page { asked, kind, came: Ok(recorded) }) => self.count(&asked, kind, recorded).await,
                Ok(Page { asked, came: Err(why), .. }) => self.split(asked, why).await,
                Err(error) => Err(error),
            };
            failed = failed.and(counted);
        }
        failed
    }

    async fn count(&mut self, asked: &[Sku], kind: Kind, recorded: BalancesRecorded) -> Result<(), JobError> {
        (self.failures, self.delays) = (0, Delays::page_retry());
        self.changed += recorded.cells_changed;
        self.freed += recorded.freed;
        let is_empty = recorded.absent.len() >= asked.len();
        // With witnesses in the answer, a lacking SKU is missing; its call did not fail.
        if kind == Kind::Again || !is_empty {
            self.is_taken_back |= self.context.read_worked(READ, &names(asked), !is_empty).await?;
        }
        if kind == Kind::Again {
            self.absent += recorded.absent.len();
            return Ok(());
        }
        self.asked += if is_empty { 0 } else { asked.len() };
        self.absent += recorded.absent.len() - recorded.unsure.len();
        if brake::looks_cut(asked.len() as u64, recorded.unsure.len() as u64) {
            self.size.failed();
        }
        let again = &self.again;
        self.unsure.extend(recorded.unsure.into_iter().filter(|sku| !again.contains(sku)));
        Ok(())
    }

    fn report(&self, gave_up: Option<String>) -> Result<Report, JobError> {
        let mut summary = format!("{} SKU(s) read, {} cell(s) new or changed", self.asked, self.changed);
        if self.absent > 0 {
            summary.push_str(&format!(", {} not returned by the service", self.absent));
        }
        if self.set_aside > 0 {
            summary.push_str(&format!(", {} left out because calls for them fail", self.set_aside));
        }
        let gave_up = gave_up.or_else(|| (self.unread > 0).then(|| self.why.clone()));
        let report = match gave_up {
            None => Report::ok(summary),
            Some(why) if self.asked == 0 => return Err(JobError::GivenUp { what: "balances".into(), why }),
            Some(why) => Report::partial(format!("{summary}; then it failed: {why}; the next run goes on")),
        };
        // The read replaces checks of `settle`, which would have woken the push.
        let wakes = (self.freed > 0 || self.is_taken_back).then_some(JobKind::Push);
        Ok(Report { wakes, ..report })
    }
}

fn names(skus: &[Sku]) -> Vec<&str> {
    skus.iter().map(Sku::as_str).collect()
}
