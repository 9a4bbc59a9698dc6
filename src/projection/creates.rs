//! Projection of answers to deliveries: shipments with their items, created products and warehouses.

use super::orders::shipment_item_row;
use super::project_balances;
use crate::client::wire::{
    self, DecodedAnswer, ProductBalance, ProductWarehouse, Shipment, WarehouseBalance, WriteAnswer,
};
use crate::model::{ExchangeId, OrderId, Sku, Timestamp};
use crate::store::{BalancePage, StoreError, WriteTransaction};
use serde_json::Value;
use std::borrow::Cow;

/// Returns the record of an order. `None` if there is none, or more than one.
pub(crate) fn shipment_record(
    records: &[WriteAnswer<Shipment>],
    order: OrderId,
) -> Option<&WriteAnswer<Shipment>> {
    let mut found = records.iter().filter(|record| record.order_id() == Some(order));
    found.next().filter(|_| found.next().is_none())
}

/// Returns the created shipment of an order's record, unless it or its items name another.
pub(crate) fn created_shipment(record: &WriteAnswer<Shipment>, order: OrderId) -> Option<&Shipment> {
    let made = record.applied_record()?;
    let is_asked = made.order_id().is_none_or(|named| named == order);
    (is_asked && made.items.iter().all(|item| item.is_of(made.id))).then_some(made)
}

/// Projects an answer to the creation of shipments, which holds all items of each. Each order is matched by
/// the request that its record echoes.
pub(crate) async fn project_created_shipments(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    orders: &[OrderId],
    records: &[WriteAnswer<Shipment>],
) -> Result<(), StoreError> {
    for order in orders {
        let record = shipment_record(records, *order);
        let Some(made) = record.and_then(|record| created_shipment(record, *order)) else { continue };
        let items: Vec<Value> = made.items.iter().map(shipment_item_row).collect();
        let of_order = made.order_id().unwrap_or(*order);
        write.mirror_shipment((exchange_id, observed_at), of_order, made, &items).await?;
    }
    Ok(())
}

/// Projects the product in an answer to its creation or update. Its SKU becomes a discovered SKU. Its stock
/// levels are facts unless an own write overlaps.
pub(crate) async fn project_product(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    made: &wire::Product,
) -> Result<(), StoreError> {
    let fact = ProductBalance {
        id: Some(made.id),
        sku: made.sku.clone(),
        quantity_on_hand: made.quantity_on_hand,
        upc: made.upc().map(Cow::Borrowed),
        warehouses: made.warehouses.iter().filter_map(level_balance).collect(),
        // The answer may leave out links; only a read of balances removes a link.
        is_partial: true,
    };
    let (skus, products) = ([made.sku.clone()], [fact]);
    let page = BalancePage {
        exchange_id,
        observed_at,
        requested: &skus,
        products: &products,
        unreadable: &[],
        has_unnamed_record: false,
        is_whole: false,
    };
    write.mirror_balances(&page).await?;
    write.mirror_product_record(observed_at, made).await?;
    write.discovered_sku_add(exchange_id, &skus).await.map(drop)
}

/// Projects the products found by a lookup and returns their SKUs. An absent product is no fact here, because
/// a preflight expects to find nothing.
pub(crate) async fn project_found_products(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    decoded: DecodedAnswer<wire::ProductBalance<'_>>,
) -> Result<Vec<Sku>, StoreError> {
    let found: Vec<Sku> = decoded.records.iter().map(|product| product.sku.clone()).collect();
    project_balances(write, exchange_id, observed_at, &found, &decoded).await?;
    Ok(found)
}

fn level_balance(link: &ProductWarehouse) -> Option<WarehouseBalance<'_>> {
    Some(WarehouseBalance {
        product_id: None,
        warehouse_id: link.warehouse_id,
        quantity_on_hand: link.quantity_on_hand?,
        warehouse_sku: link.warehouse_sku.as_deref().map(Cow::Borrowed),
        is_active: link.is_active,
        include_in_sync: link.include_in_sync,
    })
}
