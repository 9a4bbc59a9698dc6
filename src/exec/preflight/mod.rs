//! Reads of the platform for preflights and for the checks of changes in doubt.
//!
//! Each read is recorded like any other. Its result has the time of its request, which is the age of the
//! facts.

mod creates;

use super::pager::{PagedList, unreadable_part};
use super::reads::{PREFLIGHT_ATTEMPTS, ReadOrigin, TimedRead};
use super::{JobError, lists};
use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, ProductKey};
use crate::model::{Operation, OrderId, OrderLine, ShipmentId, Sku, StorefrontId};
use crate::projection;
use crate::reconcile::product_update::{self, ShownFields};
use crate::reconcile::shipments::OrderSnapshot;
use crate::reconcile::tracking::ItemFact;

/// Reads and records the lines of an order. Fails if lines came and none of them is readable.
pub(crate) async fn read_order(
    origin: ReadOrigin<'_>,
    order: OrderId,
) -> Result<TimedRead<OrderSnapshot>, JobError> {
    let context = origin.context;
    let what = format!("the lines of order {order}");
    let request = wire::get_order_line_items(order);
    let decode = |body: &_| wire::decode_order_line_items(body, order);
    let read = origin.read_decoded(PREFLIGHT_ATTEMPTS, &what, &request, decode).await;
    let (answer, decoded) = origin.count_entry(request.operation, &order.to_string(), read).await?;
    let mut write = context.begin_recording(&answer).await?;
    projection::project_order_lines(&mut write, answer.id, answer.sent_at, order, &decoded).await?;
    write.commit().await?;
    let lines: Vec<OrderLine> = decoded.records.iter().map(|item| item.to_order_line(order)).collect();
    if lines.is_empty() {
        require_readable(&what, &decoded)?;
    }
    let has_unreadable = !decoded.parked.is_empty();
    let is_complete = !decoded.has_more() && !decoded.counts_more_than(lines.len() + decoded.parked.len());
    Ok(TimedRead::from_answer(&answer, OrderSnapshot { lines, has_unreadable, is_complete }))
}

/// Reads and records the items of a shipment, all pages. Fails if an item is unreadable, because a tracking
/// number must not go to a part of a shipment only.
pub(crate) async fn read_shipment(
    origin: ReadOrigin<'_>,
    shipment: ShipmentId,
) -> Result<TimedRead<Vec<wire::ShipmentItem>>, JobError> {
    let (list, entry) = (lists::shipment_items(shipment), shipment.to_string());
    let read = Box::pin(list.read_pages(origin, PREFLIGHT_ATTEMPTS, true)).await;
    let (items, progress) = origin.count_entry(Operation::ShipmentLineItems, &entry, read).await?;
    progress.require_all(list.list)?;
    Ok(items)
}

