//! Rows for `status` and `stock`.

use crate::model::Timestamp;
use crate::store::engine::fetch::SqlValues;
use crate::store::engine::json_fields::flag;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::mirror::tracked_skus::LISTING_PAGE;
use crate::store::{Result, Store};
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use sqlx_macros::FromRow;

#[derive(Clone, Debug, Deserialize, Serialize)]
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
    #[serde(deserialize_with = "flag")]
    pub is_active: Option<bool>,
    /// True if the quantity counts in the balances of storefronts.
    #[serde(deserialize_with = "flag")]
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

/// Statement of the stock of the SKUs that another one selects. It returns one text, because single rows would cross to
/// the connection's thread one by one.
macro_rules! stock_of {
    ($skus:literal) => {
        concat!(
            "WITH page AS (",
            $skus,
            ") SELECT (SELECT json_group_array(json_array(sku, warehouse_id, warehouse_name, product_id, quantity, \
                   pending_quantity, is_active, include_in_sync, observed_at)) \
                   FROM (SELECT * FROM stock WHERE sku IN (SELECT sku FROM page) ORDER BY sku, warehouse_id) level), \
               (SELECT max(sku) FROM page)"
        )
    };
}

impl Store {
    /// Returns the stock of these SKUs; of all if `skus` is empty.
    pub(crate) async fn stock_list(&self, skus: &[String]) -> Result<Vec<StockRow>> {
        let mut all = Vec::new();
        self.stock_each(skus, |mut rows| {
            all.append(&mut rows);
            true
        })
        .await?;
        Ok(all)
    }

    /// Passes the stock in pages to `each` until it returns false; an account may have a million SKUs. The next page is
    /// read meanwhile.
    pub(crate) async fn stock_each(
        &self,
        skus: &[String],
        mut each: impl FnMut(Vec<StockRow>) -> bool,
    ) -> Result<()> {
        if !skus.is_empty() {
            let sql = stock_of!("SELECT atom AS sku FROM json_each($1)");
            each(self.stock_rows(sql, (json_rows(skus),)).await?.0);
            return Ok(());
        }
        let page = stock_of!("SELECT sku FROM product WHERE sku > $1 ORDER BY sku LIMIT $2");
        let mut read = self.stock_rows(page, ("", i64::from(LISTING_PAGE))).await?;
        while let (rows, Some(last)) = read {
            let next = self.stock_rows(page, (&last, i64::from(LISTING_PAGE)));
            let (next, goes_on) = tokio::join!(next, async { each(rows) });
            if !goes_on {
                return Ok(());
            }
            read = next?;
        }
        Ok(())
    }

    /// Returns the stock that a statement of `stock_of!` selects, and the last SKU of it.
    async fn stock_rows(
        &self,
        sql: &'static str,
        values: impl SqlValues<'_>,
    ) -> Result<(Vec<StockRow>, Option<String>)> {
        let (Json(rows), last) = self.fetch_one(sql, values, "read the stock").await?;
        Ok((rows, last))
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
