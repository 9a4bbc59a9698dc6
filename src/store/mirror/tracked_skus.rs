//! Tracked SKUs.
//!
//! The platform lists none, so people and programs name them; more are discovered in answers.

use super::stock_levels::json_rows;
use crate::model::{ExchangeId, Position, Sku};
use crate::store::engine::lossy_text::LossyText;
use crate::store::{Result, Store, WriteTransaction};
use serde_json::Value;
use sqlx::types::Json;

/// Number of SKUs per query in a full listing; between queries other reads can use the connection.
pub(in crate::store) const LISTING_PAGE: u32 = 1_000;

/// Progress of a run over the tracked SKUs, which reads each once although answers are recorded meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct StalestProgress {
    /// Bytes of the last SKU taken from those never read, in hexadecimal.
    never_read: String,
    /// True if all SKUs never read were taken.
    took_never_read: bool,
    /// Exchange and id of the read batch, and product, of the last SKU taken from those read before.
    last_read: (i64, i64, i64),
}

impl Store {
    /// Passes the tracked SKUs with their origins in pages to `each` until it returns false; an account may
    /// have a million. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub(crate) async fn tracked_sku_each(
        &self,
        mut each: impl FnMut(Vec<(String, String)>) -> bool,
    ) -> Result<()> {
        let sql = "SELECT sku, origin, hex(sku) FROM tracked_sku WHERE sku > CAST(unhex($1) AS TEXT) \
                   ORDER BY sku LIMIT $2";
        let mut after = String::new();
        loop {
            let rows: Vec<(LossyText, String, String)> =
                self.fetch_all(sql, (after, i64::from(LISTING_PAGE)), "list the tracked SKUs").await?;
            let Some((.., last)) = rows.last() else { return Ok(()) };
            after = last.clone();
            let is_last = rows.len() < LISTING_PAGE as usize;
            if !each(rows.into_iter().map(|(sku, origin, _)| (sku.into(), origin)).collect()) || is_last {
                return Ok(());
            }
        }
    }

    /// Returns true if exactly this spelling is tracked.
    pub(crate) async fn is_sku_tracked(&self, sku: &str) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM tracked_sku WHERE sku = $1)";
        self.fetch_value(sql, (sku,), "look for a tracked SKU").await
    }

    /// Returns the SKUs that the platform is proved not to return, those that went last first.
    pub(crate) async fn missing_skus(&self) -> Result<Vec<Value>> {
        let sql = "SELECT p.sku, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', p.missing_since_ms / 1000.0, 'unixepoch') AS missing_since, \
                       t.sku IS NOT NULL AS is_tracked FROM product p \
                   LEFT JOIN tracked_sku t ON t.sku = p.sku WHERE p.missing_since_ms IS NOT NULL \
                   ORDER BY p.missing_since_ms DESC, p.sku";
        self.fetch_objects(sql, (), "list the missing SKUs").await
    }

    /// Returns the number of tracked SKUs.
    pub(crate) async fn tracked_sku_count(&self) -> Result<i64> {
        self.fetch_value("SELECT count(*) FROM tracked_sku", (), "count the tracked SKUs").await
    }

    /// Returns the next tracked SKUs of a run, at most `limit`, and advances `progress`.
    ///
    /// First come the SKUs never requested, in order. SKUs whose read batch is older than `before`, the
    /// position at which the run began, follow by the age of the batch.
    pub(crate) async fn tracked_sku_stalest(
        &self,
        before: Position,
        progress: &mut StalestProgress,
        limit: u32,
    ) -> Result<Vec<String>> {
        // Each query returns one JSON text; single rows would cross to the connection's thread one by one.
        let mut page: Vec<String> = Vec::new();
        while !progress.took_never_read && page.is_empty() {
            // The bound of the join is for a server, which may read all products that the join names for each page. In a
            // subquery, a bound is evaluated once.
            let sql = "SELECT json_group_array(sku), CASE WHEN count(*) > 0 THEN hex(max(sku)) END, count(*) FROM ( \
                           SELECT t.sku FROM tracked_sku t \
                           LEFT JOIN product p ON p.sku = t.sku AND p.sku > (SELECT CAST(unhex($1) AS TEXT)) \
                           WHERE t.sku > CAST(unhex($1) AS TEXT) AND p.read_batch_id IS NULL \
                           ORDER BY t.sku LIMIT $2) page";
            let (skus, last, count): (LossyText, Option<String>, i64) = self
                .fetch_one(
                    sql,
                    (&progress.never_read, i64::from(limit)),
                    "find the SKUs that were never read",
                )
                .await?;
            page = serde_json::from_str(&String::from(skus)).expect("SQLite wrote the list, from texts");
            // The platform can have no SKU that is not UTF-8.
            page.retain(|sku: &String| !sku.contains(char::REPLACEMENT_CHARACTER));
            // A short page is the last one; a further query would scan all tracked SKUs for each page.
            progress.took_never_read = count < i64::from(limit);
            progress.never_read = last.unwrap_or_default();
        }
        let rest = limit.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        if rest == 0 || !progress.took_never_read {
            return Ok(page);
        }
        let sql = "SELECT json_group_array(json_array(sku, json_array(exchange_id, batch, product))) FROM ( \
                       SELECT p.sku, r.exchange_id, r.id AS batch, p.id AS product FROM read_batch r \
                       JOIN product p ON p.read_batch_id = r.id \
                       JOIN tracked_sku t ON t.sku = p.sku \
                       WHERE r.exchange_id < $1 AND (r.exchange_id, r.id, p.id) > ($3, $4, $5) \
                       ORDER BY r.exchange_id, r.id, p.id LIMIT $2) page";
        let (exchange, batch, product) = progress.last_read;
        let values = (before.0, i64::from(rest), exchange, batch, product);
        let Json::<Vec<(String, (i64, i64, i64))>>(found) =
            self.fetch_value(sql, values, "find the stalest SKUs").await?;
        if let Some((_, last)) = found.last() {
            progress.last_read = *last;
        }
        page.extend(found.into_iter().map(|(sku, _)| sku));
        Ok(page)
    }
}

impl WriteTransaction {
    /// Tracks SKUs and returns the number of new ones.
    pub(crate) async fn tracked_sku_add(&mut self, skus: &[Sku]) -> Result<u64> {
        let sql = "INSERT INTO tracked_sku (sku) SELECT atom FROM json_each($1) \
                   WHERE true ON CONFLICT DO NOTHING";
        self.execute_counting(sql, (json_rows(skus),), "track SKUs").await
    }

    /// Stops tracking SKUs; a later discovery does not track them again.
    pub(crate) async fn tracked_sku_remove(&mut self, skus: &[Sku]) -> Result<u64> {
        let sql = "DELETE FROM tracked_sku WHERE sku IN (SELECT atom FROM json_each($1))";
        self.execute_counting(sql, (json_rows(skus),), "stop tracking SKUs").await
    }

    /// Records discovered SKUs; they are tracked unless a person removed them.
    pub(crate) async fn discovered_sku_add(&mut self, exchange: ExchangeId, skus: &[Sku]) -> Result<u64> {
        let sql = "INSERT INTO discovered_sku (sku, exchange_id) SELECT atom, $2 FROM json_each($1)";
        self.execute_counting(sql, (json_rows(skus), exchange.0), "record discovered SKUs").await
    }
}
