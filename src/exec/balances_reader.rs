//! Reading of some SKUs' balances such that each answer can prove what it lacks.
//!
//! A failed page is split, and a SKU that fails alone is left out
//! ([`isolation`](crate::reconcile::isolation)). An empty answer to a call for few SKUs may come from a
//! failing platform. The call is then repeated once with a few known SKUs (witnesses) beside them.

use super::JobError;
use super::balances::{self, BalancesOutcome};
use super::call::{AnsweredExchange, reply_message};
use super::preflight::ReadOrigin;
use super::quarantine::FailureCause;
use crate::client::{Verdict, wire};
use crate::model::{Operation, Sku};
use crate::reconcile::isolation::SuspectQueue;
use std::time::Duration;

const READ_OPERATION: Operation = Operation::GetProductBalances;

#[derive(Debug)]
pub(crate) enum PageRead {
    Recorded {
        answer: Box<AnsweredExchange>,
        /// Time from the request to the record.
        latency: Duration,
    },
    /// Failure that one of the SKUs may cause.
    Failed {
        why: String,
        /// True if the page had a single SKU, which is now quarantined.
        is_quarantined: bool,
    },
    /// No byte of the request was sent, or the failure may mean the key.
    Unsent(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallResult {
    Recorded,
    /// None of the known SKUs came, so the answer decides nothing.
    NoneKnown,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageStep {
    Finish,
    AddWitnesses,
    RemoveWitnesses,
    /// The read failed. `is_blamed`: the failure counts against the SKUs of the page.
    GiveUp {
        is_blamed: bool,
    },
}

impl PageStep {
    /// Returns the step after the first or the second call for a page. There is no third.
    ///
    /// A failure counts against the page only if the page was alone in the call. A witness that fails is judged
    /// by its own reads. An empty answer counts against the page if the witnesses did not fail in another call.
    fn after_call(result: CallResult, is_second: bool, has_witnesses: bool) -> Self {
        match (result, is_second, has_witnesses) {
            (CallResult::Recorded, _, _) => Self::Finish,
            (CallResult::NoneKnown, false, false) => Self::AddWitnesses,
            (CallResult::Failed, false, true) => Self::RemoveWitnesses,
            // The page did not fail alone, and its witnesses did.
            (CallResult::NoneKnown, true, false) | (CallResult::Failed, true, true) => {
                Self::GiveUp { is_blamed: false }
            }
            (CallResult::NoneKnown, _, true) | (CallResult::Failed, _, false) => {
                Self::GiveUp { is_blamed: true }
            }
        }
    }
}

/// Reads and records a page in one call or two, beside these witnesses.
pub(crate) async fn read_page(
    origin: ReadOrigin<'_>,
    page: &[Sku],
    mut witnesses: Vec<Sku>,
) -> Result<PageRead, JobError> {
    let ReadOrigin { context, run, lane } = origin;
    let names: Vec<&str> = page.iter().map(Sku::as_str).collect();
    let mut is_second = false;
    loop {
        let requested: Vec<Sku> = page.iter().chain(&witnesses).cloned().collect();
        let answer = context.read_once(run, lane, wire::get_product_balances(&requested)?).await?;
        let (result, why) = if answer.reply.verdict == Verdict::Accepted {
            match balances::record_balances(context, &answer, &requested).await {
                Ok(BalancesOutcome::NoneKnown { known, lacks_witnesses: false }) => {
                    (CallResult::NoneKnown, balances::none_known_text(known))
                }
                Ok(outcome) => {
                    context.record_read_success(READ_OPERATION, &names, outcome.shows_some()).await?;
                    (CallResult::Recorded, String::new())
                }
                Err(JobError::Implausible(why)) => (CallResult::Failed, why),
                Err(error) => return Err(error),
            }
        } else {
            context.exchange_end_ignored(&answer).await?;
            let why = reply_message(&answer.reply);
            match context.classify_failure(run, &answer.reply).await? {
                FailureCause::Throttled => continue,
                FailureCause::Unsent => return Ok(PageRead::Unsent(why)),
                FailureCause::Entry => (CallResult::Failed, why),
            }
        };
        let is_blamed = match PageStep::after_call(result, is_second, !witnesses.is_empty()) {
            PageStep::Finish => {
                let latency = context.moment().duration_since(answer.sent_moment);
                return Ok(PageRead::Recorded { answer: Box::new(answer), latency });
            }
            PageStep::AddWitnesses => {
                witnesses = context.store.skus_beside(page).await?;
                witnesses.is_empty()
            }
            PageStep::RemoveWitnesses => {
                witnesses.clear();
                false
            }
            PageStep::GiveUp { is_blamed: false } => {
                return Ok(PageRead::Failed { why, is_quarantined: false });
            }
            PageStep::GiveUp { is_blamed: true } => true,
        };
        if is_blamed {
            let is_quarantined = context.record_failure(READ_OPERATION, &names, &why).await?;
            return Ok(PageRead::Failed { why, is_quarantined });
        }
        is_second = true;
    }
}

pub(crate) struct BalancesReader<'a> {
    origin: ReadOrigin<'a>,
    suspects: SuspectQueue<Sku>,
    with_witnesses: bool,
    pub(crate) pages_read: u64,
    pub(crate) unread_reason: Option<String>,
}

impl<'a> BalancesReader<'a> {
    /// Creates pages of at most `size` SKUs.
    pub(crate) fn new(origin: ReadOrigin<'a>, skus: &[Sku], size: usize) -> Self {
        let mut suspects = SuspectQueue::default();
        skus.chunks(size.max(1)).for_each(|page| suspects.add(page.to_vec()));
        Self { origin, suspects, with_witnesses: false, pages_read: 0, unread_reason: None }
    }

    /// Adds witnesses, which are known SKUs, to each page. The answer can then prove what it lacks.
    pub(crate) fn with_witnesses(self) -> Self {
        Self { with_witnesses: true, ..self }
    }

    pub(crate) async fn read_all(mut self) -> Result<Self, JobError> {
        while self.next_page().await?.is_some() {}
        Ok(self)
    }

    /// Returns the next page: its answer, which is recorded, and its SKUs.
    pub(crate) async fn next_page(&mut self) -> Result<Option<(AnsweredExchange, Vec<Sku>)>, JobError> {
        let context = self.origin.context;
        while !self.suspects.is_exhausted() {
            let Some(page) = self.suspects.take() else { break };
            context.pause_until(self.suspects.not_before()).await?;
            let beside = match self.with_witnesses {
                true => context.store.skus_beside(&page).await?,
                false => Vec::new(),
            };
            match read_page(self.origin, &page, beside).await? {
                PageRead::Recorded { answer, .. } => {
                    self.suspects.succeeded();
                    self.pages_read += 1;
                    return Ok(Some((*answer, page)));
                }
                PageRead::Unsent(why) => {
                    self.unread_reason = Some(why);
                    break;
                }
                PageRead::Failed { why, .. } => {
                    // A later run reads an isolated SKU.
                    drop(self.suspects.failed(page, context.moment()));
                    self.unread_reason = Some(why);
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the results of the first and the second call, with witnesses in the first, and the blame.
    #[test]
    fn a_page_is_blamed_for_its_own_failure_and_never_for_that_of_a_witness() {
        use CallResult::{Failed, NoneKnown};
        let cases = [
            ((Failed, false), None, true),
            ((NoneKnown, true), None, true),
            ((NoneKnown, false), Some(Failed), false),
            ((NoneKnown, false), Some(NoneKnown), true),
            ((Failed, true), Some(Failed), true),
            ((Failed, true), Some(NoneKnown), false),
        ];
        for ((first, has_witnesses), second, is_blamed) in cases {
            let mut step = PageStep::after_call(first, false, has_witnesses);
            if let Some(second) = second {
                let expected = if has_witnesses { PageStep::RemoveWitnesses } else { PageStep::AddWitnesses };
                assert_eq!(step, expected, "{first:?}");
                step = PageStep::after_call(second, true, !has_witnesses);
            }
            assert_eq!(step, PageStep::GiveUp { is_blamed }, "{first:?}, then {second:?}");
        }
    }
}
