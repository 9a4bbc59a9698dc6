//! Reads of stale stock levels for a push, many in one call.

use crate::client::{Verdict as Answered, wire};
use crate::exec::balances::Looked;
use crate::exec::quarantine::Failed;
use crate::exec::{Context, JobError, balances, call};
use crate::model::{ExchangeId, Lane, Operation, RunId, Sku};
use std::time::Duration;

const READ: Operation = Operation::GetProductBalances;

/// Outcome of a page.
#[derive(Debug)]
pub(super) enum Page {
    /// The page was read and recorded.
    Came {
        /// Exchange of the read.
        exchange: ExchangeId,
        /// Time from the request to the answer, which is the age of the facts.
        took: Duration,
    },
    /// Failure that one of the SKUs may cause.
    Broken {
        /// Message of the platform.
        why: String,
        /// True if the page had a single SKU, which is now quarantined.
        is_set_aside: bool,
    },
    /// No byte of the request was sent, or the failure may mean the key.
    Unsent(String),
}

/// Reads a page. Repeats the call with witnesses, or without them, where that shows more.
pub(super) async fn page(
    context: &Context,
    run: RunId,
    lane: Lane,
    (skus, mut witnesses): (Vec<Sku>, Vec<Sku>),
) -> Result<Page, JobError> {
    let names: Vec<&str> = skus.iter().map(Sku::as_str).collect();
    let mut may_have_witnesses = true;
    loop {
        let asked: Vec<Sku> = skus.iter().chain(&witnesses).cloned().collect();
        let request =
            wire::get_product_balances(&asked).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = context.read_once(run, lane, request).await?;
        let why = if answer.reply.verdict == Answered::Accepted {
            let looked = balances::balances_look(context, &answer, &asked).await;
            if looked.as_ref().is_ok_and(Looked::wants_witnesses)
                && witnesses.is_empty()
                && may_have_witnesses
            {
                witnesses = context.store.witnesses(&skus).await?;
                may_have_witnesses = false;
                if !witnesses.is_empty() {
                    continue;
                }
            }
            let shows_some = looked.as_ref().is_ok_and(Looked::shows_some);
            match looked.and_then(Looked::told) {
                Ok(()) => {
                    context.read_worked(READ, &names, shows_some).await?;
                    let took = context.moment().since(answer.sent_moment);
                    return Ok(Page::Came { exchange: answer.id, took });
                }
                Err(JobError::Implausible(why)) => why,
                Err(error) => return Err(error),
            }
        } else {
            context.end_alone(&answer).await?;
            let why = call::words(&answer.reply);
            match context.failure(run, &answer.reply).await? {
                Failed::Throttled => continue,
                Failed::Unsent => return Ok(Page::Unsent(why)),
                Failed::Entries => {}
            }
            // A witness may cause the failure.
            if !witnesses.is_empty() {
                (witnesses, may_have_witnesses) = (Vec::new(), false);
                continue;
            }
            why
        };
        let is_set_aside = context.failed(READ, &names, &why).await?;
        return Ok(Page::Broken { why, is_set_aside });
    }
}
