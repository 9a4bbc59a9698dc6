//! What adaptive reading remembers and looks at: the page size that was proved, and what moved lately.

use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::Timestamp;
use sqlx::FromRow;

/// So many moves back are looked at: a few pages of SKUs, found from the end of the index.
const MOVES: i64 = 4_000;
/// A cell with so many units or fewer is near zero.
const NEAR_ZERO: i64 = 3;

/// A tracked SKU that moved lately.
#[derive(Clone, Debug, FromRow)]
pub struct MoverRow {
    /// The SKU.
    pub sku: String,
    /// Its moves among the newest of all.
    pub moves: u32,
    /// One of its cells is near zero and not at it.
    pub near_zero: bool,
    /// When its facts were asked for.
    pub observed_ms: i64,
}

impl Store {
    /// The tracked SKUs behind the newest moves since `since`.
    pub async fn mover_list(&self, since: Timestamp) -> Result<Vec<MoverRow>, StoreError> {
        let sql = "WITH moved AS (SELECT product, count(*) AS moves FROM ( \
                       SELECT product, observed_ms FROM balance_past ORDER BY position DESC LIMIT ?1) \
                       WHERE observed_ms >= ?2 GROUP BY product) \
                   SELECT p.sku, m.moves, r.observed_ms, \
                          EXISTS (SELECT 1 FROM balance b WHERE b.product = p.id AND b.quantity BETWEEN 1 AND ?3) \
                              AS near_zero \
                   FROM moved m JOIN product p ON p.id = m.product JOIN tracked_sku t ON t.sku = p.sku \
                   JOIN reading r ON r.id = p.reading_id WHERE p.missing_since_ms IS NULL";
        let query = sqlx::query_as(sql).bind(MOVES).bind(since.0).bind(NEAR_ZERO);
        query.fetch_all(&self.read).await.doing("find what moved lately")
    }

    /// The page size that was proved, if it started from what is configured now.
    pub async fn page_size(&self, configured: usize) -> Result<Option<usize>, StoreError> {
        let sql = "SELECT size FROM page_size WHERE configured = ?1";
        let size: Option<i64> = sqlx::query_scalar(sql)
            .bind(i64::try_from(configured).unwrap_or(i64::MAX))
            .fetch_optional(&self.read)
            .await
            .doing("read the page size")?;
        Ok(size.and_then(|size| usize::try_from(size).ok()))
    }
}

impl Write {
    /// Remembers the page size that was proved.
    pub async fn page_size_keep(&mut self, configured: usize, size: usize) -> Result<(), StoreError> {
        let sql = "INSERT INTO page_size (id, configured, size) VALUES (1, ?1, ?2) \
                   ON CONFLICT (id) DO UPDATE SET configured = excluded.configured, size = excluded.size";
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let query = sqlx::query(sql).bind(number(configured)).bind(number(size));
        query.execute(&mut *self.tx).await.map(drop).doing("remember the page size")
    }
}
