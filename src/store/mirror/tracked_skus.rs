//! Tracked SKUs.
//!
//! The platform lists none, so people and programs name them; more are discovered in answers.

use crate::model::{ExchangeId, Position, Sku, Timestamp};
use crate::store::engine::error::Doing;
use crate::store::engine::lossy_text::Text;
use crate::store::{Store, StoreError, Write};

/// Event of a SKU whose product a create in doubt proved to have created.
pub const SKU_LEARNT: &str = "sku.learnt";

/// Number of rows per query in a full listing; between queries other reads can use the connection.
const PAGE: u32 = 1_000;

/// Progress of a run over the tracked SKUs, stalest first.
///
/// The run reads each SKU once, although answers are recorded meanwhile.
#[derive(Clone, Debug)]
pub struct Stalest {
    /// Bytes of the last SKU taken from those never read; `None`: all were taken.
    never_read: Option<Vec<u8>>,
    /// Exchange and id of the reading, and SKU, of the last one taken from those read before.
    read: (i64, i64, String),
}

impl Stalest {
    /// Returns true if the run has taken only SKUs that were never read.
    pub fn is_at_never_read(&self) -> bool {
        self.never_read.is_some()
    }
}

impl Default for Stalest {
    fn default() -> Self {
        Self { never_read: Some(Vec::new()), read: (0, 0, String::new()) }
    }
}

/// Parses rows from one JSON text; single rows would cross to the connection's thread one by one.
fn listed<T: serde::de::DeserializeOwned>(rows: &str) -> Vec<T> {
    serde_json::from_str(rows).expect("SQLite wrote the list, from texts and integers")
}

impl Store {
    /// Passes the tracked SKUs with their origins to `each` in pages, in order.
    ///
    /// An account may have a million SKUs. `each` returns false to stop. Bytes that are not UTF-8 are
    /// replaced by U+FFFD.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn tracked_sku_each(
        &self,
        mut each: impl FnMut(Vec<(String, String)>) -> bool,
    ) -> Result<(), StoreError> {
        let sql = "SELECT sku, origin, CAST(sku AS BLOB) FROM tracked_sku WHERE sku > CAST(?1 AS TEXT) ORDER BY sku LIMIT ?2";
        let mut after: Vec<u8> = Vec::new();
        loop {
            let query = sqlx::query_as(sql).bind(after).bind(PAGE);
            let rows: Vec<(Text, String, Vec<u8>)> =
                query.fetch_all(&mut *self.read().await?).await.doing("list the tracked SKUs")?;
            let Some((.., last)) = rows.last() else { return Ok(()) };
            after = last.clone();
            let is_last = rows.len() < PAGE as usize;
            if !each(rows.into_iter().map(|(sku, origin, _)| (sku.into(), origin)).collect()) || is_last {
                return Ok(());
            }
        }
    }

    /// Returns the number of tracked SKUs.
    pub async fn tracked_sku_count(&self) -> Result<i64, StoreError> {
        let count =
            sqlx::query_scalar("SELECT count(*) FROM tracked_sku").fetch_one(&mut *self.read().await?).await;
        count.doing("count the tracked SKUs")
    }

    /// Returns the next tracked SKUs of a run, at most `limit`, and advances `stands`.
    ///
    /// First come the SKUs never requested, in order. SKUs whose reading is older than `before`, the position
    /// at which the run began, follow by the age of the reading.
    pub async fn tracked_sku_stalest(
        &self,
        before: Position,
        stands: &mut Stalest,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let mut page: Vec<String> = Vec::new();
        while let (Some(after), true) = (&stands.never_read, page.is_empty()) {
            let sql = "SELECT json_group_array(sku), CAST(max(sku) AS BLOB), count(*) FROM ( \
                           SELECT t.sku FROM tracked_sku t LEFT JOIN product p ON p.sku = t.sku \
                           WHERE t.sku > CAST(?1 AS TEXT) AND p.read_batch_id IS NULL \
                           ORDER BY t.sku LIMIT ?2)";
            let query = sqlx::query_as(sql).bind(after).bind(limit);
            let never = query.fetch_one(&mut *self.read().await?).await;
            let (skus, last, count): (Text, Option<Vec<u8>>, u32) =
                never.doing("find the SKUs that were never read")?;
            page = listed(&String::from(skus));
            // The platform can have no SKU that is not UTF-8.
            page.retain(|sku: &String| !sku.contains(char::REPLACEMENT_CHARACTER));
            // A short page is the last one; a further query would scan all tracked SKUs for each page.
            stands.never_read = last.filter(|_| count >= limit);
        }
        let rest = limit.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        if rest > 0 && stands.never_read.is_none() {
            page.extend(self.tracked_sku_stale(before, stands, rest).await?);
        }
        Ok(page)
    }

    async fn tracked_sku_stale(
        &self,
        before: Position,
        stands: &mut Stalest,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT json_group_array(json_array(sku, exchange_id, id)) FROM ( \
                       SELECT p.sku, r.exchange_id, r.id FROM read_batch r \
                       JOIN product p ON p.read_batch_id = r.id \
                       JOIN tracked_sku t ON t.sku = p.sku \
                       WHERE r.exchange_id < ?1 AND (r.exchange_id, r.id, p.sku) > (?3, ?4, ?5) \
                       ORDER BY r.exchange_id, r.id, p.sku LIMIT ?2)";
        let (exchange, reading, sku) = &stands.read;
        let found: String = sqlx::query_scalar(sql)
            .bind(before.0)
            .bind(limit)
            .bind(exchange)
            .bind(reading)
            .bind(sku)
            .fetch_one(&mut *self.read().await?)
            .await
            .doing("find the stalest SKUs")?;
        let found: Vec<(String, i64, i64)> = listed(&found);
        if let Some((sku, exchange, reading)) = found.last() {
            stands.read = (*exchange, *reading, sku.clone());
        }
        Ok(found.into_iter().map(|(sku, ..)| sku).collect())
    }
}

