//! Lines of tracked orders.

use super::platform_lists::upsert_records;
use super::stock_levels::json_rows;
use crate::model::{ExchangeId, LineItemId, OrderId, OrderLine, Timestamp};
use crate::reconcile::proof;
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

    /// Fixes the age of the lines that the answer lacks, and returns the number of those proved absent. An
    /// incomplete answer proves nothing, because an unreadable record may be any of them.
    async fn order_lines_absent(&mut self, page: &OrderPage<'_>, rows: &str) -> Result<u64> {
        let sql = "SELECT line_item_id, absent_ms, absent_exchange_id FROM order_line_item \
                   WHERE order_id = $2 AND missing_since_ms IS NULL \
                     AND line_item_id NOT IN (SELECT CAST(value->>'line_item_id' AS BIGINT) FROM json_each($1))";
        let lacking: Vec<(i64, Option<i64>, Option<i64>)> =
            self.fetch_all(sql, (rows, page.order_id.0), "find the lines that are not in the answer").await?;
        if lacking.is_empty() {
            return Ok(0);
        }
        let lines: Vec<i64> = lacking.iter().map(|(line, ..)| *line).collect();
        let sql = "UPDATE order_line_item \
                   SET observed_ms = coalesce(observed_ms, (SELECT o.observed_ms FROM sales_order o WHERE o.id = $2)), \
                       absent_ms = CASE WHEN $5 THEN coalesce(absent_ms, $3) ELSE absent_ms END, \
                       absent_exchange_id = CASE WHEN $5 THEN coalesce(absent_exchange_id, $4) \
                                                 ELSE absent_exchange_id END \
                   WHERE order_id = $2 \
                     AND line_item_id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1))";
        let values =
            (json_rows(&lines), page.order_id.0, page.observed_at.0, page.exchange_id.0, page.is_complete);
        self.execute(sql, values, "keep the age of absent lines").await?;
        if page.is_complete { self.order_lines_missing(page, &lacking).await } else { Ok(0) }
    }

    /// Marks the lines proved absent: other lines, or those of another order, came since the first absence.
    async fn order_lines_missing(
        &mut self,
        page: &OrderPage<'_>,
        lacking: &[(i64, Option<i64>, Option<i64>)],
    ) -> Result<u64> {
        let first = lacking.iter().filter_map(|(_, _, exchange)| *exchange).min();
        let others_came = match first {
            Some(first) => !page.lines.is_empty() || self.orders_returned_since(first, page.order_id).await?,
            None => return Ok(0),
        };
        let absent = lacking
            .iter()
            .filter(|(_, first, _)| proof::is_absent(first.map(Timestamp), page.observed_at, others_came));
        let absent: Vec<i64> = absent.map(|(line, ..)| *line).collect();
        let sql = "UPDATE order_line_item SET missing_since_ms = $3 \
                   WHERE order_id = $2 \
                     AND line_item_id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1))";
        let values = (json_rows(&absent), page.order_id.0, page.observed_at.0);
        self.execute_counting(sql, values, "mark the missing lines of an order").await
    }

    /// Returns true if another order's answer, requested after `first`, held lines: the platform works.
    async fn orders_returned_since(&mut self, first: i64, order: OrderId) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sales_order o WHERE o.exchange_id > $1 AND o.id <> $2 AND EXISTS ( \
                       SELECT 1 FROM order_line_item l WHERE l.order_id = o.id AND l.observed_ms IS NULL \
                         AND l.missing_since_ms IS NULL))";
        self.fetch_value(sql, (first, order), "read the answers about other orders").await
    }

    /// Returns true if the order has lines and none of those not missing has units left.
    async fn order_has_nothing_left(&mut self, order: OrderId) -> Result<bool> {
        let sql = "SELECT count(*) > 0 AND count(*) FILTER ( \
                       WHERE missing_since_ms IS NULL AND quantity_left IS DISTINCT FROM 0) = 0 \
                   FROM order_line_item WHERE order_id = $1";
        self.fetch_value(sql, (order,), "read the units left of an order").await
    }
}
