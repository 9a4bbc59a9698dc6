//! `balances`: the balances of every tracked SKU, stalest first.
//!
//! Each page is committed as it arrives, and the stalest SKU is always the next to be read: a crash or a spent budget
//! loses nothing and needs no cursor. How many SKUs a page takes is found out ([`super::page_size`]).
//!
//! An answer that lacks much may have been cut silently: what it lacked is asked for again at the end, in pages so small
//! that their answers are trusted, and only then a SKU is missing (rules.md 29).
//!
//! Between the passes, where calls are left over, a page of those that move is read before its turn
//! ([`crate::schedule::attention`]). That is never instead of a pass: each reads every SKU older than its start.

use super::page_size::{PAGE_MIN, PageSize};
use super::{Context, JobError, Report, call, record};
use crate::client::{Verdict, wire};
use crate::model::{Lane, Position, RunId, Sku, Timestamp};
use crate::outbox::Delays;
use crate::reconcile::brake;
use crate::schedule::attention::{Candidate, pick};
use crate::store::{Durability, MoverRow};
use std::time::Duration;

/// So far back moves are looked at.
const MOVES_SINCE: Duration = Duration::from_secs(4 * 60 * 60);
/// Failed attempts in a row after which the run ends; the next run goes on where this one stopped.
const FAILURES_MAX: usize = 24;

/// Reads these SKUs, or all that are due where none is named.
pub(super) async fn run(context: &Context, run: RunId, only: &[Sku]) -> Result<Report, JobError> {
    let mut reading = Reading::begin(context, run).await?;
    reading.only = (!only.is_empty()).then(|| only.to_vec());
    while let Some(page) = reading.next_page().await? {
        if let Some(gave_up) = reading.read(&page).await? {
            reading.remember().await?;
            return reading.report(Some(gave_up));
        }
    }
    reading.remember().await?;
    reading.report(None)
}

/// Reads a page of what moves before its turn, if half of the quota is free and nobody waits for it; how many SKUs that
/// were is returned. One that fails costs nothing but its call: the next pass reads them all the same.
pub(super) async fn read_movers(context: &Context, run: RunId) -> Result<usize, JobError> {
    let budget = context.limiter.budget();
    let waiting = budget.waiting.push + budget.waiting.poll;
    if waiting > 0 || budget.free_for_bulk * 2 < budget.limit {
        return Ok(0);
    }
    let now = context.now();
    let rows = context.store.mover_list(now.minus(MOVES_SINCE)).await?;
    let candidate = |row: &MoverRow| Candidate {
        moves: row.moves,
        near_zero: row.near_zero,
        age: now.since(Timestamp(row.observed_ms)),
    };
    let candidates: Vec<Candidate> = rows.iter().map(candidate).collect();
    let picked = pick(&candidates, context.settings().skus_per_call);
    let page: Vec<Sku> = picked.iter().filter_map(|place| Sku::new(rows[*place].sku.as_str()).ok()).collect();
    if page.is_empty() {
        return Ok(0);
    }
    let request = wire::get_product_balances(&page).map_err(|why| JobError::Implausible(why.to_string()))?;
    let answer = context.read_once(run, Lane::Poll, request).await?;
    if answer.reply.verdict != Verdict::Accepted {
        context.end_alone(&answer).await?;
        return Ok(0);
    }
    match record::balances_page(context, &answer, &page).await {
        Ok(_) => Ok(page.len()),
        Err(JobError::Implausible(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// One pass over the tracked SKUs.
struct Reading<'a> {
    context: &'a Context,
    run: RunId,
    /// The SKUs a person named that are still to be read; none: what is due is read.
    only: Option<Vec<Sku>>,
    /// What was read before this is due.
    before: Position,
    /// The last SKU taken among those never read.
    after: String,
    size: PageSize,
    /// What is configured, and what was proved before this run.
    before_size: (usize, Option<usize>),
    failures: usize,
    delays: Delays,
    asked: usize,
    absent: usize,
    /// Not returned, but not sure to be missing.
    unsure: Vec<Sku>,
    /// The pages are of `unsure` now.
    rereads: bool,
    changed: u64,
}

impl<'a> Reading<'a> {
    async fn begin(context: &'a Context, run: RunId) -> Result<Self, JobError> {
        let configured = context.settings().skus_per_call;
        let proved = context.store.page_size(configured).await?;
        Ok(Self {
            context,
            run,
            only: None,
            before: context.store.position().await?,
            after: String::new(),
            size: PageSize::new(configured, proved),
            before_size: (configured, proved),
            failures: 0,
            delays: Delays::page_retry(),
            asked: 0,
            absent: 0,
            unsure: Vec::new(),
            rereads: false,
            changed: 0,
        })
    }

    async fn next_page(&mut self) -> Result<Option<Vec<Sku>>, JobError> {
        let limit = u32::try_from(self.size.get()).unwrap_or(u32::MAX);
        let mut page: Vec<Sku> = Vec::new();
        if let Some(only) = &mut self.only {
            page.extend(only.drain(..self.size.get().min(only.len())));
        }
        while self.only.is_none() {
            let texts = self.context.store.tracked_sku_stalest(self.before, &self.after, limit).await?;
            page = texts.iter().filter_map(|text| Sku::new(text.as_str()).ok()).collect();
            // A page of texts that are no SKUs must not end the run: those behind it are read all the same.
            match texts.into_iter().max().filter(|last| page.is_empty() && *last > self.after) {
                Some(last) => self.after = last,
                None => break,
            }
        }
        if page.is_empty() {
            let first = self.unsure.len().saturating_sub(PAGE_MIN);
            page = self.unsure.split_off(first);
            self.rereads = true;
        }
        Ok((!page.is_empty()).then_some(page))
    }

    /// Reads one page; the reason is returned when it is time to give up.
    async fn read(&mut self, page: &[Sku]) -> Result<Option<String>, JobError> {
        let request =
            wire::get_product_balances(page).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = self.context.read_once(self.run, Lane::Poll, request).await?;
        if answer.reply.verdict == Verdict::Accepted {
            let recorded = record::balances_page(self.context, &answer, page).await?;
            self.asked += page.len();
            self.absent += recorded.absent.len() - recorded.unsure.len();
            self.changed += recorded.cells_changed;
            self.after = page.iter().map(Sku::as_str).max().unwrap_or_default().max(&self.after).to_owned();
            if brake::looks_cut(page.len() as u64, recorded.unsure.len() as u64) {
                self.size.failed();
            } else {
                self.size.worked(page.len() >= self.size.get());
            }
            self.unsure.extend(recorded.unsure);
            self.failures = 0;
            self.delays = Delays::page_retry();
            return Ok(None);
        }
        self.context.end_alone(&answer).await?;
        if self.rereads {
            self.unsure.extend_from_slice(page);
        } else if let Some(only) = &mut self.only {
            only.extend_from_slice(page);
        }
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
        match gave_up {
            None => Ok(Report::ok(summary)),
            Some(why) if self.asked == 0 => Err(JobError::GivenUp { what: "balances".into(), why }),
            Some(why) => {
                Ok(Report::partial(format!("{summary}; then it failed: {why}; the next run goes on")))
            }
        }
    }
}
