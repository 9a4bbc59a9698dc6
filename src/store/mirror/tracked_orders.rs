//! Tracked orders: their known state and the choice of those to read next.
//!
//! The platform lists no orders. Open orders are read at each run, quiet ones daily. An order whose last
//! answer lacked one of its lines is read at the next run, because a second answer decides on the line. A
//! closed order may reopen: if a person cancels its shipment at the platform, all of it is left to ship
//! again. A closed order is therefore read again with growing delays. Orders that a person names come first.

use super::stock_levels::json_rows;
use crate::model::{OrderId, Timestamp, code_enum, time};
use crate::store::{Result, Store, WriteTransaction};
use sqlx_macros::FromRow;
use std::time::Duration;

/// Time without news after which an order or a shipment is read once a day; it covers a weekend.
pub(crate) const QUIET_AFTER: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// First delay before a closed order is read again; each further delay doubles, up to daily. A shipment
/// created by mistake is mostly cancelled soon.
const CLOSED_READ_DELAY: Duration = Duration::from_secs(5 * 60);
/// Time since the closing for which an order is read again; later a person must name it.
const CLOSED_READ_PERIOD: Duration = Duration::from_secs(28 * 24 * 60 * 60);

/// Tracked order with its known state.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct OrderRow {
    pub order_id: i64,
    /// Time at which its least recently described line was described, or the order where it has no line.
    pub observed_ms: Option<i64>,
    /// Time at which an answer last changed a line.
    pub changed_ms: Option<i64>,
    /// Time at which the order closed: nothing left to ship and all shipments shipped, or the last line gone.
    pub closed_ms: Option<i64>,
    pub lines: i64,
    /// Number of lines that the last whole answer lacked.
    pub absent: i64,
    /// Number of lines that are gone.
    pub missing: i64,
    pub sold: Option<i64>,
    /// Units not in a shipment yet, where the platform reports them.
    pub left: Option<i64>,
}

code_enum! {
    /// State of a tracked order; its code is the name in lists and `--json`.
    pub(crate) enum OrderState {
        Unread = "unread",
        /// The platform shows no line and never did: the id may be that of no order.
        NoLines = "no lines",
        /// The last answer held none of its lines; a second answer must confirm that.
        Empty = "empty",
        /// All its lines are gone: the order was cancelled or emptied.
        Emptied = "emptied",
        Closed = "closed",
        /// Open without news for [`QUIET_AFTER`]: read daily.
        Stale = "stale",
        Open = "open",
    }
}

impl OrderRow {
    pub(crate) fn state(&self, now: Timestamp) -> OrderState {
        let is_quiet = self.changed_ms.is_some_and(|at| now.duration_since(Timestamp(at)) >= QUIET_AFTER);
        match (self.observed_ms, self.closed_ms) {
            (None, _) => OrderState::Unread,
            _ if self.lines == 0 && self.missing > 0 => OrderState::Emptied,
            (_, Some(_)) => OrderState::Closed,
            _ if self.lines == 0 => OrderState::NoLines,
            _ if self.absent == self.lines => OrderState::Empty,
            _ if is_quiet => OrderState::Stale,
            _ => OrderState::Open,
        }
    }
}

#[derive(Clone, Copy, Debug, FromRow)]
pub(crate) struct RequestedOrder {
    /// Id of the request; later requests have larger ids.
    pub id: i64,
    pub order_id: i64,
}

impl Store {
    /// Returns the tracked orders to be read at `now`, least recently read first: each with true if a person named it, and
    /// with true if it is closed.
    pub(crate) async fn tracked_order_due(&self, now: Timestamp) -> Result<Vec<(OrderId, bool, bool)>> {
        let sql = "SELECT t.order_id, a.id IS NOT NULL, o.closed_ms IS NOT NULL FROM tracked_order t \
                   LEFT JOIN sales_order o ON o.id = t.order_id \
                   LEFT JOIN order_read_request a ON a.order_id = t.order_id \
                   WHERE CASE \
                       WHEN o.id IS NULL OR a.id IS NOT NULL OR EXISTS ( \
                           SELECT 1 FROM order_line_item l WHERE l.order_id = o.id AND l.missing_since_ms IS NULL \
                               AND $1 - coalesce(l.absent_ms, l.observed_ms) < $2) THEN TRUE \
                       WHEN o.closed_ms IS NULL THEN $1 - o.changed_ms < $2 OR $1 - o.observed_ms >= $3 \
                       ELSE $1 - o.closed_ms < $5 AND ($1 - o.observed_ms >= $3 OR ($1 - o.observed_ms >= $4 \
                               AND $1 - o.observed_ms >= o.observed_ms - o.closed_ms)) END \
                   ORDER BY o.exchange_id NULLS FIRST, t.order_id";
        let values = (
            now.0,
            time::whole_millis(QUIET_AFTER),
            time::whole_millis(time::DAY),
            time::whole_millis(CLOSED_READ_DELAY),
            time::whole_millis(CLOSED_READ_PERIOD),
        );
        self.fetch_all(sql, values, "find the orders to be read").await
    }

