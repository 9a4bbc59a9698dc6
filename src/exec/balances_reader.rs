//! Reading of SKUs' balances, for all jobs: pages that are committed as they are answered, such that each answer
//! can prove what it lacks.
//!
//! A failed page is split, and a SKU that fails alone is left out
//! ([`isolation`](crate::reconcile::isolation)). An empty answer to a call for few SKUs may come from a
//! failing platform. The call is then repeated once with a few known SKUs (witnesses) beside them.

use super::JobError;
use super::balances::{self, BalancesOutcome};
use super::call::{AnsweredExchange, reply_message};
use super::quarantine::FailureCause;
use super::reads::ReadOrigin;
use crate::client::{Verdict, wire};
use crate::model::{Moment, Operation, Sku};
use crate::reconcile::isolation::SuspectQueue;
use crate::reconcile::proof::TRUSTED_PAGE_SKUS;
use crate::store::{BalancesRecorded, WITNESSES};
use std::time::Duration;

const READ_OPERATION: Operation = Operation::GetProductBalances;
/// SKUs of a page whose answer can prove an absence: with the witnesses, it has [`TRUSTED_PAGE_SKUS`] SKUs.
pub(crate) const PROVING_PAGE_SKUS: usize = TRUSTED_PAGE_SKUS - WITNESSES;

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
    pub(crate) lacks_only_known: bool,
    /// True if its only SKU left the quarantine.
    pub(crate) has_ended_quarantine: bool,
}

/// Returns true if a page that was not answered is blamed for it, after the first or the second call. `None`: it is
/// requested a second time.
///
/// An empty answer is doubted without witnesses, which the second call adds. A failure is doubted beside witnesses,
/// which the second call leaves out: a witness that fails is judged by its own reads. A second doubt is not settled,
/// so the page is not blamed.
fn is_page_blamed(is_empty: bool, is_second: bool, has_witnesses: bool) -> Option<bool> {
    let is_doubtful = is_empty != has_witnesses;
    (is_second || !is_doubtful).then_some(!is_doubtful)
}

/// Answer to the request of a page, not recorded yet.
#[derive(Debug)]
pub(crate) struct AskedPage {
    answer: AnsweredExchange,
    requested: Vec<Sku>,
    has_witnesses: bool,
}

impl AskedPage {
    pub(crate) fn is_accepted(&self) -> bool {
        self.answer.reply.verdict == Verdict::Accepted
    }
}

/// Reads and records a page in one call or two, beside these witnesses.
pub(crate) async fn read_page(
    origin: ReadOrigin<'_>,
    page: &[Sku],
    witnesses: Vec<Sku>,
) -> Result<PageRead, JobError> {
    let answered = ask_page(origin, page, witnesses).await?;
    record_page(origin, page, answered).await
}

/// Requests a page, beside these witnesses.
pub(crate) async fn ask_page(
    origin: ReadOrigin<'_>,
    page: &[Sku],
    witnesses: Vec<Sku>,
) -> Result<AskedPage, JobError> {
    let has_witnesses = !witnesses.is_empty();
    let requested: Vec<Sku> = page.iter().cloned().chain(witnesses).collect();
    let request = wire::get_product_balances(&requested);
    let answer = origin.context.read_once(origin.run, origin.lane, request).await?;
    Ok(AskedPage { answer, requested, has_witnesses })
}

/// Records the answer to the request of a page. May request the page a second time.
pub(crate) async fn record_page(
    origin: ReadOrigin<'_>,
    page: &[Sku],
    mut answered: AskedPage,
) -> Result<PageRead, JobError> {
    let context = origin.context;
    let names: Vec<&str> = page.iter().map(Sku::as_str).collect();
    let mut is_second = false;
    loop {
        let AskedPage { answer, requested, has_witnesses } = answered;
        let (is_empty, why) = if answer.reply.verdict == Verdict::Accepted {
            match balances::record_balances(context, &answer, &requested).await {
                Ok(BalancesOutcome::Recorded { recorded, lacks_only_known }) => {
                    let shows_some = !recorded.is_silent;
                    let has_ended_quarantine =
                        context.record_success(READ_OPERATION, &names, shows_some).await?;
                    let latency = context.moment().duration_since(answer.sent_moment);
                    let answer = Box::new(answer);
                    return Ok(PageRead::Recorded(RecordedPage {
                        answer,
                        recorded,
                        latency,
                        lacks_only_known,
                        has_ended_quarantine,
                    }));
                }
                Ok(BalancesOutcome::NoneKnown(known)) => {
                    let why = format!(
                        "the platform returned none of {known} known SKUs; nothing was changed; \
                         check that the account is the right one: tallyd check --online"
                    );
                    (true, why)
                }
                Err(JobError::Implausible(why)) => (false, why),
                Err(error) => return Err(error),
            }
        } else {
            context.exchange_end_ignored(&answer).await?;
            let why = reply_message(&answer.reply);
            match context.classify_failure(origin.run, &answer.reply).await? {
                FailureCause::Throttled => {
                    let witnesses = requested[page.len()..].to_vec();
                    answered = ask_page(origin, page, witnesses).await?;
                    continue;
                }
                FailureCause::Unsent => return Ok(PageRead::Unsent(why)),
                FailureCause::Entry => (false, why),
            }
        };
        let mut is_blamed = is_page_blamed(is_empty, is_second, has_witnesses);
        let mut witnesses = Vec::new();
        if is_blamed.is_none() && is_empty {
            witnesses = context.store.witness_skus(page).await?;
            is_blamed = witnesses.is_empty().then_some(true);
        }
        if let Some(is_blamed) = is_blamed {
            let is_quarantined = is_blamed && context.record_failure(READ_OPERATION, &names, &why).await?;
            let may_shrink = answer.reply.may_shrink_page();
            return Ok(PageRead::Failed { why, is_quarantined, may_shrink });
        }
        (is_second, answered) = (true, ask_page(origin, page, witnesses).await?);
    }
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
            let read = read_page(self.origin, &page, Vec::new()).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: an empty answer or a failure, with witnesses or without; an empty answer to the second call; the blame.
    #[test]
    fn a_page_is_blamed_for_its_own_failure_and_never_for_that_of_a_witness() {
        let cases = [
            ((false, false), None, true),
            ((true, true), None, true),
            ((true, false), Some(false), false),
            ((true, false), Some(true), true),
            ((false, true), Some(false), true),
            ((false, true), Some(true), false),
        ];
        for ((is_empty, has_witnesses), second, is_blamed) in cases {
            let mut blame = is_page_blamed(is_empty, false, has_witnesses);
            if let Some(is_empty) = second {
                assert_eq!(blame, None, "{is_empty} {has_witnesses}");
                blame = is_page_blamed(is_empty, true, !has_witnesses);
            }
            assert_eq!(blame, Some(is_blamed), "{is_empty} {has_witnesses}, then {second:?}");
        }
    }
}
