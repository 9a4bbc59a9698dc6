//! Recording shipments: one the service just made for us, or the items of one that was read.

use super::cells::json;
use super::error::Doing;
use super::{StoreError, Write};
use crate::model::{
    ExchangeId, LineItemId, OrderId, ProductId, ShipmentId, ShipmentItemId, Timestamp, WarehouseId,
};
use serde::Serialize;

/// The service's word on one shipment (*Shipment*). Where it says nothing, what is known stays.
#[derive(Clone, Debug)]
pub struct ShipmentFact {
    /// `Id`.
    pub id: ShipmentId,
    /// The order it belongs to.
    pub order_id: Option<OrderId>,
    /// `ShipmentNumber`.
    pub number: Option<String>,
    /// `Status`, or what `StatusInd` says.
    pub status: Option<String>,
    /// `FulfillmentWarehouseId`.
    pub warehouse_id: Option<WarehouseId>,
    /// `Items[]`.
    pub items: Vec<ShipmentItem>,
    /// Whether these are all its items.
    pub is_complete: bool,
}

/// The service's word on one item (*Shipment item*).
#[derive(Clone, Debug, Serialize)]
pub struct ShipmentItem {
    /// `Id`: another id space than the order's lines.
    pub item_id: ShipmentItemId,
    /// `OrderLineItemId`.
    pub line_item_id: LineItemId,
    /// `ProductSku`.
    pub sku: Option<String>,
    /// `ProductId`.
    pub product_id: Option<ProductId>,
    /// `QuantityShipped`: units in the shipment, whether on their way or not.
    pub quantity: i64,
    /// `IsShipped`, or what `ShippedInd` says.
    pub is_shipped: Option<bool>,
    /// `IsConfirmed`.
    pub is_confirmed: Option<bool>,
    /// `CompanyCarrier.Id`.
    pub carrier_id: Option<i64>,
    /// `TrackingNumber`.
    pub tracking_number: Option<String>,
    /// `TrackingURL`.
    pub tracking_url: Option<String>,
}

impl Write {
    /// Records a shipment with its items.
    pub async fn mirror_shipment(
        &mut self,
        exchange: ExchangeId,
        observed_at: Timestamp,
        fact: &ShipmentFact,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO shipment (id, order_id, number, status, warehouse_id, exchange_id, observed_ms, \
                       is_complete) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
                   ON CONFLICT (id) DO UPDATE SET order_id = coalesce(excluded.order_id, order_id), \
                       number = coalesce(excluded.number, number), status = coalesce(excluded.status, status), \
                       warehouse_id = coalesce(excluded.warehouse_id, warehouse_id), \
                       exchange_id = excluded.exchange_id, observed_ms = excluded.observed_ms, \
                       is_complete = excluded.is_complete";
        let done = sqlx::query(sql)
            .bind(fact.id.0)
            .bind(fact.order_id.map(|id| id.0))
            .bind(&fact.number)
            .bind(&fact.status)
            .bind(fact.warehouse_id.map(|id| id.0))
            .bind(exchange.0)
            .bind(observed_at.0)
            .bind(fact.is_complete)
            .execute(&mut *self.tx)
            .await;
        done.doing("record a shipment")?;
        self.shipment_lines_write(exchange, fact).await
    }

    async fn shipment_lines_write(
        &mut self,
        exchange: ExchangeId,
        fact: &ShipmentFact,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO shipment_line (shipment_id, item_id, line_item_id, sku, product_id, quantity, \
                       is_shipped, is_confirmed, carrier_id, tracking_number, tracking_url, exchange_id) \
                   SELECT ?2, value->>'item_id', value->>'line_item_id', value->>'sku', value->>'product_id', \
                          value->>'quantity', value->>'is_shipped', value->>'is_confirmed', \
                          value->>'carrier_id', value->>'tracking_number', value->>'tracking_url', ?3 \
                   FROM json_each(?1) WHERE true \
                   ON CONFLICT (shipment_id, item_id) DO UPDATE SET line_item_id = excluded.line_item_id, \
                       sku = coalesce(excluded.sku, sku), \
                       product_id = coalesce(excluded.product_id, product_id), \
                       quantity = excluded.quantity, is_shipped = excluded.is_shipped, \
                       is_confirmed = excluded.is_confirmed, carrier_id = excluded.carrier_id, \
                       tracking_number = excluded.tracking_number, tracking_url = excluded.tracking_url, \
                       exchange_id = excluded.exchange_id";
        let query = sqlx::query(sql).bind(json(&fact.items)).bind(fact.id.0).bind(exchange.0);
        query.execute(&mut *self.tx).await.map(drop).doing("record the items of a shipment")
    }
}
