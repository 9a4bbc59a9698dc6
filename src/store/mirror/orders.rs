//! Lines of tracked orders.

use super::platform_lists::upsert_records;
use super::stock_levels::json_rows;
use crate::model::{ExchangeId, LineItemId, OrderId, OrderLine, Timestamp, time};
use crate::reconcile::proof::ABSENCE_CHECKS_APART;
use crate::store::{Result, Store, StoreError, WriteTransaction};
use serde_json::Value;

/// An answer to *Get line items of a sales order*.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderPage<'a> {
    pub exchange_id: ExchangeId,
    /// Time at which its request was sent.
    pub observed_at: Timestamp,
    pub order_id: OrderId,
    pub lines: &'a [OrderLine],
    /// False where the answer has more pages than can be requested; no shipment is decided on it.
    pub is_complete: bool,
}

impl Store {
    /// Returns a known line of the order that is not among `shown`; lines known to be gone are left out.
    pub(crate) async fn order_line_unshown(
        &self,
        order: OrderId,
        shown: &[LineItemId],
    ) -> Result<Option<i64>> {
        let sql = "SELECT min(line_item_id) FROM order_line_item WHERE order_id = $1 AND missing_since_ms IS NULL \
                   AND line_item_id NOT IN (SELECT CAST(atom AS BIGINT) FROM json_each($2))";
        self.fetch_value(sql, (order, json_rows(shown)), "find a line that an answer lacks").await
    }

    /// Returns an order's stored lines for a preview, and true if they are all; `None`: the order was never
    /// read. A push reads the order again just before it sends.
    pub(crate) async fn order_cached_lines(&self, order: OrderId) -> Result<Option<(Vec<OrderLine>, bool)>> {
        let sql = "SELECT is_complete FROM sales_order WHERE id = $1";
        let known = self.fetch_column(sql, (order,), "read an order").await?.pop();
        let Some(is_complete) = known else { return Ok(None) };
        let lines = self.order_lines(order).await?.into_iter().map(serde_json::from_value);
        let lines: std::result::Result<Vec<OrderLine>, _> = lines.collect();
        let invalid = |error: serde_json::Error| StoreError::UnknownValue("an order line", error.to_string());
        Ok(Some((lines.map_err(invalid)?, is_complete)))
    }

    /// Returns the lines of an order, as the view `order_line` shows them.
    pub(crate) async fn order_lines(&self, order: OrderId) -> Result<Vec<Value>> {
        let sql = "SELECT order_id, line_item_id, sku, product_id, quantity_sold, quantity_left, unit_price, supplier_id, \
                       warehouse_id, observed_at FROM order_line WHERE order_id = $1 ORDER BY line_item_id";
        self.fetch_objects(sql, (order,), "read the lines of an order").await
    }
}

impl WriteTransaction {
    /// Records an order's lines and returns the number of new, changed or removed ones. A line that the
    /// answer lacks keeps its age and becomes missing on proof. The order closes when nothing is left to ship
    /// and its known shipments are shipped or cancelled. It also closes when all its lines are missing.
    pub(crate) async fn mirror_order(&mut self, page: &OrderPage<'_>) -> Result<u64> {
        let rows = json_rows(page.lines);
        let written = self.order_lines_write(page).await?;
        self.order_lines_returned(page, &rows).await?;
        let changed = written + self.order_lines_absent(page, &rows).await?;
        let is_over = page.is_complete
            && self.order_has_nothing_left(page.order_id).await?
            && !self.order_has_open_shipment(page.order_id).await?;
        let closed = is_over.then_some(page.observed_at.0);
        let sql = "INSERT INTO sales_order (id, exchange_id, observed_ms, changed_ms, is_complete, closed_ms) \
                   VALUES ($1, $2, $3, $3, $4, $5) \
                   ON CONFLICT (id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       observed_ms = excluded.observed_ms, is_complete = excluded.is_complete, \
                       changed_ms = CASE WHEN $6 THEN excluded.changed_ms ELSE sales_order.changed_ms END, \
                       closed_ms = CASE WHEN excluded.closed_ms IS NOT NULL \
                                        THEN coalesce(sales_order.closed_ms, excluded.closed_ms) END";
        let values =
            (page.order_id.0, page.exchange_id.0, page.observed_at.0, page.is_complete, closed, changed > 0);
        self.execute(sql, values, "record an order").await?;
        Ok(changed)
    }

