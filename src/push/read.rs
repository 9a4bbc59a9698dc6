//! Reads of stale stock levels for a push, many in one call.

use crate::client::{Verdict as Answered, wire};
use crate::exec::balances::BalancesOutcome;
use crate::exec::quarantine::FailureCause;
use crate::exec::{JobContext, JobError, balances, call};
use crate::model::{ExchangeId, Lane, Operation, RunId, Sku};
use std::time::Duration;

const READ_OPERATION: Operation = Operation::GetProductBalances;

/// Outcome of a page.
#[derive(Debug)]
pub(super) enum StaleReadOutcome {
    /// The page was read and recorded.
    Recorded {
        /// Exchange of the read.
        exchange: ExchangeId,
        /// Time from the request to the answer, which is the age of the facts.
        latency: Duration,
    },
    /// Failure that one of the SKUs may cause.
    Failed {
        /// Message of the platform.
        why: String,
        /// True if the page had a single SKU, which is now quarantined.
        is_quarantined: bool,
    },
    /// No byte of the request was sent, or the failure may mean the key.
    Unsent(String),
}

/// Reads a page. Repeats the call with witnesses, or without them, where that shows more.
pub(super) async fn read_stale_page(
    context: &JobContext,
    run: RunId,
    lane: Lane,
    (skus, mut witnesses): (Vec<Sku>, Vec<Sku>),
) -> Result<StaleReadOutcome, JobError> {
    let names: Vec<&str> = skus.iter().map(Sku::as_str).collect();
    let mut may_have_witnesses = true;
    loop {
        let requested: Vec<Sku> = skus.iter().chain(&witnesses).cloned().collect();
        let request =
            wire::get_product_balances(&requested).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = context.read_once(run, lane, request).await?;
        let why = if answer.reply.verdict == Answered::Accepted {
            let checked = balances::record_balances(context, &answer, &requested).await;
            if checked.as_ref().is_ok_and(BalancesOutcome::wants_witnesses)
                && witnesses.is_empty()
                && may_have_witnesses
            {
                witnesses = context.store.skus_beside(&skus).await?;
                may_have_witnesses = false;
                if !witnesses.is_empty() {
                    continue;
                }
            }
            let shows_some = checked.as_ref().is_ok_and(BalancesOutcome::shows_some);
            match checked.and_then(BalancesOutcome::into_result) {
                Ok(()) => {
                    context.record_read_success(READ_OPERATION, &names, shows_some).await?;
                    let took = context.moment().duration_since(answer.sent_moment);
                    return Ok(StaleReadOutcome::Recorded { exchange: answer.id, latency: took });
                }
                Err(JobError::Implausible(why)) => why,
                Err(error) => return Err(error),
            }
        } else {
            context.exchange_end_ignored(&answer).await?;
            let why = call::reply_message(&answer.reply);
            match context.classify_failure(run, &answer.reply).await? {
                FailureCause::Throttled => continue,
                FailureCause::Unsent => return Ok(StaleReadOutcome::Unsent(why)),
                FailureCause::Entry => {}
            }
            // A witness may cause the failure.
            if !witnesses.is_empty() {
                (witnesses, may_have_witnesses) = (Vec::new(), false);
                continue;
            }
            why
        };
        let is_set_aside = context.record_failure(READ_OPERATION, &names, &why).await?;
        return Ok(StaleReadOutcome::Failed { why, is_quarantined: is_set_aside });
    }
}
