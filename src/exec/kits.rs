//! Read of the components of one kit, for the poll and an operator.

use super::JobError;
use super::reads::ReadOrigin;
use crate::client::wire;
use crate::model::ProductId;
use crate::projection;

/// Reads one kit. Returns the number of new, changed or removed components.
pub(crate) async fn read_kit(
    origin: ReadOrigin<'_>,
    attempts: usize,
    kit: ProductId,
) -> Result<u64, JobError> {
    let what = format!("the components of product {kit}");
    let (request, decode) = (wire::kit_components(kit), wire::decode_kit_components);
    let context = origin.context;
    let (answer, components) = origin.read_decoded(attempts, &what, &request, decode).await?;
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
