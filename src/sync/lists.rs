//! The jobs that read lists: `warehouses`, `suppliers`, `storefronts`, and the lists of one entry each.
//!
//! `listing_templates` reads the templates of each listed storefront. `shipments` reads the items of known
//! shipments that are not yet wholly shipped and confirmed. The platform does not list shipments. Only those
//! that tallyd created or an operator adopted are known. Others show only as a smaller remainder of the
//! order's lines.
//!
//! `kit_components` reads the components of each known kit, least recently read first. Components are tracked
//! once known.

use super::entry_reads::{EntryResult, JobEntry, read_each};
use crate::exec::kits::read_kit;
use crate::exec::lists::read_list;
use crate::exec::reads::{READ_ATTEMPTS, ReadOrigin};
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{Lane, Operation, ProductId, RunId, ShipmentId, StorefrontId};
use crate::store::PlatformList;

/// Reads a whole list; `noun` as in "3 suppliers".
pub(crate) async fn run(
    context: &JobContext,
    run: RunId,
    list: PlatformList,
    noun: &str,
) -> Result<RunReport, JobError> {
    let origin = ReadOrigin { context, run, lane: Lane::Poll };
    Ok(read_list(READ_ATTEMPTS, origin, list).await?.run_report(noun))
}

pub(crate) async fn run_templates(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let storefronts = context.store.storefront_ids().await?;
    Ok(read_each(context, run, storefronts).await?.run_report("storefront", "template"))
}

impl JobEntry for StorefrontId {
    const OPERATION: Operation = Operation::ListListingTemplates;
    const NOUN: &'static str = "storefront";

    async fn read(self, origin: ReadOrigin<'_>, attempts: usize) -> Result<EntryResult, JobError> {
        Ok(read_list(attempts, origin, PlatformList::Templates(self)).await?.into())
    }
}

pub(crate) async fn run_shipments(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let due = context.store.shipment_due(context.now()).await?;
    Ok(read_each(context, run, due).await?.run_report("shipment", "item"))
}

impl JobEntry for ShipmentId {
    const OPERATION: Operation = Operation::ShipmentLineItems;
    const NOUN: &'static str = "shipment";

    async fn read(self, origin: ReadOrigin<'_>, attempts: usize) -> Result<EntryResult, JobError> {
        Ok(read_list(attempts, origin, PlatformList::ShipmentItems(self)).await?.into())
    }
}

pub(crate) async fn run_kit_components(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let kits = context.store.kit_ids().await?;
    Ok(read_each(context, run, kits).await?.run_report("kit", "component"))
}

impl JobEntry for ProductId {
    const OPERATION: Operation = Operation::KitComponents;
    const NOUN: &'static str = "kit";

    async fn read(self, origin: ReadOrigin<'_>, attempts: usize) -> Result<EntryResult, JobError> {
        Ok(read_kit(origin, attempts, self).await?.into())
    }
}
