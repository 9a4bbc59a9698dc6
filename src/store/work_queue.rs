//! The work queue's counts, a time series: a row only when a count moved.

use super::error::Doing;
use super::{StoreError, Write};
use crate::model::{ExchangeId, Timestamp};

/// The twelve counts of *WorkQueue*, in the document's order; one the answer lacks is `None`.
pub type WorkQueueCounts = [Option<i64>; 12];

const COLUMNS: &str = "new_purchase_orders, submitted_purchase_orders, partially_received_purchase_orders, \
    open_work_orders, awaiting_payment_sales_orders, paid_in_process_sales_orders, cancelled_sales_orders, \
    paid_ready_to_ship_sales_orders, low_inventory_products, unshipped_sales_orders, unshipped_drop_ship_orders, \
    queued_listings";

impl Write {
    /// Records the counts; whether any differs from the newest row is returned.
    pub async fn mirror_work_queue(
        &mut self,
        exchange: ExchangeId,
        observed_at: Timestamp,
        counts: &WorkQueueCounts,
    ) -> Result<bool, StoreError> {
        let newest =
            format!("SELECT json_array({COLUMNS}) FROM work_queue ORDER BY exchange_id DESC LIMIT 1");
        let known: Option<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(newest))
            .fetch_optional(&mut *self.tx)
            .await
            .doing("read the newest work queue")?;
        let json = super::cells::json(counts);
        if known.as_deref() == Some(json.as_str()) {
            return Ok(false);
        }
        let values: String = (0..counts.len()).map(|i| format!(", ?3->>{i}")).collect();
        let insert =
            format!("INSERT INTO work_queue (exchange_id, observed_ms, {COLUMNS}) VALUES (?1, ?2{values})");
        let query = sqlx::query(sqlx::AssertSqlSafe(insert)).bind(exchange.0).bind(observed_at.0).bind(json);
        query.execute(&mut *self.tx).await.doing("record the work queue")?;
        Ok(true)
    }
}
