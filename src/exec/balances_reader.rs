//! Reading of some SKUs' balances such that each answer can prove what it lacks.
//!
//! A failed page is split, and a SKU that fails alone is left out
//! ([`isolation`](crate::reconcile::isolation)). An empty answer to a call for few SKUs may come from a
//! failing platform. The call is then repeated once with a few known SKUs (witnesses) beside them.

use super::balances::{self, BalancesOutcome};
use super::call::{AnsweredExchange, reply_message};
use super::quarantine::FailureCause;
use super::{JobContext, JobError};
use crate::client::{Verdict, wire};
use crate::model::{Lane, Operation, RunId, Sku};
use crate::reconcile::isolation::FailedGroups;

const READ_OPERATION: Operation = Operation::GetProductBalances;
/// Most failures in a row. The cause is then the platform, and a later run reads the rest.
const FAILURES_MAX: usize = 6;

/// A read of some SKUs.
pub(crate) struct BalancesReader<'a> {
    context: &'a JobContext,
    run: RunId,
    lane: Lane,
    pending_parts: FailedGroups<Sku>,
    with_witnesses: bool,
    failures: usize,
    /// Pages that were read.
    pub(crate) pages_read: u64,
    /// Reason of the last failure, if something stays unread.
    pub(crate) unread_reason: Option<String>,
}

impl<'a> BalancesReader<'a> {
    /// Creates pages of at most `size` SKUs.
    pub(crate) fn new(context: &'a JobContext, run: RunId, lane: Lane, skus: &[Sku], size: usize) -> Self {
        let mut pending_parts = FailedGroups::default();
        skus.chunks(size.max(1)).for_each(|page| pending_parts.retry_together(page.to_vec()));
        Self {
            context,
            run,
            lane,
            pending_parts,
            with_witnesses: false,
            failures: 0,
            pages_read: 0,
            unread_reason: None,
        }
    }

    /// Adds witnesses, which are known SKUs, to each page. The answer can then prove what it lacks.
    pub(crate) fn with_witnesses(self) -> Self {
        Self { with_witnesses: true, ..self }
    }

    /// Reads and records all pages.
    pub(crate) async fn read_all(mut self) -> Result<Self, JobError> {
        while self.next_page().await?.is_some() {}
        Ok(self)
    }

    /// Returns the next page: its answer, which is recorded, and its SKUs.
    pub(crate) async fn next_page(&mut self) -> Result<Option<(AnsweredExchange, Vec<Sku>)>, JobError> {
        while self.failures < FAILURES_MAX {
            let Some(page) = self.pending_parts.next_part() else { break };
            let names: Vec<&str> = page.iter().map(Sku::as_str).collect();
            match self.read_page(&page).await? {
                Ok((answer, shows_some)) => {
                    self.context.record_read_success(READ_OPERATION, &names, shows_some).await?;
                    (self.failures, self.pages_read) = (0, self.pages_read + 1);
                    return Ok(Some((answer, page)));
                }
                Err((FailureCause::Throttled, _)) => self.pending_parts.retry_together(page),
                Err((FailureCause::Unsent, why)) => {
                    self.unread_reason = Some(why);
                    break;
                }
                Err((FailureCause::Entry, why)) => {
                    self.context.record_failure(READ_OPERATION, &names, &why).await?;
                    self.pending_parts.split_failed(page);
                    (self.failures, self.unread_reason) = (self.failures + 1, Some(why));
                }
            }
        }
        Ok(None)
    }

    async fn read_page(&self, page: &[Sku]) -> Result<PageRead<bool>, JobError> {
        let mut witnesses = Vec::new();
        if self.with_witnesses {
            witnesses = self.context.store.skus_beside(page).await?;
        }
        match self.request_page(page, &witnesses).await? {
            Ok((answer, outcome)) if outcome.wants_witnesses() && witnesses.is_empty() => {
                witnesses = self.context.store.skus_beside(page).await?;
                if witnesses.is_empty() {
                    return into_read(answer, outcome);
                }
            }
            Ok((answer, outcome)) => return into_read(answer, outcome),
            // A witness may be the cause of the failure.
            Err((FailureCause::Entry, _)) if !witnesses.is_empty() => witnesses.clear(),
            Err(failed) => return Ok(Err(failed)),
        }
        match self.request_page(page, &witnesses).await? {
            Ok((answer, outcome)) => into_read(answer, outcome),
            Err(failed) => Ok(Err(failed)),
        }
    }

    async fn request_page(
        &self,
        page: &[Sku],
        witnesses: &[Sku],
    ) -> Result<PageRead<BalancesOutcome>, JobError> {
        let requested: Vec<Sku> = page.iter().chain(witnesses).cloned().collect();
        let request = wire::get_product_balances(&requested)?;
        let answer = self.context.read_once(self.run, self.lane, request).await?;
        if answer.reply.verdict != Verdict::Accepted {
            self.context.exchange_end_ignored(&answer).await?;
            let failed = self.context.classify_failure(self.run, &answer.reply).await?;
            return Ok(Err((failed, reply_message(&answer.reply))));
        }
        into_page(balances::record_balances(self.context, &answer, &requested).await, answer)
    }
}

/// An answer with its result, or the cause and the message of a failure.
type PageRead<T> = Result<(AnsweredExchange, T), (FailureCause, String)>;

/// Returns true with the answer if something of the request came. An answer that decides nothing is a failed
/// read, unless no witness exists.
fn into_read(answer: AnsweredExchange, outcome: BalancesOutcome) -> Result<PageRead<bool>, JobError> {
    let shows_some = outcome.shows_some();
    into_page(outcome.into_result().map(|()| shows_some), answer)
}

/// Returns a failed page for an implausible answer.
fn into_page<T>(recorded: Result<T, JobError>, answer: AnsweredExchange) -> Result<PageRead<T>, JobError> {
    match recorded {
        Err(JobError::Implausible(why)) => Ok(Err((FailureCause::Entry, why))),
        recorded => Ok(Ok((answer, recorded?))),
    }
}
