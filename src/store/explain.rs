//! What is stored of one cell's story: the facts it had, the wishes for it, what carried them, looks, trips and events.
//!
//! Read only, in a few queries a cell; the sentences are made where they are printed.

use super::cells::json;
use super::error::Doing;
use super::text::{BodyText, Text, body_column};
use super::{Store, StoreError};
use crate::outbox::Stored;
use sqlx::FromRow;

/// A SKU the mirror knows, out of those that differ from another only in case or blanks.
#[derive(Clone, Debug, FromRow)]
pub struct KnownSku {
    /// The product's row.
    pub id: i64,
    /// Its spelling.
    pub sku: String,
    /// The row of the product that wishes of this spelling mean; its own, where the spelling means itself.
    pub meant: i64,
    /// The service's id; `None`: the service never returned it.
    pub product_id: Option<i64>,
    /// The product's type, where the service said it.
    pub kind: Option<String>,
    /// Since when the service does not return it.
    pub missing_ms: Option<i64>,
}

/// A cell as it is now.
#[derive(Clone, Debug, FromRow)]
pub struct CellNow {
    /// The warehouse.
    pub warehouse_id: i64,
    /// Its name, where the service lists it.
    pub warehouse_name: Option<String>,
    /// R, the fact; `None`: nothing is known.
    pub quantity: Option<i64>,
    /// O, the sum over our settled writes of (written − fact used).
    pub ours: Option<i64>,
    /// When the fact's request was sent.
    pub fact_ms: Option<i64>,
    /// The exchange the fact is from.
    pub fact_exchange_id: Option<i64>,
    /// When the service stopped linking the product to the warehouse.
    pub vanished_ms: Option<i64>,
    /// What it becomes once the pending wishes apply.
    pub pending_quantity: Option<i64>,
    /// The value of a write in flight or in doubt.
    pub writing: Option<i64>,
}

/// A pair (R, O) the cell had or has, and the exchange or decision with which it came.
#[derive(Clone, Debug, FromRow)]
pub struct PairRow {
    /// R.
    pub quantity: i64,
    /// O.
    pub ours: i64,
    /// The position with which it came; `None`: it is the first, from before that was kept.
    pub position: Option<i64>,
    /// When it was first seen.
    pub since_ms: Option<i64>,
    /// The exchange that brought it; `None`: a decision did, or nobody knows.
    pub exchange_id: Option<i64>,
    /// That exchange's operation.
    pub operation: Option<String>,
}

/// A wish for the cell, with the exchange that last carried it.
#[derive(Clone, Debug, FromRow)]
pub struct StoryWish {
    /// Its id.
    pub id: i64,
    /// Its key.
    #[sqlx(try_from = "Text")]
    pub key: String,
    /// Its kind.
    #[sqlx(try_from = "Text")]
    pub kind: String,
    /// Its body.
    #[sqlx(try_from = "BodyText")]
    pub body: Stored,
    /// Where it stands.
    pub state: String,
    /// Why, as a short word.
    pub reason: Option<String>,
    /// Why, as a sentence.
    pub detail: Option<String>,
    /// When it was inserted, RFC 3339.
    pub created_at: String,
    /// The journal's position when it was inserted.
    pub position: Option<i64>,
    /// The fact a count stands on.
    pub base_quantity: Option<i64>,
    /// Our sum at that fact.
    pub base_ours: Option<i64>,
    /// What was written for it.
    pub written: Option<i64>,
    /// When its state last changed.
    pub moved_ms: Option<i64>,
    /// When a person let it go past a brake.
    pub released_ms: Option<i64>,
    /// The exchange that carried it, or showed that there was nothing to do.
    pub exchange_id: Option<i64>,
    /// That exchange's operation.
    pub operation: Option<String>,
    /// When that was sent.
    pub sent_ms: Option<i64>,
    /// The position at which that ended.
    pub ended: Option<i64>,
    /// What came of it.
    pub verdict: Option<String>,
}

/// Something that happened to a wish beside being carried: a look, a brake's trip, a decision.
#[derive(Clone, Debug, FromRow)]
pub struct StoryEvent {
    /// Its position in the journal, where it has one.
    pub position: Option<i64>,
    /// When.
    pub at_ms: i64,
    /// `look`, `trip`, or an event's kind.
    pub kind: String,
    /// The wish's key, or what the event is about.
    #[sqlx(try_from = "Text")]
    pub subject: String,
    /// What was seen, the trip's numbers, or the event's detail as JSON.
    pub detail: Option<String>,
}

impl Store {
    /// The SKUs of a fold.
    pub async fn explain_skus(&self, fold: &str) -> Result<Vec<KnownSku>, StoreError> {
        let sql = "SELECT p.id, p.sku, m.product AS meant, p.product_id, p.type AS kind, p.missing_since_ms AS missing_ms \
                   FROM product p JOIN sku_spelling m ON m.spelling = p.sku WHERE p.case_key = ?1 \
                   ORDER BY p.id";
        sqlx::query_as(sql).bind(fold).fetch_all(&mut *self.read().await?).await.doing("read a SKU")
    }