impl Write {
    /// Tracks SKUs and returns the number of new ones.
    pub async fn tracked_sku_add(&mut self, skus: &[Sku]) -> Result<u64, StoreError> {
        let json = super::stock_levels::json(skus);
        let sql = "INSERT INTO tracked_sku (sku) SELECT value FROM json_each(?1)";
        let done = sqlx::query(sql).bind(json).execute(&mut *self.tx).await.doing("track SKUs")?;
        Ok(done.rows_affected())
    }

    /// Stops tracking SKUs; a later discovery does not track them again.
    pub async fn tracked_sku_remove(&mut self, skus: &[Sku]) -> Result<u64, StoreError> {
        let json = super::stock_levels::json(skus);
        let sql = "DELETE FROM tracked_sku WHERE sku IN (SELECT value FROM json_each(?1))";
        let done = sqlx::query(sql).bind(json).execute(&mut *self.tx).await.doing("stop tracking SKUs")?;
        Ok(done.rows_affected())
    }

    /// Records discovered SKUs; they are tracked unless a person removed them.
    pub async fn learnt_sku_add(&mut self, exchange: ExchangeId, skus: &[Sku]) -> Result<u64, StoreError> {
        let json = super::stock_levels::json(skus);
        let sql = "INSERT INTO discovered_sku (sku, exchange_id) SELECT value, ?2 FROM json_each(?1)";
        let done = sqlx::query(sql).bind(json).bind(exchange.0).execute(&mut *self.tx).await;
        Ok(done.doing("note the SKUs that were met")?.rows_affected())
    }

    /// Records the SKU of a product that a create in doubt created, with its event for a replay.
    pub async fn learnt_sku_made(
        &mut self,
        exchange: ExchangeId,
        sku: &Sku,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let detail = serde_json::json!({"exchange_id": exchange.0}).to_string();
        self.event_append(at, SKU_LEARNT, sku.as_str(), Some(&detail)).await?;
        self.learnt_sku_add(exchange, std::slice::from_ref(sku)).await.map(drop)
    }

    /// Applies the event [`SKU_LEARNT`] in a replay.
    pub async fn learnt_sku_refold(&mut self, sku: &str, detail: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO discovered_sku (sku, exchange_id) SELECT ?1, ?2->>'exchange_id'";
        let done = sqlx::query(sql).bind(sku).bind(detail).execute(&mut *self.tx).await;
        done.map(drop).doing("note a SKU that was made")
    }
}
