//! Accepted writes are looked for: zeros, cells that never followed yet, a sample of the rest, and whatever a read did
//! not show.
//!
//! Only the read is made here. What it is worth is judged where every read of balances is recorded, so that a poll that
//! comes first does as well.

use super::look::noted;
use super::tally::Tally;
use crate::job::{Context, JobError, vouch};
use crate::model::{Lane, RunId, Sku};

/// Looks at every cell that is due, many in one read.
pub(super) async fn run(context: &Context, run: RunId, tally: &mut Tally) -> Result<(), JobError> {
    let due = context.store.readback_skus(context.now()).await?;
    for page in due.chunks(context.settings().skus_per_call) {
        noted(at(context, run, page).await, tally)?;
        tally.is_waited_for |= page.iter().any(|(_, is_doubted)| *is_doubted);
    }
    Ok(())
}

/// Wishes wait for a cell in doubt; the proof of the others goes behind the pushes.
async fn at(context: &Context, run: RunId, page: &[(Sku, bool)]) -> Result<u64, JobError> {
    let lane = if page.iter().any(|(_, is_doubted)| *is_doubted) { Lane::Push } else { Lane::Poll };
    let skus: Vec<Sku> = page.iter().map(|(sku, _)| sku.clone()).collect();
    vouch::balances(context, run, lane, "the cells that were written", &skus).await?;
    Ok(1)
}
