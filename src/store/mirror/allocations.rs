//! Warehouse allocations of order lines, each read once.

use super::stock_levels::json_rows;
use crate::model::{ExchangeId, LineItemId, OrderId, Timestamp, time};
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Most allocations of one order that a run asks for, so that a long order leaves calls for those of others.
pub(crate) const ALLOCATIONS_OF_ORDER_MAX: u32 = 20;

/// An answer to *Get warehouse allocation of an order line item*.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationPage<'a, T> {
    pub exchange_id: ExchangeId,
    /// Time at which its request was sent.
    pub observed_at: Timestamp,
    pub order_id: OrderId,
    pub line_item_id: LineItemId,
    /// Allocations, JSON objects with the table's columns as keys; `None`: the platform has no such order (404).
    pub allocations: Option<&'a [T]>,
    /// False where the answer has more pages than can be requested, or a record could not be read.
    pub is_complete: bool,
}

/// Allocation, as `order show` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct AllocationRow {
    #[serde(skip)]
    pub line_item_id: i64,
    /// Allocated SKU: for a kit's line a component.
    pub sku: Option<String>,
    pub product_id: Option<i64>,
    pub warehouse_id: i64,
    /// Name of the warehouse, where it is known.
    pub warehouse_name: Option<String>,
    pub quantity: i64,
    /// Time of the answer, RFC 3339: an allocation is read once, and the line may have moved since.
    pub observed_at: String,
}

impl Store {
    /// Returns the lines of tracked orders, or of one order, whose allocation was never requested or was not
    /// found a day ago or more; of each order at most [`ALLOCATIONS_OF_ORDER_MAX`].
    pub(crate) async fn allocation_unread(
        &self,
        now: Timestamp,
        only: Option<OrderId>,
    ) -> Result<Vec<(OrderId, LineItemId)>> {
        let sql = "SELECT order_id, line_item_id FROM ( \
                   SELECT l.order_id, l.line_item_id, row_number() OVER (PARTITION BY l.order_id \
                       ORDER BY l.line_item_id) AS place FROM tracked_order t \
                   JOIN order_line_item l ON l.order_id = t.order_id \
                   LEFT JOIN allocation_read r ON r.order_id = l.order_id \
                   AND r.line_item_id = l.line_item_id \
                   WHERE l.missing_since_ms IS NULL AND (CAST($3 AS BIGINT) IS NULL OR t.order_id = $3) \
                     AND (r.order_id IS NULL OR (NOT r.is_found AND $1 - r.observed_ms >= $2))) unread \
                   WHERE place <= $4 ORDER BY order_id, line_item_id";
        let values = (now, time::whole_millis(time::DAY), only, i64::from(ALLOCATIONS_OF_ORDER_MAX));
        self.fetch_all(sql, values, "find the lines whose allocation is not known").await
    }

    /// Returns the allocations of an order's lines.
    pub(crate) async fn allocation_list(&self, order: OrderId) -> Result<Vec<AllocationRow>> {
        let sql = "SELECT a.line_item_id, a.sku, a.product_id, a.warehouse_id, w.name AS warehouse_name, a.quantity, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', r.observed_ms / 1000.0, 'unixepoch') AS observed_at \
                   FROM order_line_allocation a \
                   JOIN allocation_read r ON r.order_id = a.order_id AND r.line_item_id = a.line_item_id \
                   LEFT JOIN warehouse w ON w.id = a.warehouse_id \
                   WHERE a.order_id = $1 ORDER BY a.line_item_id, a.ordinal";
        self.fetch_all(sql, (order.0,), "read the allocations of an order").await
    }
}

impl WriteTransaction {
    /// Records the allocation of a line.
    pub(crate) async fn mirror_allocations<T: Serialize>(
        &mut self,
        page: &AllocationPage<'_, T>,
    ) -> Result<()> {
        let sql = "DELETE FROM order_line_allocation WHERE order_id = $1 AND line_item_id = $2";
        self.execute(sql, (page.order_id.0, page.line_item_id.0), "clear the allocation of a line").await?;
        let sql = "INSERT INTO order_line_allocation \
                       (order_id, line_item_id, ordinal, allocation_id, product_id, sku, warehouse_id, \
                           quantity) \
                   SELECT $2, $3, key, CAST(value->>'allocation_id' AS BIGINT), \
                          CAST(value->>'product_id' AS BIGINT), value->>'sku', \
                          CAST(value->>'warehouse_id' AS BIGINT), CAST(value->>'quantity' AS BIGINT) \
                   FROM json_each($1)";
        let rows = json_rows(page.allocations.unwrap_or_default());
        let values = (rows, page.order_id.0, page.line_item_id.0);
        self.execute(sql, values, "record the allocation of a line").await?;
        let sql = "INSERT INTO allocation_read \
                       (order_id, line_item_id, exchange_id, observed_ms, is_found, is_complete) \
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (order_id, line_item_id) DO UPDATE SET \
                       exchange_id = excluded.exchange_id, observed_ms = excluded.observed_ms, \
                       is_found = excluded.is_found, is_complete = excluded.is_complete";
        let &AllocationPage { order_id, line_item_id, exchange_id, observed_at, allocations, is_complete } =
            page;
        let is_found = allocations.is_some();
        let values = (order_id, line_item_id, exchange_id, observed_at, is_found, is_found && is_complete);
        self.execute(sql, values, "record that the allocation of a line was requested").await
    }
}
