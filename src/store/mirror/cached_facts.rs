//! Cached facts for previews that make no call: an order's lines, a shipment's items.
//!
//! The live path never decides on them: it reads again just before it sends.

use crate::model::{LineItemId, OrderId, OrderLine, ProductId, ShipmentId, ShipmentItemId, Sku, WarehouseId};
use crate::reconcile::tracking::ItemFact;
use crate::store::{Store, StoreError};
use sqlx::FromRow;

#[derive(FromRow)]
struct CachedLineRow {
    line_item_id: i64,
    sku: Option<String>,
    product_id: Option<i64>,
    quantity_sold: i64,
    quantity_left: Option<i64>,
    unit_price: Option<f64>,
    warehouse_id: Option<i64>,
}

#[derive(FromRow)]
struct CachedItemRow {
    item_id: i64,
    line_item_id: Option<i64>,
    is_shipped: Option<bool>,
    tracking_number: Option<String>,
}

impl Store {
    /// Returns an order's lines and true if they are all; `None`: the order was never read.
    pub async fn order_cached_lines(
        &self,
        order: OrderId,
    ) -> Result<Option<(Vec<OrderLine>, bool)>, StoreError> {
        let sql = "SELECT is_complete FROM sales_order WHERE id = ?1";
        let known: Option<(bool,)> = self.fetch_optional(sql, (order.0,), "read an order").await?;
        let Some((is_complete,)) = known else { return Ok(None) };
        let sql = "SELECT line_item_id, sku, product_id, quantity_sold, quantity_left, unit_price, warehouse_id \
                   FROM order_line_item WHERE order_id = ?1 AND missing_since_ms IS NULL ORDER BY line_item_id";
        let rows: Vec<CachedLineRow> = self.fetch_all(sql, (order.0,), "read an order's lines").await?;
        let line = |row: CachedLineRow| OrderLine {
            order_id: order,
            line_item_id: LineItemId(row.line_item_id),
            sku: row.sku.and_then(|sku| Sku::new(sku).ok()),
            product_id: row.product_id.map(ProductId),
            quantity_sold: row.quantity_sold,
            quantity_left: row.quantity_left,
            unit_price: row.unit_price,
            warehouse_id: row.warehouse_id.map(WarehouseId),
        };
        Ok(Some((rows.into_iter().map(line).collect(), is_complete)))
    }

    /// Returns a shipment's items; `None`: they were never all read.
    pub async fn shipment_cached_items(
        &self,
        shipment: ShipmentId,
    ) -> Result<Option<Vec<ItemFact>>, StoreError> {
        let sql = "SELECT i.item_id, i.line_item_id, i.is_shipped, i.tracking_number FROM shipment_line i \
                   JOIN shipment s ON s.id = i.shipment_id \
                   WHERE s.id = ?1 AND s.is_complete AND i.missing_since_ms IS NULL ORDER BY i.item_id";
        let values = (shipment.0,);
        let rows: Vec<CachedItemRow> = self.fetch_all(sql, values, "read the items of a shipment").await?;
        let item = |row: CachedItemRow| ItemFact {
            item_id: ShipmentItemId(row.item_id),
            line_item_id: row.line_item_id.map(LineItemId),
            is_shipped: row.is_shipped.unwrap_or(false),
            tracking_number: row.tracking_number,
        };
        let items: Vec<ItemFact> = rows.into_iter().map(item).collect();
        Ok((!items.is_empty()).then_some(items))
    }
}
