//! `kit_components`: what each known kit is made of, those read longest ago first. Each kit is one call.
//!
//! A kit's own quantity follows from its components, so what is not known to be a kit would be pushed like a product;
//! its components are tracked from then on.

use super::aside::{Asks, Came};
use super::{Context, JobError, Report, aside, record};
use crate::client::wire;
use crate::model::{Lane, Operation, ProductId, RunId};
use crate::store::Durability;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let kits = context.store.kit_ids().await?;
    let tally = aside::each(context, Kits { context, run }, kits).await?;
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

/// Reads one kit; how many components are new, changed or gone is returned.
pub(super) async fn read_kit(
    attempts: usize,
    context: &Context,
    run: RunId,
    lane: Lane,
    kit: ProductId,
) -> Result<u64, JobError> {
    let what = format!("the components of product {kit}");
    let answer = context.read_within(attempts, run, lane, &what, &wire::kit_components(kit)).await?;
    let components = context.decoded(&answer, wire::decode_kit_components(&answer.reply.body)).await?;
    let known = context.store.kit_components(kit).await?.len();
    if components.records.is_empty() && known > 0 {
        context.end_alone(&answer).await?;
        let why = format!("the service names none of its components, but {known} were known");
        return Err(JobError::Implausible(why));
    }
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    let changed = record::kit_components(&mut write, answer.id, answer.sent_at, kit, &components).await?;
    write.commit().await?;
    Ok(changed)
}
