//! Reading before their turn: with calls nobody needs, the SKUs whose facts are worth most between two passes of
//! [`super::balances`] ([`crate::schedule::attention`]).
//!
//! The daemon asks each minute, whatever schedules are configured. A look costs nothing while the quota is busy: half of
//! it must be free and no bulk call wait. It is never instead of a pass, each of which reads every SKU older than its
//! start, and says nothing about the age of the job's data: its run is journalled and moves no *last good*.
//!
//! A call that is made anyway is made full: what its page has room for beside them are the stalest SKUs.
//!
//! Orders that somebody named are read between the passes too ([`read_asked`]).

use super::{Context, Finished, JobError, Report, order_lines, record, runner};
use crate::client::{Verdict, wire};
use crate::model::{JobKind, Lane, Operation, RunId, Sku, Timestamp, Trigger};
use crate::schedule::attention::{Candidate, pick};
use crate::store::{EarlyRow, Stalest, StoreError};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often the daemon asks: facts younger than this are not read early, so asking more often brings nothing.
pub const EARLY_LOOK: Duration = Duration::from_secs(60);
/// So far back moves are looked at.
const MOVES_SINCE: Duration = Duration::from_secs(4 * 60 * 60);
/// Pages of one look: with the packaged page size 800 SKUs, for one call in thirty of the quota.
const PAGES_MAX: usize = 4;
/// Named orders that are read at a time between the passes, which wait for them.
const BETWEEN_MAX: usize = 25;

/// Reads what is worth it, if there is room; none where there was nothing to do, and then nothing is journalled.
pub async fn read_early(context: &Context) -> Result<Option<Finished>, StoreError> {
    let (kind, trigger) = (JobKind::Balances, Trigger::Outbox);
    let _turn = context.turn(kind).await;
    let pages = if context.limiter.budget().has_room() { pages(context).await? } else { Vec::new() };
    if pages.is_empty() {
        return Ok(None);
    }
    let work = async |run| {
        let read = read(context, run, pages).await?;
        Ok(Report::ok(format!("{read} SKU(s) were read before their turn")))
    };
    runner::run_beside(context, kind, trigger, None, work).await.map(Some)
}

/// Reads orders that somebody named, a few at a time; none where nobody named one, and then nothing is journalled.
pub async fn read_asked(context: &Context) -> Result<Option<Finished>, StoreError> {
    let (kind, trigger) = (JobKind::OrderLines, Trigger::Outbox);
    let _turn = context.turn(kind).await;
    if !order_lines::is_asked(context).await? {
        return Ok(None);
    }
    let named = json!({"named": BETWEEN_MAX});
    let work = async |run| order_lines::read_named(context, run, BETWEEN_MAX).await;
    runner::run_beside(context, kind, trigger, Some(&named), work).await.map(Some)
}

/// The pages worth reading now, the most worth first.
async fn pages(context: &Context) -> Result<Vec<Vec<Sku>>, StoreError> {
    let now = context.now();
    let configured = context.settings().skus_per_call;
    // Where the service takes less than is configured, no more is tried here.
    let size = context.store.page_size(configured).await?.unwrap_or(configured).min(configured);
    let mut rows = context.store.early_list(now.minus(MOVES_SINCE)).await?;
    let aside = context.aside(Operation::GetProductBalances).await?;
    rows.retain(|row| !aside.contains(row.sku.as_str()));
    let candidate = |row: &EarlyRow| Candidate {
        moves: row.moves,
        near_zero: row.near_zero,
        age: now.since(Timestamp(row.observed_ms)),
    };
    let candidates: Vec<Candidate> = rows.iter().map(candidate).collect();
    let picked = pick(&candidates, size * PAGES_MAX).into_iter().map(|place| rows[place].sku.as_str());
    let mut skus: Vec<Sku> = picked.filter_map(|sku| Sku::new(sku).ok()).collect();
    let room = skus.len().next_multiple_of(size) - skus.len();
    if room > 0 {
        let known: BTreeSet<Sku> = skus.iter().cloned().collect();
        let (before, limit) = (context.store.position().await?, u32::try_from(size).unwrap_or(u32::MAX));
        let stalest = context.store.tracked_sku_stalest(before, &mut Stalest::default(), limit).await?;
        let stalest = stalest.into_iter().filter_map(|sku| Sku::new(sku).ok());
        let is_new = |sku: &Sku| !known.contains(sku) && !aside.contains(sku.as_str());
        skus.extend(stalest.filter(is_new).take(room));
    }
    Ok(skus.chunks(size).map(<[Sku]>::to_vec).collect())
}

/// Reads page after page while there is room; how many SKUs that were is returned. One that fails ends it: the next pass
/// reads them all the same.
async fn read(context: &Context, run: RunId, pages: Vec<Vec<Sku>>) -> Result<usize, JobError> {
    let mut read = 0;
    for page in pages {
        if !context.limiter.budget().has_room() {
            break;
        }
        let request =
            wire::get_product_balances(&page).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = context.read_once(run, Lane::Poll, request).await?;
        if answer.reply.verdict != Verdict::Accepted {
            context.end_alone(&answer).await?;
            context.give_up_if_hopeless(run, "balances before their turn", &answer.reply).await?;
            break;
        }
        record::balances_page(context, &answer, &page).await?;
        read += page.len();
    }
    Ok(read)
}
