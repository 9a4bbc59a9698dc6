//! Projection of orders: their lines, the allocations of lines, and the items of shipments.

use super::park_records;
use crate::client::wire::{DecodedAnswer, LineAllocation, OrderLineItem, ShipmentItem};
use crate::model::{ExchangeId, LineItemId, OrderId, OrderLine, ProductId, ShipmentId, Sku, Timestamp};
use crate::store::{
    AllocationPage, OrderPage, ProductFact, ShipmentItemFact, ShipmentPage, StoreError, WriteTransaction,
};

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

/// Projects the allocations of an order line; `None` is the 404 of an unknown order. Without a readable
/// record the line keeps what was known. Their SKUs become discovered SKUs. If they are all of other SKUs
/// than the line's own, the line's product is marked as a possible kit.
pub(crate) async fn project_allocations(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    (order_id, line_item_id): (OrderId, LineItemId),
    found: Option<&DecodedAnswer<LineAllocation>>,
) -> Result<(), StoreError> {
    let page = AllocationPage {
        exchange_id,
        observed_at,
        order_id,
        line_item_id,
        allocations: None,
        is_complete: false,
    };
    let Some(decoded) = found else { return write.mirror_allocations(&page).await };
    park_records(write, exchange_id, decoded).await?;
    if decoded.records.is_empty() && !decoded.parked.is_empty() {
        return Ok(());
    }
    let skus: Vec<Sku> = decoded.records.iter().filter_map(|taken| taken.sku.clone()).collect();
    write.discovered_sku_add(exchange_id, &skus).await?;
    let (sku, product_id) = write.order_line_product(order_id, line_item_id).await?;
    let sku = sku.and_then(|sku| Sku::new(sku).ok());
    if let Some(sku) = sku.filter(|sku| may_be_kit(sku, product_id, &decoded.records)) {
        let met = ProductFact { sku: sku.clone(), product_id, name: None, upc: None, kind: None };
        write.mirror_products(exchange_id, &[met]).await?;
        write.kit_guess(exchange_id, &sku).await?;
    }
    let (allocations, is_complete) = (Some(decoded.records.as_slice()), decoded.is_complete());
    write.mirror_allocations(&AllocationPage { allocations, is_complete, ..page }).await
}

/// Returns true if the allocations of a line may be components of its product: none is the line's own
/// product, by id or SKU. This proves no kit. They may be a substitute, the parts of a built product, or of a
/// line that was changed since it was read.
fn may_be_kit(sold: &Sku, product_id: Option<ProductId>, taken: &[LineAllocation]) -> bool {
    let is_other = |taken: &LineAllocation| {
        let by_id = product_id.zip(taken.product_id).map(|(own, other)| own != other);
        let by_sku = taken.sku.as_ref().map(|sku| sku.case_key() != sold.case_key());
        by_id.or(by_sku).is_some() && by_id.unwrap_or(true) && by_sku.unwrap_or(true)
    };
    !taken.is_empty() && taken.iter().all(is_other)
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
    let items: Vec<ShipmentItemFact> = page.records.iter().map(shipment_item_fact).collect();
    write.mirror_shipment_items(&ShipmentPage { exchange_id, observed_at, shipment_id, items: &items }).await
}

pub(super) fn shipment_item_fact(item: &ShipmentItem) -> ShipmentItemFact {
    ShipmentItemFact {
        item_id: item.id,
        line_item_id: item.line_item_id,
        sku: item.sku.clone(),
        product_id: item.product_id,
        quantity: item.quantity,
        is_shipped: item.is_shipped(),
        is_confirmed: item.is_confirmed,
        carrier_id: item.carrier.as_ref().map(|carrier| carrier.id),
        carrier_name: item.carrier.as_ref().and_then(|carrier| carrier.name.clone()),
        tracking_number: item.tracking_number.clone(),
        tracking_url: item.tracking_url.clone(),
        estimated_delivery_ms: item.estimated_delivery,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::wire::decode_allocations;

    /// Row: the line's product (SKU, id), its allocations, and true for a possible kit.
    #[test]
    fn a_kit_is_what_is_taken_apart() {
        let cases = [
            ("K", Some(9), r#"{"ProductId":1,"SkuNumber":"A"},{"ProductId":2,"SkuNumber":"B"}"#, true),
            ("A", Some(1), r#"{"ProductId":1,"SkuNumber":"A"}"#, false),
            ("A", Some(1), r#"{"ProductId":1,"SkuNumber":"A"},{"ProductId":2,"SkuNumber":"B"}"#, false),
            ("A", Some(1), r#"{"ProductId":1,"SkuNumber":"renamed"}"#, false),
            ("A", Some(9), r#"{"ProductId":1,"SkuNumber":"a "}"#, false),
            ("K", None, r#"{"ProductId":1,"SkuNumber":"A"}"#, true),
            ("a", None, r#"{"ProductId":1,"SkuNumber":"A "}"#, false),
            ("K", Some(9), r#"{"SkuNumber":"A"}"#, true),
            ("K", None, r#"{"ProductId":1}"#, false),
            ("K", Some(9), "", false),
        ];
        for (sold, product, taken, expected) in cases {
            let records = taken.replace('}', r#","WarehouseId":7,"QuantityAllocated":1}"#);
            let decoded =
                decode_allocations(format!(r#"{{"data":[{records}]}}"#).as_bytes(), LineItemId(1)).unwrap();
            let is_kit = may_be_kit(&Sku::new(sold).unwrap(), product.map(ProductId), &decoded.records);
            assert_eq!(is_kit, expected, "{sold} {product:?}: {taken}");
        }
    }
}