    /// Returns the order that was named last and is not among `without`.
    pub(crate) async fn order_read_request_last(
        &self,
        without: &[OrderId],
    ) -> Result<Option<RequestedOrder>> {
        let sql = "SELECT a.id, a.order_id FROM order_read_request a \
                   WHERE a.order_id NOT IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) \
                   ORDER BY a.id DESC LIMIT 1";
        self.fetch_optional(sql, (json_rows(without),), "find the newest read request for an order").await
    }

    /// Lists the tracked orders with their known state.
    pub(crate) async fn tracked_order_list(&self) -> Result<Vec<OrderRow>> {
        self.fetch_all(ORDER_ROWS, (None::<i64>,), "list the tracked orders").await
    }

    /// Returns the known state of an order, tracked or not; `None`: it was never read.
    pub(crate) async fn order_row(&self, order: OrderId) -> Result<Option<OrderRow>> {
        let sql = ORDER_ROWS.replace("tracked_order t", "(SELECT id AS order_id FROM sales_order) t");
        self.fetch_optional(sqlx::AssertSqlSafe(sql), (order.0,), "read the state of an order").await
    }
}

const ORDER_ROWS: &str = "SELECT t.order_id, min(coalesce(l.observed_ms, o.observed_ms)) AS observed_ms, \
            max(o.changed_ms) AS changed_ms, max(o.closed_ms) AS closed_ms, \
            count(l.line_item_id) AS lines, count(l.absent_ms) AS absent, \
            (SELECT count(*) FROM order_line_item g \
             WHERE g.order_id = t.order_id AND g.missing_since_ms IS NOT NULL) AS missing, \
            CAST(sum(l.quantity_sold) AS BIGINT) AS sold, CAST(sum(l.quantity_left) AS BIGINT) AS left \
     FROM tracked_order t LEFT JOIN sales_order o ON o.id = t.order_id \
     LEFT JOIN order_line_item l ON l.order_id = t.order_id AND l.missing_since_ms IS NULL \
     WHERE CAST($1 AS BIGINT) IS NULL OR t.order_id = $1 GROUP BY t.order_id ORDER BY t.order_id";

impl WriteTransaction {
    /// Tracks orders, which are read at the next free call, and returns the number of new ones.
    pub(crate) async fn tracked_order_add(&mut self, orders: &[OrderId]) -> Result<u64> {
        let sql = "INSERT INTO tracked_order (order_id) SELECT CAST(atom AS BIGINT) FROM json_each($1) \
                   WHERE true ON CONFLICT DO NOTHING";
        self.execute_counting(sql, (json_rows(orders),), "track orders").await
    }

    /// Requests that tracked orders, also closed ones, are read at the next free call.
    pub(crate) async fn order_read_request_add(&mut self, orders: &[OrderId]) -> Result<()> {
        let sql = "INSERT INTO order_read_request (order_id) \
                   SELECT t.order_id FROM tracked_order t \
                   WHERE t.order_id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) ORDER BY t.order_id \
                   ON CONFLICT (order_id) DO UPDATE SET id = excluded.id";
        self.execute(sql, (json_rows(orders),), "request reads of orders").await
    }

    /// Removes the request for an order that was read; a request that came later stays.
    pub(crate) async fn order_read_request_done(&mut self, request: RequestedOrder) -> Result<()> {
        let sql = "DELETE FROM order_read_request WHERE order_id = $1 AND id <= $2";
        self.execute(sql, (request.order_id, request.id), "remove the read request of an order").await
    }

    /// Stops tracking orders and returns their number.
    pub(crate) async fn tracked_order_remove(&mut self, orders: &[OrderId]) -> Result<u64> {
        let sql = "DELETE FROM tracked_order \
                   WHERE order_id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1))";
        self.execute_counting(sql, (json_rows(orders),), "stop tracking orders").await
    }
}
