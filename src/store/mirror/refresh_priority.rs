//! Input of adaptive reading: the proved page size, recently moved SKUs, SKUs near zero.

use crate::model::Timestamp;
use crate::store::{Result, Store, WriteTransaction};
use sqlx_macros::FromRow;

/// Number of the newest history entries that are considered; the index returns them from its end.
const HISTORY_ENTRIES_MAX: i64 = 4_000;
/// Number of SKUs near zero that are considered, stalest first.
const NEAR_ZERO_MAX: i64 = 4_000;

/// Tracked SKU that may be worth an early read.
#[derive(Clone, Debug, FromRow)]
pub struct PrefetchRow {
    /// SKU.
    pub sku: String,
    /// Number of its entries among the newest of the history.
    pub history_entries: i64,
    /// True if a stock level holds one to three units, or at most as many as it lost since `since`, but not
    /// 0.
    pub is_near_zero: bool,
    /// Time at which its facts were requested.
    pub observed_ms: i64,
}

impl Store {
    /// Returns the tracked SKUs of the newest history entries since `since`, and those with one to three
    /// units.
    pub async fn prefetch_list(&self, since: Timestamp) -> Result<Vec<PrefetchRow>> {
        // The bounds 1 and 3 are part of the text, because SQLite would not use their index for parameters.
        let sql = "WITH moved AS (SELECT product, warehouse_id, count(*) AS history_entries, max(quantity) AS top FROM ( \
                       SELECT product, warehouse_id, quantity, observed_ms FROM balance_history \
                       ORDER BY position DESC LIMIT $1) newest \
                       WHERE observed_ms >= $2 GROUP BY product, warehouse_id), \
                   mover AS (SELECT m.product, CAST(sum(m.history_entries) AS BIGINT) AS history_entries, \
                                    count(*) FILTER (WHERE b.quantity > 0 AND ( \
                                        b.quantity <= 3 OR b.quantity <= m.top - b.quantity)) > 0 AS is_near_zero \
                             FROM moved m JOIN balance b USING (product, warehouse_id) GROUP BY m.product), \
                   low AS (SELECT DISTINCT b.product FROM balance b WHERE b.quantity BETWEEN 1 AND 3) \
                   SELECT p.sku, m.history_entries, r.observed_ms, \
                          m.is_near_zero OR EXISTS (SELECT 1 FROM low WHERE low.product = m.product) AS is_near_zero \
                   FROM mover m JOIN product p ON p.id = m.product JOIN tracked_sku t ON t.sku = p.sku \
                   JOIN read_batch r ON r.id = p.read_batch_id WHERE p.missing_since_ms IS NULL \
                   UNION ALL \
                   SELECT * FROM (SELECT p.sku, 0, r.observed_ms, TRUE \
                   FROM low JOIN product p ON p.id = low.product JOIN tracked_sku t ON t.sku = p.sku \
                   JOIN read_batch r ON r.id = p.read_batch_id WHERE p.missing_since_ms IS NULL \
                       AND NOT EXISTS (SELECT 1 FROM mover m WHERE m.product = low.product) \
                   ORDER BY r.exchange_id LIMIT $3) near_zero";
        self.fetch_all(sql, (HISTORY_ENTRIES_MAX, since.0, NEAR_ZERO_MAX), "find the SKUs to prefetch").await
    }

    /// Returns the proved page size, if it was proved under the present configuration.
    pub async fn page_size(&self, configured: usize) -> Result<Option<usize>> {
        let sql = "SELECT size FROM page_size WHERE configured = $1";
        let values = (i64::try_from(configured).unwrap_or(i64::MAX),);
        let size: Option<i64> = self.fetch_column(sql, values, "read the page size").await?.pop();
        Ok(size.and_then(|size| usize::try_from(size).ok()))
    }
}

impl WriteTransaction {
    /// Stores the proved page size.
    pub async fn page_size_store(&mut self, configured: usize, size: usize) -> Result<()> {
        let sql = "INSERT INTO page_size (id, configured, size) VALUES (1, $1, $2) \
                   ON CONFLICT (id) DO UPDATE SET configured = excluded.configured, size = excluded.size";
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.execute(sql, (number(configured), number(size)), "store the page size").await
    }
}
