//! Warehouse allocations of order lines, each read once.

use super::stock_levels::json_rows;
use crate::model::{ExchangeId, LineItemId, OrderId, Timestamp, time};
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use serde_json::Value;

impl Store {
    /// Returns the lines of tracked orders, or of one order, whose allocation was never requested or was not
    /// found a day ago or more.
    pub(crate) async fn allocation_unread(
        &self,
        now: Timestamp,
        only: Option<OrderId>,
    ) -> Result<Vec<(OrderId, LineItemId)>> {
        let sql = "SELECT l.order_id, l.line_item_id FROM tracked_order t \
                   JOIN order_line_item l ON l.order_id = t.order_id \
                   LEFT JOIN allocation_read r ON r.order_id = l.order_id AND r.line_item_id = l.line_item_id \
                   WHERE l.missing_since_ms IS NULL AND (CAST($3 AS BIGINT) IS NULL OR t.order_id = $3) \
                     AND (r.order_id IS NULL OR (NOT r.is_found AND $1 - r.observed_ms >= $2)) \
                   ORDER BY l.order_id, l.line_item_id";
        let values = (now, time::whole_millis(time::DAY), only);
        self.fetch_all(sql, values, "find the lines whose allocation is not known").await
    }

    /// Returns the allocations of an order's lines, as `order show` prints them, each with the time of its answer.
    pub(crate) async fn allocation_list(&self, order: OrderId) -> Result<Vec<Value>> {
        let sql = "SELECT a.line_item_id, a.sku, a.product_id, a.warehouse_id, w.name AS warehouse_name, a.quantity, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', r.observed_ms / 1000.0, 'unixepoch') AS observed_at \
                   FROM order_line_allocation a \
                   JOIN allocation_read r ON r.order_id = a.order_id AND r.line_item_id = a.line_item_id \
                   LEFT JOIN warehouse w ON w.id = a.warehouse_id \
                   WHERE a.order_id = $1 ORDER BY a.line_item_id, a.ordinal";
        self.fetch_objects(sql, (order.0,), "read the allocations of an order").await
    }
}

impl WriteTransaction {
    /// Records the allocations of a line, objects with the table's columns as keys.
    /// `None`: the platform has no such order (404).
    pub(crate) async fn mirror_allocations<T: Serialize>(
        &mut self,
        (exchange, observed_at): (ExchangeId, Timestamp),
        (order, line): (OrderId, LineItemId),
        found: Option<&[T]>,
    ) -> Result<()> {
        let sql = "DELETE FROM order_line_allocation WHERE order_id = $1 AND line_item_id = $2";
        self.execute(sql, (order, line), "clear the allocation of a line").await?;
        let sql = "INSERT INTO order_line_allocation \
                       (order_id, line_item_id, ordinal, allocation_id, product_id, sku, warehouse_id, \
                           quantity) \
                   SELECT $2, $3, key, CAST(value->>'allocation_id' AS BIGINT), \
                          CAST(value->>'product_id' AS BIGINT), value->>'sku', \
                          CAST(value->>'warehouse_id' AS BIGINT), CAST(value->>'quantity' AS BIGINT) \
                   FROM json_each($1)";
        let rows = json_rows(found.unwrap_or_default());
        self.execute(sql, (rows, order, line), "record the allocation of a line").await?;
        let sql = "INSERT INTO allocation_read \
                       (order_id, line_item_id, exchange_id, observed_ms, is_found) \
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (order_id, line_item_id) DO UPDATE SET \
                       exchange_id = excluded.exchange_id, observed_ms = excluded.observed_ms, \
                       is_found = excluded.is_found";
        let values = (order, line, exchange, observed_at, found.is_some());
        self.execute(sql, values, "record that the allocation of a line was requested").await
    }
}
