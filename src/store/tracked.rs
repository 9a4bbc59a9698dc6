//! Tracked SKUs. The service lists none, so people and programs name them; others are learnt on the way.

use super::error::Doing;
use super::text::Text;
use super::{Store, StoreError, Write};
use crate::model::{ExchangeId, Position, Sku, Timestamp};

/// The kind of event by which a SKU is learnt whose create proved to be done although its answer is lost.
pub const SKU_LEARNT: &str = "sku.learnt";

/// Rows that are read at a time where all are wanted: the connection is free for others in between.
const PAGE: u32 = 1_000;

/// Where a run over the tracked SKUs, stalest first, stands: it takes each once, while others are still being recorded.
#[derive(Clone, Debug)]
pub struct Stalest {
    /// The bytes of the last one taken of those never read; `None`: all were taken.
    never_read: Option<Vec<u8>>,
    /// The last one taken of the others: the exchange and id of its reading, and itself.
    read: (i64, i64, String),
}

impl Stalest {
    /// Whether all that were taken so far were never read.
    pub fn is_at_never_read(&self) -> bool {
        self.never_read.is_some()
    }
}

impl Default for Stalest {
    fn default() -> Self {
        Self { never_read: Some(Vec::new()), read: (0, 0, String::new()) }
    }
}

/// Reads rows that came as one JSON text: one by one they would cross to the connection's thread one by one.
fn listed<T: serde::de::DeserializeOwned>(rows: &str) -> Vec<T> {
    serde_json::from_str(rows).expect("SQLite wrote the list, from texts and integers")
}

impl Store {
    /// The tracked SKUs in order, with their origin, some at a time: a shop may have a million. `each` says whether it
    /// wants more. A SKU that is no UTF-8 is listed with U+FFFD in the place of what is none.
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

    /// How many SKUs are tracked.
    pub async fn tracked_sku_count(&self) -> Result<i64, StoreError> {
        let count =
            sqlx::query_scalar("SELECT count(*) FROM tracked_sku").fetch_one(&mut *self.read().await?).await;
        count.doing("count the tracked SKUs")
    }

    /// The next tracked SKUs of a run, at most `limit`: those never asked for, in order, then those whose reading is
    /// oldest and older than `before`, the position at which the run began. Where it stands is moved on.
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
            // The service can know no SKU that is no UTF-8.
            page.retain(|sku: &String| !sku.contains(char::REPLACEMENT_CHARACTER));
            // Looking for more would go through all that are tracked, for each page.
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
    /// Tracks SKUs; the number that were not tracked before is returned.
    pub async fn tracked_sku_add(&mut self, skus: &[Sku]) -> Result<u64, StoreError> {
        let json = super::cells::json(skus);
        let sql = "INSERT INTO tracked_sku (sku) SELECT value FROM json_each(?1)";
        let done = sqlx::query(sql).bind(json).execute(&mut *self.tx).await.doing("track SKUs")?;
        Ok(done.rows_affected())
    }

    /// Forgets SKUs: they are not read again, and what is learnt later does not bring them back.
    pub async fn tracked_sku_remove(&mut self, skus: &[Sku]) -> Result<u64, StoreError> {
        let json = super::cells::json(skus);
        let sql = "DELETE FROM tracked_sku WHERE sku IN (SELECT value FROM json_each(?1))";
        let done = sqlx::query(sql).bind(json).execute(&mut *self.tx).await.doing("stop tracking SKUs")?;
        Ok(done.rows_affected())
    }

    /// Notes SKUs met on the way; they are tracked unless somebody removed them.
    pub async fn learnt_sku_add(&mut self, exchange: ExchangeId, skus: &[Sku]) -> Result<u64, StoreError> {
        let json = super::cells::json(skus);
        let sql = "INSERT INTO discovered_sku (sku, exchange_id) SELECT value, ?2 FROM json_each(?1)";
        let done = sqlx::query(sql).bind(json).bind(exchange.0).execute(&mut *self.tx).await;
        Ok(done.doing("note the SKUs that were met")?.rows_affected())
    }

    /// Learns the SKU of a product that a create in doubt proved to have made, with the event that a replay learns it from.
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

    /// Folds that event in again.
    pub async fn learnt_sku_refold(&mut self, sku: &str, detail: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO discovered_sku (sku, exchange_id) SELECT ?1, ?2->>'exchange_id'";
        let done = sqlx::query(sql).bind(sku).bind(detail).execute(&mut *self.tx).await;
        done.map(drop).doing("note a SKU that was made")
    }
}
