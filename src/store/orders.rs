//! The lines of tracked orders.

use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::{ExchangeId, OrderId, OrderLine, Timestamp};
use serde_json::{Value, json};

/// One answer to *Get line items of a sales order*.
#[derive(Clone, Copy, Debug)]
pub struct OrderPage<'a> {
    /// The exchange that brought it.
    pub exchange_id: ExchangeId,
    /// When its request was sent.
    pub observed_at: Timestamp,
    /// The order asked for.
    pub order_id: OrderId,
    /// Its lines.
    pub lines: &'a [OrderLine],
    /// False where the answer has more pages than can be asked for: no shipment is decided on it.
    pub is_complete: bool,
}

impl Store {
    /// The lines of one order, as the `order_line` view shows them.
    pub async fn order_lines(&self, order: OrderId) -> Result<Vec<Value>, StoreError> {
        let sql = "SELECT json_object('order_id', order_id, 'line_item_id', line_item_id, 'sku', sku, \
                       'product_id', product_id, 'quantity_sold', quantity_sold, 'quantity_left', quantity_left, \
                       'unit_price', unit_price, 'warehouse_id', warehouse_id, 'observed_at', observed_at) \
                   FROM order_line WHERE order_id = ?1 ORDER BY line_item_id";
        let rows: Vec<String> = sqlx::query_scalar(sql)
            .bind(order.0)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the lines of an order")?;
        Ok(rows.iter().filter_map(|row| serde_json::from_str(row).ok()).collect())
    }
}

impl Write {
    /// Records an order's lines; how many are new or changed is returned. The order is closed once nothing is left to
    /// ship and its known shipments are on their way.
    pub async fn mirror_order(&mut self, page: &OrderPage<'_>) -> Result<u64, StoreError> {
        let rows: Vec<Value> = page.lines.iter().map(line_row).collect();
        let rows = super::cells::json(&rows);
        let changed = self.order_lines_write(page, &rows).await?;
        self.order_lines_missing(page, &rows).await?;
        let shipped = !page.lines.is_empty() && page.lines.iter().all(|line| line.quantity_left == Some(0));
        let is_over = shipped && page.is_complete && !self.order_has_open_shipment(page.order_id).await?;
        let closed = is_over.then_some(page.observed_at.0);
        let sql = "INSERT INTO sales_order (id, exchange_id, observed_ms, changed_ms, is_complete, closed_ms) \
                   VALUES (?1, ?2, ?3, ?3, ?4, ?5) \
                   ON CONFLICT (id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       observed_ms = excluded.observed_ms, is_complete = excluded.is_complete, \
                       changed_ms = iif(?6, excluded.changed_ms, changed_ms), \
                       closed_ms = iif(excluded.closed_ms IS NULL, NULL, coalesce(closed_ms, excluded.closed_ms))";
        let done = sqlx::query(sql)
            .bind(page.order_id.0)
            .bind(page.exchange_id.0)
            .bind(page.observed_at.0)
            .bind(page.is_complete)
            .bind(closed)
            .bind(changed > 0)
            .execute(&mut *self.tx)
            .await;
        done.doing("record an order")?;
        Ok(changed)
    }

    async fn order_lines_write(&mut self, page: &OrderPage<'_>, rows: &str) -> Result<u64, StoreError> {
        let sql = "INSERT INTO order_line_item (order_id, line_item_id, sku, product_id, quantity_sold, \
                       quantity_left, unit_price, warehouse_id, exchange_id) \
                   SELECT ?2, value->>0, value->>1, value->>2, value->>3, value->>4, \
                          CAST(value->>5 AS REAL), value->>6, ?3 FROM json_each(?1) WHERE true \
                   ON CONFLICT (order_id, line_item_id) DO UPDATE SET sku = excluded.sku, \
                       product_id = excluded.product_id, quantity_sold = excluded.quantity_sold, \
                       quantity_left = excluded.quantity_left, unit_price = excluded.unit_price, \
                       warehouse_id = excluded.warehouse_id, exchange_id = excluded.exchange_id, \
                       missing_since_ms = NULL \
                   WHERE sku IS NOT excluded.sku OR product_id IS NOT excluded.product_id \
                       OR quantity_sold <> excluded.quantity_sold \
                       OR quantity_left IS NOT excluded.quantity_left \
                       OR unit_price IS NOT excluded.unit_price OR warehouse_id IS NOT excluded.warehouse_id \
                       OR missing_since_ms IS NOT NULL";
        let query = sqlx::query(sql).bind(rows).bind(page.order_id.0).bind(page.exchange_id.0);
        Ok(query.execute(&mut *self.tx).await.doing("record the lines of an order")?.rows_affected())
    }

    /// Whether a known shipment of the order is not wholly on its way yet. One that was read before the order was
    /// known is seen to be the order's from its items.
    async fn order_has_open_shipment(&mut self, order: OrderId) -> Result<bool, StoreError> {
        let sql = "UPDATE shipment SET order_id = ?1 WHERE order_id IS NULL AND EXISTS ( \
                       SELECT 1 FROM shipment_line i JOIN order_line_item l ON l.line_item_id = i.line_item_id \
                       WHERE i.shipment_id = shipment.id AND l.order_id = ?1)";
        let done = sqlx::query(sql).bind(order.0).execute(&mut *self.tx).await;
        done.doing("find the shipments of an order")?;
        let sql = "SELECT EXISTS (SELECT 1 FROM shipment_progress \
                   WHERE order_id = ?1 AND NOT (is_cancelled OR is_shipped))";
        let open = sqlx::query_scalar(sql).bind(order.0).fetch_one(&mut *self.tx).await;
        open.doing("look for open shipments of an order")
    }

    async fn order_lines_missing(&mut self, page: &OrderPage<'_>, rows: &str) -> Result<(), StoreError> {
        if !page.is_complete || page.lines.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE order_line_item SET missing_since_ms = ?3 \
                   WHERE order_id = ?2 AND missing_since_ms IS NULL \
                     AND line_item_id NOT IN (SELECT value->>0 FROM json_each(?1))";
        let query = sqlx::query(sql).bind(rows).bind(page.order_id.0).bind(page.observed_at.0);
        query.execute(&mut *self.tx).await.map(drop).doing("mark the lines an order no longer has")
    }
}

fn line_row(line: &OrderLine) -> Value {
    json!([
        line.line_item_id,
        line.sku,
        line.product_id,
        line.quantity_sold,
        line.quantity_left,
        line.unit_price,
        line.warehouse_id
    ])
}
