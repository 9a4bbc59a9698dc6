//! Counts of the work queue, as a time series with a row for each difference.

use super::stock_levels::json_rows;
use crate::model::{ExchangeId, Timestamp};
use crate::store::{Result, Store, WriteTransaction};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use sqlx::types::Json;

/// The twelve counts of *WorkQueue* in the interface's order; `None`: the answer lacks the count.
pub(crate) type WorkQueueCounts = [Option<i64>; 12];

/// Indices of the counts of sales orders.
const ORDER_COUNTS: [usize; 6] = [4, 5, 6, 7, 9, 10];

const COUNT_COLUMNS: &str = "new_purchase_orders, submitted_purchase_orders, partially_received_purchase_orders, \
    open_work_orders, awaiting_payment_sales_orders, paid_in_process_sales_orders, cancelled_sales_orders, \
    paid_ready_to_ship_sales_orders, low_inventory_products, unshipped_sales_orders, unshipped_drop_ship_orders, \
    queued_listings";

fn order_counts(counts: &WorkQueueCounts) -> [Option<i64>; 6] {
    ORDER_COUNTS.map(|index| counts[index])
}

impl Store {
    /// Returns the newest counts, newest first; each row holds until the next.
    pub(crate) async fn work_queue_list(&self, limit: u32) -> Result<Vec<Value>> {
        let sql = format!(
            "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', observed_ms / 1000.0, 'unixepoch') AS observed_at, {COUNT_COLUMNS} \
             FROM work_queue ORDER BY exchange_id DESC LIMIT $1"
        );
        self.fetch_objects(AssertSqlSafe(sql), (i64::from(limit),), "read the work queue").await
    }
}

impl WriteTransaction {
    /// Records the counts. Returns true if any differs from the newest row, or there was none, and true if a count of
    /// sales orders differs from that row.
    pub(crate) async fn mirror_work_queue(
        &mut self,
        exchange: ExchangeId,
        observed_at: Timestamp,
        counts: &WorkQueueCounts,
    ) -> Result<(bool, bool)> {
        let newest =
            format!("SELECT json_array({COUNT_COLUMNS}) FROM work_queue ORDER BY exchange_id DESC LIMIT 1");
        let mut known = self.fetch_column(AssertSqlSafe(newest), (), "read the newest work queue").await?;
        let known = known.pop().map(|Json::<WorkQueueCounts>(known)| known);
        if known.as_ref() == Some(counts) {
            return Ok((false, false));
        }
        let values: String = (0..counts.len()).map(|i| format!(", CAST($3->>{i} AS BIGINT)")).collect();
        let insert = format!(
            "INSERT INTO work_queue (exchange_id, observed_ms, {COUNT_COLUMNS}) VALUES ($1, $2{values})"
        );
        let values = (exchange, observed_at, json_rows(counts));
        self.execute(AssertSqlSafe(insert), values, "record the work queue").await?;
        let orders_differ = known.is_some_and(|known| order_counts(&known) != order_counts(counts));
        Ok((true, orders_differ))
    }
}
