//! Table of the platform's lists: the request, the parser and the projection of each.

use super::call::READ_ATTEMPTS;
use super::pager::{ListProgress, ListReader, ProjectPage, project_to};
use super::{JobContext, JobError};
use crate::client::wire;
use crate::model::{RunId, WarehouseId};
use crate::projection;
use crate::store::PlatformList;
use std::collections::BTreeSet;

/// Reads a list to its last page with at most `attempts` attempts at each page.
pub(crate) async fn read_list(
    attempts: usize,
    context: &JobContext,
    run: RunId,
    list: PlatformList,
) -> Result<ListProgress, JobError> {
    let reader = ListReader { attempts, context, run, list };
    match list {
        PlatformList::Warehouses => {
            let project = &project_to(list);
            reader.read_pages(wire::list_warehouses, wire::decode_warehouses, |row| row.id.0, project).await
        }
        PlatformList::Suppliers => {
            let project = &project_to(list);
            reader.read_pages(wire::list_suppliers, wire::decode_suppliers, |row| row.id.0, project).await
        }
        PlatformList::Storefronts => {
            let project = &project_to(list);
            reader.read_pages(wire::list_storefronts, wire::decode_storefronts, |row| row.id.0, project).await
        }
        PlatformList::Templates(storefront) => {
            let request = |paging| wire::list_listing_templates(storefront, None, paging);
            let decode = |body: &_| wire::decode_listing_templates(body, storefront);
            reader.read_pages(request, decode, |row| row.id, &project_to(list)).await
        }
        PlatformList::ShipmentItems(shipment) => {
            let request = |paging| wire::shipment_line_items(shipment, paging);
            let project: &ProjectPage<_> = &move |(write, answer, page)| {
                let (id, sent_at) = (answer.id, answer.sent_at);
                Box::pin(projection::project_shipment_items(write, id, sent_at, shipment, page))
            };
            let decode = |body: &_| wire::decode_shipment_line_items(body, shipment);
            reader.read_pages(request, decode, |row| row.id.0, project).await
        }
        PlatformList::HealthMonths => {
            let request = |paging| wire::business_health(None, paging);
            let project: &ProjectPage<_> = &|(write, answer, page)| {
                Box::pin(projection::project_business_health(write, answer.id, answer.sent_at, page))
            };
            let id = |row: &wire::HealthMonth| row.year * 100 + row.month;
            reader.read_pages(request, wire::decode_business_health, id, project).await
        }
    }
}

/// Reads the warehouses. Returns their ids if the list came whole and every record is readable.
pub(crate) async fn read_warehouse_ids(
    context: &JobContext,
    run: RunId,
) -> Result<Option<BTreeSet<WarehouseId>>, JobError> {
    let listed = read_list(READ_ATTEMPTS, context, run, PlatformList::Warehouses).await?.into_whole_ids();
    Ok(listed.map(|ids| ids.into_iter().map(WarehouseId).collect()))
}
