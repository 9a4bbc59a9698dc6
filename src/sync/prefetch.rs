//! Prefetch: reads of SKUs between two passes of [`super::balances`], with spare calls.
//!
//! The daemon calls the prefetch each minute, independent of the schedules. It reads the SKUs that were read longest
//! ago, if half of the quota is free and no bulk call waits. It replaces no pass: each pass reads every SKU read before
//! its start. Its run is journalled but is no pass, so it does not affect the age of the job's data.
//!
//! Orders that an operator named are read between the passes too ([`read_named_orders`]).

use super::{balances, order_lines};
use crate::exec::{FinishedRun, JobContext, RunEnd, run};
use crate::model::{JobKind, Operation, RunTrigger, Sku};
use crate::store::{Durability, StalestProgress, StoreError};
use serde_json::json;
use std::time::Duration;

/// Interval of prefetches.
pub(crate) const PREFETCH_INTERVAL: Duration = Duration::from_secs(60);
/// Limit of pages per prefetch.
const PAGES_MAX: usize = 4;
/// Limit of named orders per run between the passes, because the passes wait for it.
const NAMED_ORDERS_MAX: usize = 25;

const BESIDE: RunEnd = RunEnd::Beside(Durability::Normal);

/// Prefetches if the quota allows it. Returns `None`, and journals no run, if there was nothing to read.
pub(crate) async fn prefetch_balances(context: &JobContext) -> Result<Option<FinishedRun>, StoreError> {
    let (kind, trigger) = (JobKind::Balances, RunTrigger::Outbox);
    let _turn = context.lock_job(kind).await;
    let has_spare_calls = context.limiter.quota_usage().has_spare_calls();
    let skus = if has_spare_calls { stalest_skus(context).await? } else { Vec::new() };
    if skus.is_empty() {
        return Ok(None);
    }
    let work = async |run| balances::run(context, run, &skus).await;
    run::run_logged(context, (kind, trigger), BESIDE, None, work).await.map(Some)
}

/// Reads some of the named orders. Returns `None`, and journals no run, if no order is named.
pub(crate) async fn read_named_orders(context: &JobContext) -> Result<Option<FinishedRun>, StoreError> {
    let (kind, trigger) = (JobKind::OrderLines, RunTrigger::Outbox);
    let _turn = context.lock_job(kind).await;
    if !order_lines::has_named_order(context).await? {
        return Ok(None);
    }
    let named = json!({"named": NAMED_ORDERS_MAX});
    let work = async |run| order_lines::read_named(context, run, NAMED_ORDERS_MAX).await;
    run::run_logged(context, (kind, trigger), BESIDE, Some(&named), work).await.map(Some)
}

/// Returns the SKUs that were read longest ago, up to [`PAGES_MAX`] pages, without the quarantined ones.
async fn stalest_skus(context: &JobContext) -> Result<Vec<Sku>, StoreError> {
    let (quarantine, operation) = (context.quarantine().await?, Operation::GetProductBalances);
    let (mut progress, before) = (StalestProgress::default(), context.store.journal_position().await?);
    let most = u32::try_from(context.page_skus().saturating_mul(PAGES_MAX)).unwrap_or(u32::MAX);
    let stalest = context.store.tracked_sku_stalest(before, &mut progress, most).await?;
    let skus = stalest.into_iter().filter_map(|sku| Sku::new(sku).ok());
    Ok(skus.filter(|sku| !quarantine.contains(operation, sku.as_str())).collect())
}
