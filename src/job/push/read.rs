//! Reading the cells of a push whose facts are missing or too old for a write, many in one call.

use crate::client::{Verdict as Answered, wire};
use crate::job::{Context, JobError, call, record};
use crate::model::{ExchangeId, Lane, RunId, Sku};
use crate::outbox::Delays;
use std::time::Duration;

/// A page that was read.
#[derive(Debug)]
pub(super) struct Page {
    /// The exchange that brought it.
    pub(super) exchange: ExchangeId,
    /// What it holds: where the service could not give it all, the first of what was asked for.
    pub(super) skus: Vec<Sku>,
    /// From the request to the answer: so old are the facts already.
    pub(super) took: Duration,
}

/// Reads one page, halving it where it is too much for the service.
pub(super) async fn page(
    context: &Context,
    run: RunId,
    lane: Lane,
    mut skus: Vec<Sku>,
) -> Result<Page, JobError> {
    let mut delays = Delays::page_retry().take(call::ATTEMPTS);
    let mut has_witnesses = false;
    loop {
        let request =
            wire::get_product_balances(&skus).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = context.read_once(run, lane, request).await?;
        match answer.reply.verdict {
            Answered::Accepted => {
                let looked = record::balances_look(context, &answer, &skus).await?;
                if !has_witnesses && looked.wants_witnesses() {
                    has_witnesses = true;
                    let witnesses = context.store.witnesses(&skus).await?;
                    if !witnesses.is_empty() {
                        skus.extend(witnesses);
                        continue;
                    }
                }
                looked.told()?;
                let took = context.moment().since(answer.sent_moment);
                return Ok(Page { exchange: answer.id, took, skus });
            }
            Answered::Throttled(_) => context.end_alone(&answer).await?,
            Answered::Rejected { .. }
            | Answered::Refused { .. }
            | Answered::Transient
            | Answered::NotSent
            | Answered::InDoubt => {
                context.end_alone(&answer).await?;
                context.give_up_if_hopeless(run, "balances before a push", &answer.reply).await?;
                if answer.reply.wants_smaller_page() {
                    skus.truncate((skus.len() / 2).max(1));
                }
                let why = call::words(&answer.reply);
                let what = "balances before a push".to_owned();
                let delay = delays.next().ok_or(JobError::GivenUp { what, why })?;
                context.pause(delay).await?;
            }
        }
    }
}
