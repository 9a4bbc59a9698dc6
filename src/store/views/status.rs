//! Rows for `status` and `stock`.

use crate::model::Timestamp;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::mirror::tracked_skus::LISTING_PAGE;
use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct StockRow {
    pub sku: String,
    pub warehouse_id: i64,
    /// Name of the warehouse, once the list of warehouses was read.
    pub warehouse_name: Option<String>,
    pub product_id: Option<i64>,
    pub quantity: i64,
    /// Quantity after the pending changes; `None`: there are none.
    pub pending_quantity: Option<i64>,
    /// True if the warehouse is active for the product.
    pub is_active: Option<bool>,
    /// True if the quantity counts in the balances of storefronts.
    pub include_in_sync: Option<bool>,
    /// Time at which the fact's request was sent, RFC 3339.
    pub observed_at: Option<String>,
}

#[derive(Clone, Debug, FromRow, Serialize)]
pub struct JobHealthRow {
    pub job: String,
    /// Start of its last `ok` run, RFC 3339.
    pub last_good_at: Option<String>,
    /// Age of its data in seconds.
    pub age_seconds: Option<i64>,
    /// True if its data is older than twice its interval.
    pub stale: bool,
    pub next_due_at: Option<String>,
    pub last_outcome: Option<String>,
    /// Time at which the job was enabled, in milliseconds since 1970.
    #[serde(skip)]
    pub since_ms: i64,
    /// Longest gap in the schedule, in milliseconds; `None`: the job has no schedule.
    #[serde(skip)]
    pub interval_ms: Option<i64>,
}

impl JobHealthRow {
    /// Returns the start of the last `ok` run.
    pub(crate) fn last_good(&self) -> Option<Timestamp> {
        self.last_good_at.as_deref().and_then(Timestamp::parse)
    }
}

#[derive(Clone, Copy, Debug, Default, FromRow, Serialize)]
pub(crate) struct MirrorCounts {
    pub skus: i64,
    pub stock_levels: i64,
    /// SKUs that the platform does not return.
    pub missing_skus: i64,
    pub orders: i64,
    pub parked: i64,
    pub exchanges: i64,
    pub runs: i64,
}

impl Store {
    /// Returns the stock of these SKUs; of all if `skus` is empty.
    pub(crate) async fn stock_list(&self, skus: &[String]) -> Result<Vec<StockRow>> {
        if skus.is_empty() {
            let sql = "SELECT * FROM stock ORDER BY sku, warehouse_id";
            return self.fetch_all(sql, (), "read the stock").await;
        }
        // A statement of its own, because a condition for both cases would read every product.
        let sql =
            "SELECT * FROM stock WHERE sku IN (SELECT atom FROM json_each($1)) ORDER BY sku, warehouse_id";
        self.fetch_all(sql, (json_rows(skus),), "read the stock of some SKUs").await
    }

    /// Passes the stock in pages to `each` until it returns false; an account may have a million SKUs.
    pub(crate) async fn stock_each(
        &self,
        skus: &[String],
        mut each: impl FnMut(Vec<StockRow>) -> bool,
    ) -> Result<()> {
        if !skus.is_empty() {
            each(self.stock_list(skus).await?);
            return Ok(());
        }
        let sql = "SELECT sku FROM product WHERE sku > $1 ORDER BY sku LIMIT $2";
        let mut after = String::new();
        loop {
            let page: Vec<String> =
                self.fetch_column(sql, (&after, i64::from(LISTING_PAGE)), "read the SKUs").await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(last);
            if !each(self.stock_list(&page).await?) || page.len() < LISTING_PAGE as usize {
                return Ok(());
            }
        }
    }

    /// Returns the health of every enabled job: the view `job_health` as of `now`, for it reads the host's clock.
    pub async fn job_health(&self, now: Timestamp) -> Result<Vec<JobHealthRow>> {
        let sql = "SELECT job, strftime('%Y-%m-%dT%H:%M:%fZ', last_good_ms / 1000.0, 'unixepoch') AS last_good_at, \
                          ($1 - last_good_ms) / 1000 AS age_seconds, \
                          interval_ms IS NOT NULL \
                              AND $1 - coalesce(last_good_ms, since_ms) > 2 * interval_ms AS stale, \
                          strftime('%Y-%m-%dT%H:%M:%fZ', next_due_ms / 1000.0, 'unixepoch') AS next_due_at, \
                          last_outcome, since_ms, interval_ms FROM job_state WHERE enabled ORDER BY job";
        self.fetch_all(sql, (now.0,), "read the health of the jobs").await
    }

    /// Returns the counts of the summary lines.
    pub(crate) async fn mirror_counts(&self) -> Result<MirrorCounts> {
        // One scan of the products serves both of their counts.
        let sql = "SELECT p.skus, p.missing_skus, (SELECT count(*) FROM balance) AS stock_levels, \
                          (SELECT count(*) FROM tracked_order) AS orders, \
                          (SELECT count(*) FROM parked) AS parked, \
                          (SELECT count(*) FROM exchange) AS exchanges, (SELECT count(*) FROM run) AS runs \
                   FROM (SELECT count(product_id) AS skus, count(missing_since_ms) AS missing_skus FROM product) p";
        self.fetch_one(sql, (), "read the mirror's counts").await
    }

    /// Returns true if the platform refused the key at the last call whose answer tells.
    ///
    /// A failure or a throttle does not, nor a 403 that may mean the content (`client/verdict.rs`).
    pub(crate) async fn key_is_refused(&self) -> Result<bool> {
        let sql = "SELECT verdict = 'refused' FROM exchange WHERE verdict IN ('accepted', 'refused') \
                   OR verdict = 'rejected' AND status <> 403 ORDER BY id DESC LIMIT 1";
        let last: Vec<bool> = self.fetch_column(sql, (), "read the last call").await?;
        Ok(last == [true])
    }
}
