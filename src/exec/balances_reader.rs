//! Reading of SKUs' balances, for all jobs: pages that are committed as they are answered.
//!
//! A failed page is split, and a SKU that fails alone is left out
//! ([`isolation`](crate::reconcile::isolation)). A page of several SKUs, one of them known, fails if none of them came.
//! A failing SKU is therefore asked for beside a witness, a known SKU that vouches for its absence: a deleted SKU would
//! else look like one that empties its answers.

use super::JobError;
use super::balances;
use super::call::{AnsweredExchange, reply_message};
use super::quarantine::FailureCause;
use super::reads::ReadOrigin;
use crate::client::{Verdict, wire};
use crate::model::{Moment, Operation, Sku};
use crate::reconcile::isolation::SuspectQueue;
use crate::store::BalancesRecorded;
use std::time::Duration;

const READ_OPERATION: Operation = Operation::GetProductBalances;

#[derive(Debug)]
pub(crate) enum PageRead {
    Recorded(RecordedPage),
    /// Failure that one of the SKUs may cause.
    Failed {
        why: String,
        /// True if the page had a single SKU, which is now quarantined.
        is_quarantined: bool,
        /// True if a smaller page may succeed.
        may_shrink: bool,
    },
    /// No byte of the request was sent, or the failure may mean the key.
    Unsent(String),
}

#[derive(Debug)]
pub(crate) struct RecordedPage {
    pub(crate) answer: Box<AnsweredExchange>,
    pub(crate) recorded: BalancesRecorded,
    /// Time from the request to the record.
    pub(crate) latency: Duration,
    /// True if its only SKU left the quarantine.
    pub(crate) has_ended_quarantine: bool,
}

/// Reads and records a page.
pub(crate) async fn read_page(origin: ReadOrigin<'_>, page: &[Sku]) -> Result<PageRead, JobError> {
    let asked = ask_page(origin, page).await?;
    record_page(origin, page, asked).await
}

/// The answer to the request of a page, and the SKUs that were asked for: those of the page, and a witness.
pub(crate) type AskedPage = (Vec<Sku>, AnsweredExchange);

/// Requests a page.
pub(crate) async fn ask_page(origin: ReadOrigin<'_>, page: &[Sku]) -> Result<AskedPage, JobError> {
    let (context, mut skus) = (origin.context, page.to_vec());
    if let [only] = page
        && context.has_failed(READ_OPERATION, only.as_str()).await?
    {
        let known = context.store.witness_skus(only).await?;
        let failures = context.entry_failures();
        skus.extend(known.into_iter().find(|sku| !failures.is_suspect(READ_OPERATION, sku.as_str())));
    }
    let answer = context.read_once(origin.run, origin.lane, wire::get_product_balances(&skus)).await?;
    Ok((skus, answer))
}

/// Records the answer to the request of a page. Requests a throttled page again. A failure is one of the page's SKUs.
pub(crate) async fn record_page(
    origin: ReadOrigin<'_>,
    page: &[Sku],
    (mut skus, mut answer): AskedPage,
) -> Result<PageRead, JobError> {
    let context = origin.context;
    let names: Vec<&str> = page.iter().map(Sku::as_str).collect();
    let why = loop {
        if answer.reply.verdict == Verdict::Accepted {
            match balances::record_balances(context, &answer, &skus).await {
                Ok(recorded) => {
                    let shows_some = !recorded.is_silent;
                    let has_ended_quarantine =
                        context.record_success(READ_OPERATION, &names, shows_some).await?;
                    let latency = context.moment().duration_since(answer.sent_moment);
                    let answer = Box::new(answer);
                    return Ok(PageRead::Recorded(RecordedPage {
                        answer,
                        recorded,
                        latency,
                        has_ended_quarantine,
                    }));
                }
                Err(JobError::Implausible(why)) => break why,
                Err(error) => return Err(error),
            }
        }
        context.exchange_end_ignored(&answer).await?;
        let why = reply_message(&answer.reply);
        match context.classify_failure(origin.run, &answer.reply).await? {
            FailureCause::Throttled => (skus, answer) = ask_page(origin, page).await?,
            FailureCause::Unsent => return Ok(PageRead::Unsent(why)),
            FailureCause::Entry => break why,
        }
    };
    let is_quarantined = context.record_failure(READ_OPERATION, &names, &why).await?;
    Ok(PageRead::Failed { why, is_quarantined, may_shrink: answer.reply.may_shrink_page() })
}

#[derive(Debug)]
pub(crate) enum PageEnd {
    Recorded(RecordedPage),
    /// Failed alone; the queue has the SKU no more.
    Isolated {
        sku: Sku,
        is_quarantined: bool,
    },
    /// Failed; the queue has the SKUs again.
    Requeued,
}

impl SuspectQueue<Sku> {
    /// Takes the result of a page. A failed page is queued again in halves.
    pub(crate) fn end_page(&mut self, page: Vec<Sku>, read: PageRead, now: Moment) -> PageEnd {
        match read {
            PageRead::Recorded(page) => {
                self.succeeded();
                PageEnd::Recorded(page)
            }
            PageRead::Unsent(why) => {
                self.note_failure(why, now);
                self.add(page);
                PageEnd::Requeued
            }
            PageRead::Failed { why, is_quarantined, .. } => match self.failed(page, why, now) {
                Some(sku) => PageEnd::Isolated { sku, is_quarantined },
                None => PageEnd::Requeued,
            },
        }
    }
}

pub(crate) struct BalancesReader<'a> {
    origin: ReadOrigin<'a>,
    pages: SuspectQueue<Sku>,
    pub(crate) pages_read: u64,
    pub(crate) unread_reason: Option<String>,
}

impl<'a> BalancesReader<'a> {
    /// Creates pages of at most `size` SKUs.
    pub(crate) fn new(origin: ReadOrigin<'a>, skus: &[Sku], size: usize) -> Self {
        let mut pages = SuspectQueue::default();
        skus.chunks(size.max(1)).for_each(|page| pages.add(page.to_vec()));
        Self { origin, pages, pages_read: 0, unread_reason: None }
    }

    pub(crate) async fn read_all(mut self) -> Result<Self, JobError> {
        while self.next_page().await?.is_some() {}
        Ok(self)
    }

    /// Returns the next page: its answer, which is recorded, and its SKUs. A later run reads an isolated SKU.
    pub(crate) async fn next_page(&mut self) -> Result<Option<(AnsweredExchange, Vec<Sku>)>, JobError> {
        let context = self.origin.context;
        while self.pages.exhaustion().is_none() {
            let Some(page) = self.pages.take() else { break };
            context.pause_until(self.pages.not_before()).await?;
            let read = read_page(self.origin, &page).await?;
            if let PageRead::Failed { why, .. } | PageRead::Unsent(why) = &read {
                self.unread_reason = Some(why.clone());
            }
            let is_unsent = matches!(read, PageRead::Unsent(_));
            if let PageEnd::Recorded(recorded) = self.pages.end_page(page.clone(), read, context.moment()) {
                self.pages_read += 1;
                return Ok(Some((*recorded.answer, page)));
            }
            if is_unsent {
                break;
            }
        }
        Ok(None)
    }
}
