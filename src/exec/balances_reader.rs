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
    /// True if witnesses are added to each page.
    with_witnesses: bool,
    /// Failures in a row.
    failures: usize,
    /// Pages that were read.
    pub(crate) pages_read: u64,
    /// Reason of the last failure, if something stays unread.
    pub(crate) unread_reason: Option<String>,
}

impl<'a> BalancesReader<'a> {
    /// Creates pages of at most `size` SKUs.
    pub(crate) fn new(context: &'a JobContext, run: RunId, lane: Lane, skus: &[Sku], size: usize) -> Self {
        let mut parts = FailedGroups::default();
        skus.chunks(size.max(1)).for_each(|page| parts.retry_together(page.to_vec()));
        Self {
            context,
            run,
            lane,
            pending_parts: parts,
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

    /// Reads and records one page.
    async fn read_page(&self, page: &[Sku]) -> Result<Result<ReadAnswer, (FailureCause, String)>, JobError> {
        let mut witnesses = Vec::new();
        if self.with_witnesses {
            witnesses = self.context.store.skus_beside(page).await?;
        }
        let read = self.request_page(page, &witnesses).await?;
        match read {
            Ok((answer, checked)) if checked.wants_witnesses() && witnesses.is_empty() => {
                witnesses = self.context.store.skus_beside(page).await?;
                if witnesses.is_empty() {
                    return into_read(answer, checked);
                }
            }
            Ok((answer, checked)) => return into_read(answer, checked),
            // A witness may be the cause of the failure.
            Err((FailureCause::Entry, _)) if !witnesses.is_empty() => witnesses.clear(),
            Err(failed) => return Ok(Err(failed)),
        }
        match self.request_page(page, &witnesses).await? {
            Ok((answer, checked)) => into_read(answer, checked),
            Err(failed) => Ok(Err(failed)),
        }
    }

    async fn request_page(
        &self,
        page: &[Sku],
        witnesses: &[Sku],
    ) -> Result<Result<(AnsweredExchange, BalancesOutcome), (FailureCause, String)>, JobError> {
        let asked: Vec<Sku> = page.iter().chain(witnesses).cloned().collect();
        let request = wire::get_product_balances(&asked)?;
        let answer = self.context.read_once(self.run, self.lane, request).await?;
        if answer.reply.verdict != Verdict::Accepted {
            self.context.exchange_end_ignored(&answer).await?;
            let failed = self.context.classify_failure(self.run, &answer.reply).await?;
            return Ok(Err((failed, reply_message(&answer.reply))));
        }
        match balances::record_balances(self.context, &answer, &asked).await {
            Ok(checked) => Ok(Ok((answer, checked))),
            Err(JobError::Implausible(why)) => Ok(Err((FailureCause::Entry, why))),
            Err(error) => Err(error),
        }
    }
}

/// An answer, and true if something of the request came.
type ReadAnswer = (AnsweredExchange, bool);

/// Returns a failed read for an answer that decides nothing, unless no witness exists.
fn into_read(
    answer: AnsweredExchange,
    checked: BalancesOutcome,
) -> Result<Result<ReadAnswer, (FailureCause, String)>, JobError> {
    let shows_some = checked.shows_some();
    match checked.into_result() {
        Ok(()) => Ok(Ok((answer, shows_some))),
        Err(JobError::Implausible(why)) => Ok(Err((FailureCause::Entry, why))),
        Err(error) => Err(error),
    }
}
