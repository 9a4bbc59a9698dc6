//! Reads of accepted writes, to confirm them.
//!
//! They cover zeros, stock levels without a confirmed write, a sample of the rest, and writes that an earlier
//! read did not show. Only the read is made here. Every recorded read of balances is judged in the same way,
//! so a poll that comes first serves as well.

use super::summary::SettleSummary;
use crate::exec::balances_reader::BalancesReader;
use crate::exec::preflight::ReadOrigin;
use crate::exec::{JobContext, JobError};
use crate::model::{Lane, Operation, RunId, Sku};

/// Reads every stock level that is due, many per read. Changes wait for a doubted one, so its read is as
/// urgent as a push. The other reads go behind the pushes.
pub(super) async fn run(
    context: &JobContext,
    run: RunId,
    summary: &mut SettleSummary,
) -> Result<(), JobError> {
    let quarantined = context.quarantined_entries(Operation::GetProductBalances).await?;
    let now = context.now();
    let mut due = context.store.readback_skus(now).await?;
    due.retain(|(sku, _)| quarantined.retry_at(now, sku.as_str()).is_none());
    for page in due.chunks(context.settings().skus_per_call) {
        let is_doubted = page.iter().any(|(_, is_doubted)| *is_doubted);
        let lane = if is_doubted { Lane::Push } else { Lane::Poll };
        let skus: Vec<Sku> = page.iter().map(|(sku, _)| sku.clone()).collect();
        let reader = BalancesReader::new(ReadOrigin { context, run, lane }, &skus, skus.len());
        summary.note_pages(reader.read_all().await?, "that were written");
        summary.may_unblock |= is_doubted;
    }
    Ok(())
}
