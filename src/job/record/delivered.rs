//! Folding in what deliveries bring: shipments and their items, products and warehouses that were made.

use super::balances;
use super::lists::warehouse;
use super::orders::shipment_item;
use crate::client::wire::{
    self, CreatedShipment, Decoded, Outcome, ProductWarehouse, Shipment, ShipmentStatus, Warehouse,
};
use crate::model::{ExchangeId, OrderId, Quantity, Sku, Timestamp};
use crate::store::{BalanceFact, BalancePage, CellBalance, ShipmentFact, StoreError, Write};
use std::borrow::Cow;

/// The one record of an answer to *Create shipments* that is about this order; one that stands twice settles nothing.
pub(in crate::job) fn shipment_record(
    records: &[CreatedShipment],
    order: OrderId,
) -> Option<&CreatedShipment> {
    let mut ours = records.iter().filter(|record| record.order_id() == Some(order));
    ours.next().filter(|_| ours.next().is_none())
}

/// The shipment that an order's record says was made, unless it names another order.
pub(in crate::job) fn shipment_of(record: &CreatedShipment, order: OrderId) -> Option<&Shipment> {
    let made = record.shipment.as_ref().filter(|_| record.outcome() == Outcome::Done)?;
    made.order_id().is_none_or(|named| named == order).then_some(made)
}

/// *Create shipments*: each of these orders by the request its record echoes.
pub(in crate::job) async fn shipments_made(
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

/// One shipment that the service made, with all its items.
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

/// *Create product* and *Update product*: the product as it now is. It is learnt, and its cells are facts unless a
/// write of ours overlaps.
pub(in crate::job) async fn product_made(
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
        // The answer may leave links out; only a read of balances makes one vanish.
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

/// *Get products by SKU or UPC*: the products that were found. What was not found is no fact here: a lookup before a
/// create is meant to find nothing. Their SKUs are returned.
pub(in crate::job) async fn products_found(
    write: &mut Write,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    decoded: Decoded<wire::ProductBalance<'_>>,
) -> Result<Vec<Sku>, StoreError> {
    let found: Vec<Sku> = decoded.records.iter().map(|product| product.sku.clone()).collect();
    balances(write, exchange_id, (observed_at, None), &found, &super::facts(decoded)).await?;
    Ok(found)
}

/// *Create warehouse*.
pub(in crate::job) async fn warehouse_made(
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
