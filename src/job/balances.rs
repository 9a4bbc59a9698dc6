//! `balances`: the balances of every tracked SKU, stalest first.
//!
//! Each page is committed as it arrives, and the stalest SKU is always the next to be read: a crash or a spent budget
//! loses nothing and needs no cursor. How many SKUs a page takes is found out ([`super::page_size`]).
//!
//! An answer that lacks much may have been cut silently: what it lacked is asked for again at the end, in pages so small
//! that their answers are trusted, with SKUs beside it that are known to be there. Such looks alone prove that a SKU is
//! missing, and of a SKU that was known it takes two of them, minutes apart ([`crate::reconcile::proof`]).
//!
//! A page that fails is halved until the SKU that makes it fail is alone, and the others go on
//! ([`isolation`](crate::reconcile::isolation)). That SKU is set aside; when it is due it is read by itself, behind all others.
//!
//! Between the passes some are read before their turn ([`super::early`]), never instead of one: each pass reads every SKU
//! older than its start.

use super::apart::{Aside, Failed, Way};
use super::page_size::PageSize;
use super::{Context, JobError, Report, call, record};
use crate::client::{Verdict, wire};
use crate::model::{JobKind, Lane, Operation, Position, RunId, Sku};
use crate::outbox::Delays;
use crate::reconcile::brake;
use crate::reconcile::isolation::Groups;
use crate::reconcile::proof::TRUSTED_PAGE;
use crate::store::{BalancesRecorded, Durability, Stalest, WITNESSES};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::task::JoinSet;

const READ: Operation = Operation::GetProductBalances;
/// Failed attempts in a row after which the run ends; the next run goes on where this one stopped.
const FAILURES_MAX: usize = 24;
/// Failures in a row that need no pause: one SKU that always fails brings two or three, and only more than that is
/// worth one.
const FAILURES_OF_ONE: usize = 2;
/// Attempts at a SKU that fails alone and is not proved guilty; the next run tries it again.
const ALONE_MAX: u32 = 4;
/// SKUs are looked for so many pages at a time: each look begins with a cold cache, as pages are written all along.
const QUEUED_PAGES: usize = 4;
/// Page size for what was lacking and is asked for again: with the witnesses beside it, the answer is small enough to
/// be trusted.
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
    /// Parts of pages that failed.
    parts: Groups<Sku>,
    /// Read by themselves, behind all others.
    alone: VecDeque<Sku>,
    /// The failures alone in this run of those that are not proved guilty.
    tried: BTreeMap<Sku, u32>,
    aside: Aside,
    /// SKUs left unread because calls for them alone fail.
    set_aside: usize,
    /// In a row.
    failures: usize,
    /// The words of the first of these failures.
    why: String,
    /// SKUs that stay unread although nothing is proved against them.
    unread: usize,
    delays: Delays,
    asked: usize,
    /// Cells whose wishes waited for a look at them.
    freed: u64,
    /// A SKU that was set aside was answered: its wishes, and those of the others set aside, are tried again.
    is_taken_back: bool,
    absent: usize,
    /// Not returned, but not sure to be missing.
    unsure: Vec<Sku>,
    changed: u64,
    /// Asked for again in this run: once is enough, because what that does not prove takes minutes.
    again: BTreeSet<Sku>,
    /// Pages that came.
    recording: JoinSet<Result<Page, JobError>>,
}

/// SKUs to be asked for.
struct Asked {
    skus: Vec<Sku>,
    kind: Kind,
}

/// The source of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The queue.
    First,
    /// A page that failed.
    Part,
    /// Request for what earlier answers lacked, with witnesses beside it.
    Again,
}

/// A page that was answered and looked into.
struct Page {
    /// Without witnesses.
    asked: Vec<Sku>,
    kind: Kind,
    /// Record of the answer, or why the answer makes no sense.
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

    /// Reads page after page; the reason is returned where it is time to give up.
    async fn pages(&mut self) -> Result<Option<String>, JobError> {
        loop {
            self.record_up_to(RECORDING_MAX - 1).await?;
            self.fill().await?;
            let mut page = self.next_page();
            if page.skus.is_empty() {
                // What is being recorded may show SKUs that are to be read again.
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

    /// Parts of pages that failed go first, then what is queued, then what was lacking, and at last those that go alone.
    fn next_page(&mut self) -> Asked {
        if let Some(skus) = self.parts.next_part() {
            return Asked { skus, kind: Kind::Part };
        }
        if !self.queue.is_empty() {
            let skus = self.queue.drain(..self.size.get().min(self.queue.len())).collect();
            return Asked { skus, kind: Kind::First };
        }
        // With the witnesses beside them, the answer is small enough to be trusted.
        let first = self.unsure.len().saturating_sub(SMALL_PAGE);
        let skus = self.unsure.split_off(first);
        if skus.is_empty() {
            return Asked { skus: self.alone.pop_front().into_iter().collect(), kind: Kind::Again };
        }
        self.again.extend(skus.iter().cloned());
        Asked { skus, kind: Kind::Again }
    }

    /// Reads one page. One that fails is split, or asked for again.
    async fn read(&mut self, Asked { skus, kind }: Asked) -> Result<(), JobError> {
        let mut asked = skus.clone();
        if kind == Kind::Again {
            asked.extend(self.context.store.witnesses(&skus).await?);
        }
        let request =
            wire::get_product_balances(&asked).map_err(|why| JobError::Implausible(why.to_string()))?;
        let (context, run) = (self.context, self.run);
        // The next page is looked for while this one is on its way.
        let (answer, filled) = tokio::join!(context.read_once(run, Lane::Poll, request), self.fill());
        let answer = answer?;
        if answer.reply.verdict == Verdict::Accepted {
            // The next page is asked for before this one is recorded, which may still show that it was cut.
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

    /// A page failed: its halves are read by themselves. A SKU that was alone is set aside if it is proved guilty, or
    /// else read once more behind all others, whose success is the proof that it lacks.
    async fn split(&mut self, page: Vec<Sku>, why: String) -> Result<(), JobError> {
        self.failures += 1;
        let is_guilty = self.context.failed(READ, &names(&page), &why).await?;
        // The page as it was queued says more than its parts.
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
    fn record(&mut self, answer: call::Answer, skus: Vec<Sku>, asked: Vec<Sku>, kind: Kind) {
        let context = self.context.clone();
        let is_new = self.tracked.as_ref().is_some_and(Stalest::is_at_never_read);
        let is_first = kind == Kind::First && is_new;
        self.recording.spawn(async move {
            let looked = if is_first {
                record::first_balances_look(&context, &answer, &asked).await
            } else {
                record::balances_look(&context, &answer, &asked).await
            };
            let came = match looked {
                // A page that is small may hold nothing but what is gone; it must not keep the others from being read.
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

    /// Waits until at most so many pages are being recorded, and counts what the others brought.
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
        // With the witnesses there, a SKU that the answer lacks is gone, and the call for it did not fail.
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
        // `settle` would have looked at these cells, and woken the push.
        let wakes = (self.freed > 0 || self.is_taken_back).then_some(JobKind::Push);
        Ok(Report { wakes, ..report })
    }
}

fn names(skus: &[Sku]) -> Vec<&str> {
    skus.iter().map(Sku::as_str).collect()
}