    async fn order_lines_write(&mut self, page: &OrderPage<'_>) -> Result<u64> {
        let columns = "sku, product_id BIGINT, quantity_sold BIGINT, quantity_left BIGINT, \
                       unit_price DOUBLE PRECISION, supplier_id BIGINT, warehouse_id BIGINT";
        let sql = upsert_records("order_line_item", "order_id", "order_id, line_item_id", columns);
        let (rows, of) = ((page.lines, "line_item_id"), page.order_id.0);
        self.record_rows(sql, rows, (page.exchange_id, Some(of)), "record the lines of an order").await
    }

    /// Returns true if a known shipment of the order is neither shipped in full nor cancelled. A shipment
    /// that was read before its order is assigned to the order here, by its items.
    async fn order_has_open_shipment(&mut self, order: OrderId) -> Result<bool> {
        let sql = "UPDATE shipment SET order_id = $1 WHERE order_id IS NULL AND EXISTS ( \
                       SELECT 1 FROM shipment_line i JOIN order_line_item l ON l.line_item_id = i.line_item_id \
                       WHERE i.shipment_id = shipment.id AND l.order_id = $1)";
        self.execute(sql, (order.0,), "find the shipments of an order").await?;
        let sql = "SELECT EXISTS (SELECT 1 FROM shipment_progress \
                   WHERE order_id = $1 AND NOT (is_cancelled OR is_shipped))";
        self.fetch_value(sql, (order,), "find the open shipments of an order").await
    }

    /// Gives the lines of this answer the age of the order's last answer again.
    async fn order_lines_returned(&mut self, page: &OrderPage<'_>, rows: &str) -> Result<()> {
        let sql = "UPDATE order_line_item SET observed_ms = NULL, absent_ms = NULL, absent_exchange_id = NULL \
                   WHERE order_id = $2 AND (observed_ms IS NOT NULL OR absent_ms IS NOT NULL) \
                     AND line_item_id IN (SELECT CAST(value->>'line_item_id' AS BIGINT) FROM json_each($1))";
        self.execute(sql, (rows, page.order_id.0), "reset the age of order lines").await
    }

    /// Fixes the age of the lines that the answer lacks, and returns the number of those that it proves missing: an earlier
    /// answer lacked them, and since then other lines came, of this order or of another one.
    ///
    /// An incomplete answer proves nothing, because an unreadable record may be any of them.
    async fn order_lines_absent(&mut self, page: &OrderPage<'_>, rows: &str) -> Result<u64> {
        let sql = "UPDATE order_line_item \
                   SET observed_ms = coalesce(observed_ms, (SELECT o.observed_ms FROM sales_order o WHERE o.id = $2)), \
                       absent_ms = CASE WHEN $5 THEN coalesce(absent_ms, $3) ELSE absent_ms END, \
                       absent_exchange_id = CASE WHEN $5 THEN coalesce(absent_exchange_id, $4) \
                                                 ELSE absent_exchange_id END, \
                       missing_since_ms = CASE WHEN $5 AND $3 - absent_ms >= $6 AND ($7 OR EXISTS ( \
                           SELECT 1 FROM sales_order o JOIN order_line_item l ON l.order_id = o.id \
                           WHERE o.exchange_id > order_line_item.absent_exchange_id AND o.id <> $2 \
                             AND l.observed_ms IS NULL AND l.missing_since_ms IS NULL)) \
                           THEN CAST($3 AS BIGINT) END \
                   WHERE order_id = $2 AND missing_since_ms IS NULL AND line_item_id NOT IN ( \
                       SELECT CAST(value->>'line_item_id' AS BIGINT) FROM json_each($1)) \
                   RETURNING missing_since_ms IS NOT NULL";
        let (of, at, apart) = (page.order_id, page.observed_at, time::whole_millis(ABSENCE_CHECKS_APART));
        let values = (rows, of, at, page.exchange_id, page.is_complete, apart, !page.lines.is_empty());
        let absent: Vec<bool> = self.fetch_column(sql, values, "keep the age of absent lines").await?;
        Ok(absent.into_iter().filter(|is_missing| *is_missing).count() as u64)
    }

    /// Returns true if the order has lines and none of those not missing has units left.
    async fn order_has_nothing_left(&mut self, order: OrderId) -> Result<bool> {
        let sql = "SELECT count(*) > 0 AND count(*) FILTER ( \
                       WHERE missing_since_ms IS NULL AND quantity_left IS DISTINCT FROM 0) = 0 \
                   FROM order_line_item WHERE order_id = $1";
        self.fetch_value(sql, (order,), "read the units left of an order").await
    }
}