pub(crate) fn tracking_items(items: &[wire::ShipmentItem]) -> Vec<ItemFact> {
    let item = |item: &wire::ShipmentItem| ItemFact {
        item_id: item.id,
        line_item_id: Some(item.line_item_id),
        is_shipped: item.is_shipped().unwrap_or(false),
        tracking_number: item.tracking_number.clone(),
    };
    items.iter().map(item).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct LookupProduct {
    pub(crate) id: i64,
    pub(crate) sku: Sku,
    pub(crate) total_units: Option<i64>,
    pub(in crate::exec) is_linked: bool,
    /// All other fields that the lookup shows.
    pub(crate) shown_fields: ShownFields,
}

/// Returns the product's fields other than quantities.
pub(crate) fn shown_fields(product: &wire::ProductBalance<'_>) -> ShownFields {
    let mut fields = vec![
        (product_update::SKU_FIELD.to_owned(), Some(product.sku.to_string())),
        (product_update::UPC_FIELD.to_owned(), product.upc.as_deref().map(|upc| upc.trim().to_owned())),
    ];
    for link in &product.warehouses {
        let is_active = link.is_active.map(|is_active| is_active.to_string());
        fields.push((product_update::link_active_field(link.warehouse_id), is_active));
        let sku = link.warehouse_sku.as_deref().map(|sku| sku.trim().to_owned());
        fields.push((product_update::link_sku_field(link.warehouse_id), sku));
    }
    let answer =
        |(name, value): (String, Option<String>)| Some((name, value.filter(|value| !value.is_empty())?));
    fields.into_iter().filter_map(answer).collect()
}

pub(super) fn products_request(skus: &[Sku]) -> PlatformRequest {
    let ids: Vec<String> = skus.iter().map(ToString::to_string).collect();
    wire::get_products(ProductKey::Sku, &ids)
}

pub(crate) async fn read_products(
    origin: ReadOrigin<'_>,
    skus: &[Sku],
) -> Result<TimedRead<Vec<LookupProduct>>, JobError> {
    let context = origin.context;
    let request = products_request(skus);
    let answer = origin.read_within(PREFLIGHT_ATTEMPTS, "the products by SKU", &request).await?;
    let decoded = context.decode_or_ignore(&answer, wire::decode_products(&answer.reply.body)).await?;
    let is_whole = require_readable("the products by SKU", &decoded);
    let found = decoded.records.iter().map(|product| {
        let sku = product.sku.clone();
        Ok(LookupProduct {
            id: product.id.ok_or_else(|| unidentified(&format!("the product `{sku}`"), "id"))?.0,
            sku,
            total_units: total_units(product),
            is_linked: !product.warehouses.is_empty(),
            shown_fields: shown_fields(product),
        })
    });
    let found: Result<Vec<LookupProduct>, JobError> = found.collect();
    let mut write = context.begin_recording(&answer).await?;
    projection::project_found_products(&mut write, answer.id, answer.sent_at, decoded).await?;
    write.commit().await?;
    is_whole?;
    Ok(TimedRead::from_answer(&answer, found?))
}

fn total_units(product: &wire::ProductBalance<'_>) -> Option<i64> {
    let sum = product.warehouses.iter().map(|link| link.quantity_on_hand).sum();
    (!product.warehouses.is_empty()).then_some(sum).or(product.quantity_on_hand)
}

/// Reads and records the list of warehouses, all pages.
pub(crate) async fn read_warehouses(
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<wire::Warehouse>>, JobError> {
    read_whole(origin, &lists::warehouses().with_record_facts()).await
}

/// Reads the listing templates whose name contains `name`, all pages.
pub(super) async fn read_templates(
    origin: ReadOrigin<'_>,
    storefront: StorefrontId,
    name: &str,
) -> Result<TimedRead<Vec<wire::ListingTemplate>>, JobError> {
    read_whole(origin, &lists::templates(storefront, Some(name.trim().to_owned()))).await
}

/// Reads a list to its last page. Fails unless every record that the platform counts came and is readable.
async fn read_whole<T>(origin: ReadOrigin<'_>, list: &PagedList<T>) -> Result<TimedRead<Vec<T>>, JobError> {
    let (records, progress) = Box::pin(list.read_pages(origin, PREFLIGHT_ATTEMPTS, true)).await?;
    progress.require_all(list.list)?;
    Ok(records)
}

impl ReadOrigin<'_> {
    /// Counts the result of a read about a single order or shipment, which a failure may quarantine.
    async fn count_entry<T>(
        &self,
        operation: Operation,
        entry: &str,
        read: Result<T, JobError>,
    ) -> Result<T, JobError> {
        match &read {
            Ok(_) => drop(self.context.record_success(operation, &[entry], true).await?),
            Err(error) => {
                if let Some(why) = error.entry_failure() {
                    self.context.record_failure(operation, &[entry], &why).await?;
                }
            }
        }
        read
    }
}

/// Returns the error of a record without a readable id or name. It may be the one that a call created.
pub(super) fn unidentified(record: &str, lacking: &str) -> JobError {
    JobError::Implausible(format!(
        "{record} came without a readable {lacking}, so the answer decides nothing"
    ))
}

/// Fails if a part of the answer is unreadable. An absent record may be that part.
fn require_readable<T>(what: &str, decoded: &DecodedAnswer<T>) -> Result<(), JobError> {
    match decoded.parked.first() {
        Some(parked) => Err(unreadable_part(what, &parked.why)),
        None => Ok(()),
    }
}
