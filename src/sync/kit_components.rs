//! `kit_components`: the components of each known kit, least recently read first. Each kit is one call.
//!
//! A kit's quantity follows from its components, so a kit not known as such would be pushed like a product.
//! Components are tracked once known. The platform refuses a product that is no kit with a 403, and its
//! changes then continue: a push makes this call itself before it rejects a change for a kit
//! (`push/kits.rs`).

use super::entry_reads::{EntryResult, JobEntry, read_each};
use crate::exec::kits::read_kit;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{Lane, Operation, ProductId, RunId};

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let kits = context.store.kit_ids().await?;
    Ok(read_each(context, run, kits).await?.run_report("kit(s)", "component(s)"))
}

impl JobEntry for ProductId {
    const OPERATION: Operation = Operation::KitComponents;
    const NOUN: &'static str = "kit";

    async fn read(self, context: &JobContext, run: RunId, attempts: usize) -> Result<EntryResult, JobError> {
        Ok(read_kit(attempts, context, run, Lane::Poll, self).await?.into())
    }
}
