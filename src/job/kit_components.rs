//! `kit_components`: what each known kit is made of, those read longest ago first. Each kit is one call.
//!
//! A kit's own quantity follows from its components, so what is not known to be a kit would be pushed like a product;
//! its components are tracked from then on.

use super::tally::Tally;
use super::{Context, JobError, Report, record};
use crate::client::wire;
use crate::model::{Lane, ProductId, RunId};
use crate::store::Durability;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let mut tally = Tally::default();
    for kit in context.store.kit_ids().await? {
        let read = read_kit(context, run, Lane::Poll, kit).await;
        tally.count(format_args!("kit {kit}"), read)?;
    }
    Ok(tally.report("kit(s)", "component(s)"))
}

/// Reads one kit; how many components are new, changed or gone is returned.
pub(super) async fn read_kit(
    context: &Context,
    run: RunId,
    lane: Lane,
    kit: ProductId,
) -> Result<u64, JobError> {
    let what = format!("the components of product {kit}");
    let answer = context.read(run, lane, &what, &wire::kit_components(kit)).await?;
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
