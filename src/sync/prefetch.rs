//! Prefetch: reads of SKUs between two passes of [`super::balances`], with spare calls.
//!
//! [`crate::schedule::refresh_priority`] chooses the SKUs for which a fresh fact is worth most. The daemon
//! calls the prefetch each minute, independent of the schedules. It reads only if half of the quota is free
//! and no bulk call waits. It replaces no pass: each pass reads every SKU read before its start. Its run is
//! journalled but is no pass, so it does not affect the age of the job's data.
//!
//! Free places of a page are filled with the SKUs that were read longest ago.
//!
//! Orders that an operator named are read between the passes too ([`read_named_orders`]).

use super::order_lines;
use crate::client::{Verdict, wire};
use crate::exec::{FinishedRun, JobContext, JobError, RunReport, balances, run};
use crate::model::{JobKind, Lane, Operation, RunId, RunTrigger, Sku, Timestamp, counted};
use crate::schedule::refresh_priority::{PrefetchCandidate, pick_candidates};
use crate::store::{PrefetchRow, StalestProgress, StoreError};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// Interval of prefetches. Facts younger than this are not read again, so a shorter interval would bring
/// nothing.
pub const PREFETCH_INTERVAL: Duration = Duration::from_secs(60);
const MOVES_PERIOD: Duration = Duration::from_secs(4 * 60 * 60);
/// Limit of pages per prefetch. With the packaged page size this is 800 SKUs, for one call in thirty of the
/// quota.
const PAGES_MAX: usize = 4;
/// Limit of named orders per run between the passes, because the passes wait for it.
const NAMED_ORDERS_MAX: usize = 25;

/// Prefetches if the quota allows it. Returns `None`, and journals no run, if there was nothing to read.
pub async fn prefetch_balances(context: &JobContext) -> Result<Option<FinishedRun>, StoreError> {
    let (kind, trigger) = (JobKind::Balances, RunTrigger::Outbox);
    let _turn = context.lock_job(kind).await;
    let has_spare_calls = context.limiter.quota_usage().has_spare_calls();
    let pages = if has_spare_calls { prefetch_pages(context).await? } else { Vec::new() };
    if pages.is_empty() {
        return Ok(None);
    }
    let work = async |run| {
        let (read, changed) = read_pages(context, run, pages).await?;
        let (skus, levels) = (counted(read, "SKU"), counted(changed, "stock level"));
        let summary = format!("{skus} prefetched, {levels} new or changed");
        Ok(RunReport::ok(summary).with_effect(changed > 0))
    };
    run::run_beside(context, kind, trigger, None, work).await.map(Some)
}

/// Reads some of the named orders. Returns `None`, and journals no run, if no order is named.
pub async fn read_named_orders(context: &JobContext) -> Result<Option<FinishedRun>, StoreError> {
    let (kind, trigger) = (JobKind::OrderLines, RunTrigger::Outbox);
    let _turn = context.lock_job(kind).await;
    if !order_lines::has_named_order(context).await? {
        return Ok(None);
    }
    let named = json!({"named": NAMED_ORDERS_MAX});
    let work = async |run| order_lines::read_named(context, run, NAMED_ORDERS_MAX).await;
    run::run_beside(context, kind, trigger, Some(&named), work).await.map(Some)
}

/// Returns the pages worth reading now, the most valuable first.
async fn prefetch_pages(context: &JobContext) -> Result<Vec<Vec<Sku>>, StoreError> {
    let now = context.now();
    let configured = context.settings().skus_per_call;
    // If the platform takes smaller pages than configured, larger ones are not tried here.
    let size = context.store.page_size(configured).await?.unwrap_or(configured).min(configured);
    let mut rows = context.store.prefetch_list(now.minus(MOVES_PERIOD)).await?;
    let quarantined = context.quarantined_entries(Operation::GetProductBalances).await?;
    rows.retain(|row| !quarantined.contains(row.sku.as_str()));
    let candidate = |row: &PrefetchRow| PrefetchCandidate {
        movements: u32::try_from(row.history_entries).unwrap_or(u32::MAX),
        near_zero: row.is_near_zero,
        age: now.duration_since(Timestamp(row.observed_ms)),
    };
    let candidates: Vec<PrefetchCandidate> = rows.iter().map(candidate).collect();
    let picked =
        pick_candidates(&candidates, size * PAGES_MAX).into_iter().map(|index| rows[index].sku.as_str());
    let mut skus: Vec<Sku> = picked.filter_map(|sku| Sku::new(sku).ok()).collect();
    let room = skus.len().next_multiple_of(size) - skus.len();
    if room > 0 {
        let known: BTreeSet<Sku> = skus.iter().cloned().collect();
        let (before, limit) = (context.store.journal_position().await?, u32::try_from(size));
        let (mut progress, limit) = (StalestProgress::default(), limit.unwrap_or(u32::MAX));
        let stalest = context.store.tracked_sku_stalest(before, &mut progress, limit).await?;
        let stalest = stalest.into_iter().filter_map(|sku| Sku::new(sku).ok());
        let is_new = |sku: &Sku| !known.contains(sku) && !quarantined.contains(sku.as_str());
        skus.extend(stalest.filter(is_new).take(room));
    }
    Ok(skus.chunks(size).map(<[Sku]>::to_vec).collect())
}

/// Reads page after page while the quota allows it. Returns the number of SKUs read, and of stock levels new or
/// changed. A failure ends it, because the next pass reads the same SKUs.
async fn read_pages(
    context: &JobContext,
    run: RunId,
    pages: Vec<Vec<Sku>>,
) -> Result<(usize, u64), JobError> {
    let (mut read, mut changed) = (0, 0);
    for page in pages {
        if !context.limiter.quota_usage().has_spare_calls() {
            break;
        }
        let request = wire::get_product_balances(&page)?;
        let answer = context.read_once(run, Lane::Poll, request).await?;
        if answer.reply.verdict != Verdict::Accepted {
            context.exchange_end_ignored(&answer).await?;
            context.fail_if_permanent(run, "prefetched balances", &answer.reply).await?;
            break;
        }
        let recorded = balances::record_balances(context, &answer, &page).await?.into_recorded()?;
        read += page.len();
        changed += recorded.stock_levels_changed;
    }
    Ok((read, changed))
}