    /// The cells of a product, and those that wishes under these spellings name.
    pub async fn explain_cells(
        &self,
        product: Option<i64>,
        spellings: &[String],
    ) -> Result<Vec<CellNow>, StoreError> {
        let sql = "WITH cell AS (SELECT warehouse_id FROM balance WHERE product = ?1 \
                       UNION SELECT warehouse_id FROM outbox WHERE sku IN (SELECT value FROM json_each(?2)) \
                           AND warehouse_id IS NOT NULL) \
                   SELECT c.warehouse_id, w.name AS warehouse_name, b.quantity, b.own_delta AS ours, \
                          coalesce(b.fact_ms, r.observed_ms) AS fact_ms, \
                          coalesce(b.fact_exchange_id, r.exchange_id) AS fact_exchange_id, \
                              b.unlinked_ms AS vanished_ms, \
                          (SELECT s.pending_quantity FROM stock s WHERE s.sku = p.sku \
                           AND s.warehouse_id = c.warehouse_id) AS pending_quantity, \
                          (SELECT cw.written FROM stock_level_write cw WHERE cw.product = p.id \
                           AND cw.warehouse_id = c.warehouse_id AND cw.ended IS NULL) AS writing \
                   FROM cell c LEFT JOIN product p ON p.id = ?1 \
                   LEFT JOIN read_batch r ON r.id = p.read_batch_id \
                   LEFT JOIN balance b ON b.product = ?1 AND b.warehouse_id = c.warehouse_id \
                   LEFT JOIN warehouse w ON w.id = c.warehouse_id ORDER BY c.warehouse_id";
        let query = sqlx::query_as(sql).bind(product).bind(json(spellings));
        query.fetch_all(&mut *self.read().await?).await.doing("read the cells of a SKU")
    }

    /// The pairs a cell had and has, oldest first.
    pub async fn explain_pairs(&self, product: i64, warehouse: i64) -> Result<Vec<PairRow>, StoreError> {
        let sql = "WITH pair AS ( \
                       SELECT position AS until, quantity, own_delta, since_ms FROM balance_history \
                       WHERE product = ?1 AND warehouse_id = ?2 \
                       UNION ALL SELECT 9223372036854775807, quantity, own_delta, since_ms FROM balance \
                       WHERE product = ?1 AND warehouse_id = ?2), \
                   came AS (SELECT pair.*, coalesce(lag(until) OVER (ORDER BY until), \
                                (SELECT min(f.ended) FROM exchange f WHERE f.sent_ms = pair.since_ms)) AS position \
                            FROM pair) \
                   SELECT c.quantity, c.own_delta AS ours, c.position, c.since_ms, e.id AS exchange_id, \
                   e.operation \
                   FROM came c LEFT JOIN exchange e ON e.ended = c.position ORDER BY c.until";
        let query = sqlx::query_as(sql).bind(product).bind(warehouse);
        query.fetch_all(&mut *self.read().await?).await.doing("read the facts a cell had")
    }

    /// The wishes for a cell under these spellings, in order.
    pub async fn explain_wishes(
        &self,
        spellings: &[String],
        warehouse: i64,
    ) -> Result<Vec<StoryWish>, StoreError> {
        let sql = concat!(
            "SELECT o.id, o.key, o.kind, ",
            body_column!(),
            ", o.state, o.reason, o.detail, o.created_at, o.position, o.base_quantity, \
             o.base_own_delta AS base_ours, o.written, \
               o.state_changed_ms AS moved_ms, o.released_ms, o.exchange_id, e.operation, e.sent_ms, \
                   e.ended, e.verdict \
             FROM outbox o LEFT JOIN exchange e ON e.id = o.exchange_id \
             WHERE o.sku IN (SELECT value FROM json_each(?1)) AND o.warehouse_id = ?2 ORDER BY o.id"
        );
        let query = sqlx::query_as(sql).bind(json(spellings)).bind(warehouse);
        query.fetch_all(&mut *self.read().await?).await.doing("read the wishes of a cell")
    }

    /// What happened to these wishes beside being carried: looks, trips, and the events that name them or
    /// their release.
    pub async fn explain_events(&self, wishes: &[i64]) -> Result<Vec<StoryEvent>, StoreError> {
        let sql = "WITH wish AS (SELECT o.id, o.key, o.released_ms FROM outbox o \
                                 WHERE o.id IN (SELECT value FROM json_each(?1))) \
                   SELECT l.exchange_id AS position, l.sent_ms AS at_ms, 'look' AS kind, w.key AS subject, \
                          l.shown AS detail FROM wish w JOIN in_doubt_check l ON l.change_id = w.id \
                   UNION ALL SELECT NULL, t.at_ms, 'trip', w.key, t.what FROM wish w \
                       JOIN brake_trip_change b ON b.change_id = w.id JOIN brake_trip t ON t.id = b.trip_id \
                   UNION ALL SELECT e.position, e.at_ms, e.kind, e.subject, e.detail FROM event e \
                       WHERE e.subject IN (SELECT key FROM wish) \
                          OR (e.kind = 'brake.released' AND e.at_ms IN (SELECT released_ms FROM wish)) \
                   ORDER BY at_ms, position";
        let query = sqlx::query_as(sql).bind(json(wishes));
        query.fetch_all(&mut *self.read().await?).await.doing("read what happened to wishes")
    }
}
