//! Table of the platform's lists: the request, the parser and the projection of each.

use super::JobError;
use super::pager::{ListProgress, PagedList};
use super::reads::ReadOrigin;
use crate::client::wire::{self, HealthMonth, ListingTemplate, ShipmentItem, Warehouse};
use crate::model::{ShipmentId, StorefrontId};
use crate::projection;
use crate::store::PlatformList;

/// Reads a list to its last page with at most `attempts` attempts at each page.
pub(crate) async fn read_list(
    attempts: usize,
    origin: ReadOrigin<'_>,
    list: PlatformList,
) -> Result<ListProgress, JobError> {
    let progress = match list {
        PlatformList::Warehouses => {
            warehouses().with_record_facts().read_pages(origin, attempts, false).await?.1
        }
        PlatformList::Suppliers => {
            let list = PagedList::new(list, wire::list_suppliers, wire::decode_suppliers, |row| row.id.0);
            list.with_record_facts().read_pages(origin, attempts, false).await?.1
        }
        PlatformList::Storefronts => {
            let list = PagedList::new(list, wire::list_storefronts, wire::decode_storefronts, |row| row.id.0);
            list.with_record_facts().read_pages(origin, attempts, false).await?.1
        }
        PlatformList::Templates(of) => {
            templates(of, None).with_record_facts().read_pages(origin, attempts, false).await?.1
        }
        PlatformList::ShipmentItems(of) => shipment_items(of).read_pages(origin, attempts, false).await?.1,
        PlatformList::HealthMonths => {
            let request = |paging| wire::business_health(None, paging);
            let id = |row: &HealthMonth| row.year * 100 + row.month;
            let list = PagedList::new(list, request, wire::decode_business_health, id);
            let list = list.with_facts(|(write, answer, page)| {
                Box::pin(projection::project_business_health(write, answer.id, answer.sent_at, page))
            });
            list.read_pages(origin, attempts, false).await?.1
        }
    };
    progress.require_some(list)
}

pub(crate) fn warehouses() -> PagedList<Warehouse> {
    PagedList::new(PlatformList::Warehouses, wire::list_warehouses, wire::decode_warehouses, |row| row.id.0)
}

pub(super) fn shipment_items(shipment: ShipmentId) -> PagedList<ShipmentItem> {
    let request = move |paging| wire::shipment_line_items(shipment, paging);
    let decode = move |body: &_| wire::decode_shipment_line_items(body, shipment);
    PagedList::new(PlatformList::ShipmentItems(shipment), request, decode, |row| row.id.0).with_facts(
        move |(write, answer, page)| {
            let (id, sent_at) = (answer.id, answer.sent_at);
            Box::pin(projection::project_shipment_items(write, id, sent_at, shipment, page))
        },
    )
}

/// Returns the storefront's templates, with `name` only those whose name contains it.
pub(super) fn templates(storefront: StorefrontId, name: Option<String>) -> PagedList<ListingTemplate> {
    let request = move |paging| wire::list_listing_templates(storefront, name.as_deref(), paging);
    let decode = move |body: &_| wire::decode_listing_templates(body, storefront);
    PagedList::new(PlatformList::Templates(storefront), request, decode, |row| row.id)
}
