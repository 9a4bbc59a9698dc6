//! Reading of some SKUs' balances such that each answer can prove what it lacks.
//!
//! A failed page is split, and a SKU that fails alone is left out
//! ([`isolation`](crate::reconcile::isolation)). An empty answer to a call for few SKUs may come from a
//! failing platform. The call is then repeated once with a few known SKUs (witnesses) beside them.

use super::balances::{self, Looked};
use super::call::{Answer, words};
use super::quarantine::Failed;
use super::{Context, JobError};
use crate::client::{Verdict, wire};
use crate::model::{Lane, Operation, RunId, Sku};
use crate::reconcile::isolation::Groups;

const READ: Operation = Operation::GetProductBalances;
/// Most failures in a row. The cause is then the platform, and a later run reads the rest.
const FAILURES_MAX: usize = 6;

/// A read of some SKUs.
pub(crate) struct Parts<'a> {
    context: &'a Context,
    run: RunId,
    lane: Lane,
    parts: Groups<Sku>,
    /// True if witnesses are added to each page.
    with_witnesses: bool,
    /// Failures in a row.
    failures: usize,
    /// Pages that were read.
    pub(crate) pages: u64,
    /// Reason of the last failure, if something stays unread.
    pub(crate) unread: Option<String>,
}

impl<'a> Parts<'a> {
    /// Creates pages of at most `size` SKUs.
    pub(crate) fn new(context: &'a Context, run: RunId, lane: Lane, skus: &[Sku], size: usize) -> Self {
        let mut parts = Groups::default();
        skus.chunks(size.max(1)).for_each(|page| parts.again(page.to_vec()));
        Self { context, run, lane, parts, with_witnesses: false, failures: 0, pages: 0, unread: None }
    }

    /// Adds witnesses, which are known SKUs, to each page. The answer can then prove what it lacks.
    pub(crate) fn with_witnesses(self) -> Self {
        Self { with_witnesses: true, ..self }
    }

    /// Returns the next page: its answer, which is recorded, and its SKUs.
    pub(crate) async fn next_page(&mut self) -> Result<Option<(Answer, Vec<Sku>)>, JobError> {
        while self.failures < FAILURES_MAX {
            let Some(page) = self.parts.next_part() else { break };
            let names: Vec<&str> = page.iter().map(Sku::as_str).collect();
            match self.read(&page).await? {
                Ok((answer, shows_some)) => {
                    self.context.read_worked(READ, &names, shows_some).await?;
                    (self.failures, self.pages) = (0, self.pages + 1);
                    return Ok(Some((answer, page)));
                }
                Err((Failed::Throttled, _)) => self.parts.again(page),
                Err((Failed::Unsent, why)) => {
                    self.unread = Some(why);
                    break;
                }
                Err((Failed::Entries, why)) => {
                    self.context.failed(READ, &names, &why).await?;
                    self.parts.split(page);
                    (self.failures, self.unread) = (self.failures + 1, Some(why));
                }
            }
        }
        Ok(None)
    }

    /// Reads and records one page.
    async fn read(&self, page: &[Sku]) -> Result<Result<Shown, (Failed, String)>, JobError> {
        let mut witnesses = Vec::new();
        if self.with_witnesses {
            witnesses = self.context.store.witnesses(page).await?;
        }
        let read = self.ask(page, &witnesses).await?;
        match read {
            Ok((answer, looked)) if looked.wants_witnesses() && witnesses.is_empty() => {
                witnesses = self.context.store.witnesses(page).await?;
                if witnesses.is_empty() {
                    return told(answer, looked);
                }
            }
            Ok((answer, looked)) => return told(answer, looked),
            // A witness may be the cause of the failure.
            Err((Failed::Entries, _)) if !witnesses.is_empty() => witnesses.clear(),
            Err(failed) => return Ok(Err(failed)),
        }
        match self.ask(page, &witnesses).await? {
            Ok((answer, looked)) => told(answer, looked),
            Err(failed) => Ok(Err(failed)),
        }
    }

    async fn ask(
        &self,
        page: &[Sku],
        witnesses: &[Sku],
    ) -> Result<Result<(Answer, Looked), (Failed, String)>, JobError> {
        let asked: Vec<Sku> = page.iter().chain(witnesses).cloned().collect();
        let request =
            wire::get_product_balances(&asked).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = self.context.read_once(self.run, self.lane, request).await?;
        if answer.reply.verdict != Verdict::Accepted {
            self.context.end_alone(&answer).await?;
            let failed = self.context.failure(self.run, &answer.reply).await?;
            return Ok(Err((failed, words(&answer.reply))));
        }
        match balances::balances_look(self.context, &answer, &asked).await {
            Ok(looked) => Ok(Ok((answer, looked))),
            Err(JobError::Implausible(why)) => Ok(Err((Failed::Entries, why))),
            Err(error) => Err(error),
        }
    }
}

/// An answer, and true if something of the request came.
type Shown = (Answer, bool);

/// Returns a failed read for an answer that decides nothing, unless no witness exists.
fn told(answer: Answer, looked: Looked) -> Result<Result<Shown, (Failed, String)>, JobError> {
    let shows_some = looked.shows_some();
    match looked.told() {
        Ok(()) => Ok(Ok((answer, shows_some))),
        Err(JobError::Implausible(why)) => Ok(Err((Failed::Entries, why))),
        Err(error) => Err(error),
    }
}
