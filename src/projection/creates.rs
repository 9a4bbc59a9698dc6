//! Projection of answers to deliveries: shipments with their items, created products and warehouses.

use super::balances;
use super::lists::warehouse;
use super::orders::shipment_item;
use crate::client::wire::{
    self, CreatedShipment, Decoded, Outcome, ProductWarehouse, Shipment, ShipmentStatus, Warehouse,
};
use crate::model::{ExchangeId, OrderId, Quantity, Sku, Timestamp};
use crate::store::{BalanceFact, BalancePage, CellBalance, ShipmentFact, StoreError, Write};
use std::borrow::Cow;

/// Returns the record of an order. `None` if there is none, or more than one.
pub(crate) fn shipment_record(records: &[CreatedShipment], order: OrderId) -> Option<&CreatedShipment> {
    let mut ours = records.iter().filter(|record| record.order_id() == Some(order));
    ours.next().filter(|_| ours.next().is_none())
}

/// Returns the created shipment of an order's record. `None` if the shipment names another order.
pub(crate) fn shipment_of(record: &CreatedShipment, order: OrderId) -> Option<&Shipment> {
    let made = record.shipment.as_ref().filter(|_| record.outcome() == Outcome::Done)?;
    made.order_id().is_none_or(|named| named == order).then_some(made)
}

/// Projects an answer to the creation of shipments. Each order is matched by the request that its record
/// echoes.
pub(crate) async fn shipments_made(
    write: &mut Write,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    orders: &[OrderId],
    records: &[CreatedShipment],
) -> Result<(), StoreError> {
    for order in orders {
        let record = shipment_record(records, *order);
        if let Some(made) = record.and_then(|record| shipment_of(record, *order)) {
            shipment_made(write, exchange_id, observed_at, *order, made).await?;
        }
    }
    Ok(())
}

/// Projects a created shipment with all its items.
async fn shipment_made(
    write: &mut Write,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    asked: OrderId,
    made: &Shipment,
) -> Result<(), StoreError> {
    let fact = ShipmentFact {
        id: made.id,
        order_id: made.order_id().or(Some(asked)),
        number: made.number.clone(),
        status: made.status().map(status),
        warehouse_id: made.fulfillment_warehouse_id,
        items: made.items.iter().map(shipment_item).collect(),
        is_complete: !made.items.is_empty(),
    };
    write.mirror_shipment(exchange_id, observed_at, &fact).await
}

/// Projects the product in an answer to its creation or update. Its SKU becomes a discovered SKU. Its stock
/// levels are facts unless a write of ours overlaps.
pub(crate) async fn product_made(
    write: &mut Write,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    made: &wire::Product,
) -> Result<(), StoreError> {
    let fact = BalanceFact {
        sku: made.sku.clone(),
        product_id: Some(made.id.0),
        upc: made.identifiers.as_ref().and_then(|ids| ids.upc.as_deref()).map(Cow::Borrowed),
        total: made.quantity_on_hand,
        cells: made.warehouses.iter().filter_map(cell).collect(),
        // The answer may leave out links; only a read of balances removes a link.
        is_whole: false,
    };
    let (asked, products) = ([made.sku.clone()], [fact]);
    let page = BalancePage {
        exchange_id,
        observed_at,
        moment: None,
        asked: &asked,
        products: &products,
        unreadable: &[],
        hides: false,
        is_whole: false,
    };
    write.mirror_balances(&page).await?;
    write.product_renamed(&made.sku, made.id, observed_at).await?;
    write.mirror_product_kind(exchange_id, &made.sku, made.name.as_deref(), made.kind.as_deref()).await?;
    write.learnt_sku_add(exchange_id, &asked).await.map(drop)
}

/// Projects the products found by a lookup and returns their SKUs. An absent product is no fact here, because
/// a preflight expects to find nothing.
pub(crate) async fn products_found(
    write: &mut Write,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    decoded: Decoded<wire::ProductBalance<'_>>,
) -> Result<Vec<Sku>, StoreError> {
    let found: Vec<Sku> = decoded.records.iter().map(|product| product.sku.clone()).collect();
    balances(write, exchange_id, (observed_at, None), &found, &super::facts(decoded)).await?;
    Ok(found)
}

/// Projects a created warehouse.
pub(crate) async fn warehouse_made(
    write: &mut Write,
    exchange_id: ExchangeId,
    made: &Warehouse,
) -> Result<(), StoreError> {
    write.mirror_warehouses(exchange_id, &[warehouse(made)]).await.map(drop)
}

fn cell(link: &ProductWarehouse) -> Option<CellBalance<'_>> {
    Some(CellBalance {
        warehouse_id: link.warehouse_id,
        quantity: Quantity(link.quantity_on_hand?),
        warehouse_sku: link.warehouse_sku.as_deref().map(Cow::Borrowed),
        is_active: link.is_active,
        include_in_sync: link.include_in_sync,
    })
}

fn status(status: ShipmentStatus) -> String {
    match status {
        ShipmentStatus::Cancelled => "Cancelled".into(),
        ShipmentStatus::PartiallyShipped => "PartiallyShipped".into(),
        ShipmentStatus::Shipped => "Shipped".into(),
        ShipmentStatus::Unshipped => "Unshipped".into(),
        ShipmentStatus::Unknown(word) => word,
    }
}
