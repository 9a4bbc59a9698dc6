//! Projection of orders: their lines, the allocations of lines, and the items of shipments.

use super::park_records;
use crate::client::wire::{DecodedAnswer, LineAllocation, OrderLineItem, ShipmentItem};
use crate::model::{ExchangeId, LineItemId, OrderId, OrderLine, ShipmentId, Sku, Timestamp};
use crate::store::{OrderPage, StoreError, WriteTransaction};
use serde_json::{Value, json};

/// Projects the lines of an order and discovers their SKUs. Returns the number of new or changed lines.
pub(crate) async fn project_order_lines(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    order_id: OrderId,
    decoded: &DecodedAnswer<OrderLineItem>,
) -> Result<u64, StoreError> {
    park_records(write, exchange_id, decoded).await?;
    let lines: Vec<OrderLine> = decoded.records.iter().map(|item| item.to_order_line(order_id)).collect();
    let is_complete = decoded.is_complete();
    let skus: Vec<Sku> = lines.iter().filter_map(|line| line.sku.clone()).collect();
    write.discovered_sku_add(exchange_id, &skus).await?;
    write.mirror_order(&OrderPage { exchange_id, observed_at, order_id, lines: &lines, is_complete }).await
}

/// Projects the allocations of an order line; `None` is the 404 of an unknown order. Without a readable record the
/// line keeps what was known. Their SKUs become discovered SKUs.
pub(crate) async fn project_allocations(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    of_line: (OrderId, LineItemId),
    found: Option<&DecodedAnswer<LineAllocation>>,
) -> Result<(), StoreError> {
    let read = (exchange_id, observed_at);
    let Some(decoded) = found else {
        return write.mirror_allocations::<LineAllocation>(read, of_line, None).await;
    };
    park_records(write, exchange_id, decoded).await?;
    if decoded.records.is_empty() && !decoded.parked.is_empty() {
        return Ok(());
    }
    let skus: Vec<Sku> = decoded.records.iter().filter_map(|taken| taken.sku.clone()).collect();
    write.discovered_sku_add(exchange_id, &skus).await?;
    write.mirror_allocations(read, of_line, Some(decoded.records.as_slice())).await
}

/// Projects a page of a shipment's items. Returns the number of new or changed items.
pub(crate) async fn project_shipment_items(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    shipment_id: ShipmentId,
    page: &DecodedAnswer<ShipmentItem>,
) -> Result<u64, StoreError> {
    park_records(write, exchange_id, page).await?;
    let items: Vec<Value> = page.records.iter().map(shipment_item_row).collect();
    write.mirror_shipment_items((exchange_id, observed_at), shipment_id, &items).await
}

/// Returns the columns of a shipment's item.
pub(super) fn shipment_item_row(item: &ShipmentItem) -> Value {
    let carrier = item.carrier.as_ref();
    json!({
        "item_id": item.id, "line_item_id": item.line_item_id, "sku": item.sku, "product_id": item.product_id,
        "quantity": item.quantity, "is_shipped": item.is_shipped(), "is_confirmed": item.is_confirmed,
        "carrier_id": carrier.map(|carrier| carrier.id),
        "carrier_name": carrier.and_then(|carrier| carrier.name.as_ref()),
        "tracking_number": item.tracking_number, "tracking_url": item.tracking_url,
        "estimated_delivery_ms": item.estimated_delivery,
    })
}
