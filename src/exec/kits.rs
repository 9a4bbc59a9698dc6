//! Read of the components of one kit, for the poll, the push and an operator.

use super::reads::ReadOrigin;
use super::{JobContext, JobError};
use crate::client::wire;
use crate::model::{Lane, ProductId, RunId};
use crate::projection;
use crate::store::Durability;
use crate::telemetry::event;

/// Reads one kit. Returns the number of new, changed or removed components.
pub(crate) async fn read_kit(
    attempts: usize,
    context: &JobContext,
    run: RunId,
    lane: Lane,
    kit: ProductId,
) -> Result<u64, JobError> {
    let what = format!("the components of product {kit}");
    let (request, decode) = (wire::kit_components(kit), wire::decode_kit_components);
    let origin = ReadOrigin { context, run, lane };
    let read = origin.read_decoded(attempts, &what, &request, decode).await;
    let (answer, components) = match read {
        // With a working key, a 403 means that the product is no kit, or no longer one.
        Err(refusal @ JobError::Rejected { status: Some(403), .. }) => {
            return deny_kit(context, run, kit, refusal).await;
        }
        read => read?,
    };
    let known = context.store.kit_components(kit).await?.len();
    if components.records.is_empty() && known > 0 {
        context.exchange_end_ignored(&answer).await?;
        let why = format!("the platform returned no components, but {known} were known");
        return Err(JobError::Implausible(why));
    }
    let mut write = context.begin_recording(&answer).await?;
    let changed =
        projection::project_kit_components(&mut write, answer.id, answer.sent_at, kit, &components).await?;
    write.commit().await?;
    Ok(changed)
}

/// Removes the kit flag of a product. Returns the refusal if there was no flag.
async fn deny_kit(
    context: &JobContext,
    run: RunId,
    kit: ProductId,
    refusal: JobError,
) -> Result<u64, JobError> {
    let Some(exchange) = context.store.kit_last_exchange(run, kit).await? else {
        return Err(refusal);
    };
    let mut write = context.store.begin_write(Durability::Normal).await?;
    let was_kit = write.kit_deny(exchange, kit, context.now()).await?;
    write.commit().await?;
    if was_kit {
        tracing::info!(
            event = event::KIT_DENIED,
            product = kit.0,
            "product {kit} is no kit: {refusal}; its quantities are written from now on"
        );
        return Ok(1);
    }
    Err(refusal)
}
