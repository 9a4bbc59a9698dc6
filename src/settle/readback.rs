//! Reads of accepted writes, to confirm them.
//!
//! They cover zeros, stock levels without a confirmed write, a sample of the rest, and writes that an earlier
//! read did not show. Only the read is made here. Every recorded read of balances is judged in the same way,
//! so a poll that comes first serves as well.

use super::summary::Tally;
use crate::exec::balances_reader::Parts;
use crate::exec::{Context, JobError};
use crate::model::{Lane, Operation, RunId, Sku};

/// Reads every stock level that is due, many per read. Changes wait for a doubted one, so its read is as
/// urgent as a push. The other reads go behind the pushes.
pub(super) async fn run(context: &Context, run: RunId, tally: &mut Tally) -> Result<(), JobError> {
    let aside = context.aside(Operation::GetProductBalances).await?;
    let now = context.now();
    let mut due = context.store.readback_skus(now).await?;
    due.retain(|(sku, _)| aside.later(now, sku.as_str()).is_none());
    for page in due.chunks(context.settings().skus_per_call) {
        let is_doubted = page.iter().any(|(_, is_doubted)| *is_doubted);
        let lane = if is_doubted { Lane::Push } else { Lane::Poll };
        let skus: Vec<Sku> = page.iter().map(|(sku, _)| sku.clone()).collect();
        let mut parts = Parts::new(context, run, lane, &skus, skus.len());
        while parts.next_page().await?.is_some() {}
        tally.looks += parts.pages;
        let unread = parts.unread.into_iter();
        unread.for_each(|why| tally.note(format!("cannot read all cells that were written: {why}")));
        tally.is_waited_for |= is_doubted;
    }
    Ok(())
}
