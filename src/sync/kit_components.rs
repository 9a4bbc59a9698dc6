//! `kit_components`: the components of each known kit, least recently read first. Each kit is one call.
//!
//! A kit's quantity follows from its components, so a kit not known as such would be pushed like a product.
//! Components are tracked once known. The platform refuses a product that is no kit with a 403, and its
//! changes then continue: a push makes this call itself before it rejects a change for a kit
//! (`push/kits.rs`).

use super::entry_reads::{self, Asks, Came};
use crate::exec::kits::read_kit;
use crate::exec::{Context, JobError, Report};
use crate::model::{Lane, Operation, ProductId, RunId};

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let kits = context.store.kit_ids().await?;
    let tally = entry_reads::each(context, Kits { context, run }, kits).await?;
    Ok(tally.report("kit(s)", "component(s)"))
}

/// *Get kit components*.
struct Kits<'a> {
    context: &'a Context,
    run: RunId,
}

impl Asks for Kits<'_> {
    type Entry = ProductId;
    const OPERATION: Operation = Operation::KitComponents;

    async fn ask(&self, kit: ProductId, attempts: usize) -> Result<Came, JobError> {
        Ok(read_kit(attempts, self.context, self.run, Lane::Poll, kit).await?.into())
    }
}
