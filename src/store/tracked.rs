//! What is tracked: SKUs and orders. The service lists neither, so people and programs name them.

use super::error::Doing;
use super::text::Text;
use super::{Store, StoreError, Write};
use crate::model::{ExchangeId, OrderId, Position, Sku, Timestamp, time};
use sqlx::FromRow;
use std::time::Duration;

/// The kind of event by which a SKU is learnt whose create proved to be done although its answer is lost.
pub const SKU_LEARNT: &str = "sku.learnt";

/// What said nothing new for so long is read less often (rules.md 36): an order that never closes, a shipment nobody
/// confirms. Long enough for a weekend, so that Monday's work finds Friday's orders fresh.
pub const QUIET_AFTER: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// How often what is quiet is still read.
pub const QUIET_LOOK: Duration = Duration::from_secs(24 * 60 * 60);

/// A tracked order and what is known of it.
#[derive(Clone, Debug, FromRow)]
pub struct OrderRow {
    /// The order.
    pub order_id: i64,
    /// When the service last described it.
    pub observed_ms: Option<i64>,
    /// When a line last said something new.
    pub changed_ms: Option<i64>,
    /// When nothing was left to ship and all known shipments were on their way.
    pub closed_ms: Option<i64>,
    /// Its lines.
    pub lines: i64,
    /// Units sold.
    pub sold: Option<i64>,
    /// Units not in a shipment yet, where the service says so.
    pub left: Option<i64>,
}

/// Where a run over the tracked SKUs, stalest first, stands: it takes each once, while others are still being recorded.
#[derive(Clone, Debug)]
pub struct Stalest {
    /// The last one taken of those never read; `None`: all were taken.
    never_read: Option<String>,
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
        Self { never_read: Some(String::new()), read: (0, 0, String::new()) }
    }
}

/// Reads rows that came as one JSON text: one by one they would cross to the connection's thread one by one.
fn listed<T: serde::de::DeserializeOwned>(rows: &str) -> Vec<T> {
    serde_json::from_str(rows).expect("SQLite wrote the list, from texts and integers")
}

impl Store {
    /// The tracked SKUs in order, with their origin.
    pub async fn tracked_sku_list(&self) -> Result<Vec<(String, String)>, StoreError> {
        let rows = sqlx::query_as("SELECT sku, origin FROM tracked_sku ORDER BY sku")
            .fetch_all(&mut *self.read().await?)
            .await;
        rows.doing("list the tracked SKUs")
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
        if let Some(after) = &stands.never_read {
            let sql = "SELECT json_group_array(sku) FROM ( \
                           SELECT t.sku FROM tracked_sku t LEFT JOIN product p ON p.sku = t.sku \
                           WHERE t.sku > ?1 AND p.reading_id IS NULL ORDER BY t.sku LIMIT ?2)";
            let query = sqlx::query_scalar(sql).bind(after).bind(limit);
            let never = query.fetch_one(&mut *self.read().await?).await;
            let never: Text = never.doing("find the SKUs that were never read")?;
            page = listed(&String::from(never));
            // Looking for more would go through all that are tracked, for each page.
            stands.never_read = page.last().filter(|_| page.len() >= limit as usize).cloned();
        }
        let rest = limit.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        if rest > 0 {
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
                       SELECT p.sku, r.exchange_id, r.id FROM reading r JOIN product p ON p.reading_id = r.id \
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

    /// The tracked orders to be read at `now`, stalest first: those still open, quiet ones daily.
    pub async fn tracked_order_due(&self, now: Timestamp) -> Result<Vec<OrderId>, StoreError> {
        let sql = "SELECT t.order_id FROM tracked_order t LEFT JOIN sales_order o ON o.id = t.order_id \
                   WHERE o.id IS NULL OR (o.closed_ms IS NULL \
                         AND (?1 - o.changed_ms < ?2 OR ?1 - o.observed_ms >= ?3)) \
                   ORDER BY o.exchange_id, t.order_id";
        let ids: Vec<i64> = sqlx::query_scalar(sql)
            .bind(now.0)
            .bind(time::millis(QUIET_AFTER))
            .bind(time::millis(QUIET_LOOK))
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("find the open orders")?;
        Ok(ids.into_iter().map(OrderId).collect())
    }

    /// The tracked orders with what is known of each.
    pub async fn tracked_order_list(&self) -> Result<Vec<OrderRow>, StoreError> {
        let sql = "SELECT t.order_id, o.observed_ms, o.changed_ms, o.closed_ms, count(l.line_item_id) AS lines, \
                          sum(l.quantity_sold) AS sold, sum(l.quantity_left) AS left \
                   FROM tracked_order t LEFT JOIN sales_order o ON o.id = t.order_id \
                   LEFT JOIN order_line_item l ON l.order_id = t.order_id AND l.missing_since_ms IS NULL \
                   GROUP BY t.order_id ORDER BY t.order_id";
        sqlx::query_as(sql).fetch_all(&mut *self.read().await?).await.doing("list the tracked orders")
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
        let sql = "INSERT INTO learnt_sku (sku, exchange_id) SELECT value, ?2 FROM json_each(?1)";
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
        let sql = "INSERT INTO learnt_sku (sku, exchange_id) SELECT ?1, ?2->>'exchange_id'";
        let done = sqlx::query(sql).bind(sku).bind(detail).execute(&mut *self.tx).await;
        done.map(drop).doing("note a SKU that was made")
    }

    /// Tracks orders; the number that were not tracked before is returned.
    pub async fn tracked_order_add(&mut self, orders: &[OrderId]) -> Result<u64, StoreError> {
        let json = super::cells::json(orders);
        let sql = "INSERT INTO tracked_order (order_id) SELECT value FROM json_each(?1)";
        let done = sqlx::query(sql).bind(json).execute(&mut *self.tx).await.doing("track orders")?;
        Ok(done.rows_affected())
    }

    /// Forgets orders.
    pub async fn tracked_order_remove(&mut self, orders: &[OrderId]) -> Result<u64, StoreError> {
        let json = super::cells::json(orders);
        let sql = "DELETE FROM tracked_order WHERE order_id IN (SELECT value FROM json_each(?1))";
        let done = sqlx::query(sql).bind(json).execute(&mut *self.tx).await.doing("stop tracking orders")?;
        Ok(done.rows_affected())
    }
}
