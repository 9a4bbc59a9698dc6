//! Cells as decisions need them: the fact, what we wrote, what is on its way.

use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::{Cell, ExchangeId, Position, Quantity, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::FromRow;

/// What is known of a cell that wishes name.
#[derive(Clone, Debug, FromRow)]
pub struct CellRow {
    /// The SKU as the wishes spell it.
    pub asked: String,
    /// The warehouse the wishes name.
    pub warehouse_id: i64,
    /// The product's row; `None`: the service was never asked for this SKU.
    pub product: Option<i64>,
    /// The service's spelling.
    pub sku: Option<String>,
    /// The product's id at the service; `None`: the service did not return it.
    pub product_id: Option<i64>,
    /// Whether the service was asked for it.
    pub was_asked: bool,
    /// The position of the exchange in which it was last asked for.
    pub asked_position: Option<i64>,
    /// When it was last asked for, since the machine's boot; none where that was another boot.
    pub asked_moment: Option<i64>,
    /// How the answer to that lacked it, a word of [`crate::reconcile::Lack`]; none: it showed all of it.
    pub lack: Option<String>,
    /// How many products' spelling differs only in case or blanks.
    pub twins: i64,
    /// Those spellings, as a JSON array.
    pub twin_skus: String,
    /// The service does not return it, and that was made sure of.
    pub is_missing: bool,
    /// The product's type, where the service said it.
    pub kind: Option<String>,
    /// R, the fact.
    pub quantity: Option<i64>,
    /// O, the sum over our settled writes of (written − fact used).
    pub ours: Option<i64>,
    /// When the fact's request was sent, since the machine's boot; none where that was another boot.
    pub fact_moment: Option<i64>,
    /// The exchange the fact is from.
    pub fact_exchange_id: Option<i64>,
    /// The link to the warehouse vanished.
    pub vanished: bool,
    /// The warehouse is active for the product, as far as the service said.
    pub is_active: bool,
    /// A write of ours is in flight or in doubt, or a late replica may have answered the last read.
    pub is_busy: bool,
    /// The service accepted the last write and does not show it.
    pub is_disputed: bool,
    /// The newest count that was applied.
    pub last_set_id: Option<i64>,
    /// When that count was inserted, RFC 3339.
    pub last_set_at: Option<String>,
    /// When it was made, as its caller wrote it.
    pub last_set_counted_at: Option<String>,
    /// Applied adjusts as JSON `[[wish id, delta, inserted at], …]`, those that a pending count may have to add.
    pub applied_adjusts: String,
    /// The pairs the cell had and has as JSON `[[R, O, first seen, last seen], …]`, oldest first, times in milliseconds
    /// or null; filled in where an open count names its moment.
    pub pairs: String,
}

/// A write of one cell: from the fact it was decided on to the quantity it sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellWrite {
    /// The product's row.
    pub product: i64,
    /// The warehouse.
    pub warehouse_id: i64,
    /// The fact; `None` where the cell had none.
    pub before: Option<Quantity>,
    /// The quantity that is set.
    pub written: Quantity,
}

/// Rows for a bulk statement.
pub(super) fn json<T: Serialize + ?Sized>(rows: &T) -> String {
    serde_json::to_string(rows).expect("rows hold only texts, numbers and nulls, which JSON can write")
}

impl Store {
    /// What is known of these cells, in their order.
    pub async fn cell_rows(&self, cells: &[Cell]) -> Result<Vec<CellRow>, StoreError> {
        let rows: Vec<Value> = cells.iter().map(|c| json!([c.sku, c.warehouse_id, c.sku.fold()])).collect();
        sqlx::query_as(CELL_ROWS)
            .bind(json(&rows))
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read cells")
    }

    /// The journal's position: what begins from now on has a later one.
    pub async fn position(&self) -> Result<Position, StoreError> {
        let sql = "SELECT position FROM counter";
        sqlx::query_scalar(sql)
            .fetch_one(&mut *self.read().await?)
            .await
            .map(Position)
            .doing("read the journal's position")
    }
}

const CELL_ROWS: &str = "
WITH cell AS (SELECT key AS place, value->>0 AS asked, CAST(value->>1 AS INTEGER) AS warehouse_id, value->>2 AS fold
              FROM json_each(?1)),
     known AS (SELECT cell.*, q.id AS own, coalesce(q.alias_of, CASE WHEN q.product_id IS NULL THEN (
                          SELECT iif(count(*) = 1, min(t.id), NULL) FROM product t WHERE t.sku_fold = cell.fold
                            AND t.product_id IS NOT NULL AND t.missing_since_ms IS NULL) END, q.id) AS product,
                      (SELECT max(s.id) FROM outbox s WHERE s.sku = cell.asked AND s.warehouse_id = cell.warehouse_id
                       AND (s.state = 'applied' OR s.reason = 'landed') AND s.sku IS NOT NULL AND s.kind = 'quantity.set') AS last_set_id
               FROM cell LEFT JOIN product q ON q.sku = cell.asked),
     -- Moments of another boot say nothing.
     sent AS (SELECT e.id, e.sent_moment FROM exchange e JOIN session s ON s.id = e.session_id
              WHERE s.boot_id = (SELECT boot_id FROM session ORDER BY id DESC LIMIT 1))
SELECT k.asked, k.warehouse_id, k.product, p.sku, p.product_id,
       o.reading_id IS NOT NULL AS was_asked, asked.exchange_id AS asked_position,
       (SELECT m.sent_moment FROM sent m WHERE m.id = asked.exchange_id) AS asked_moment, p.lack,
       (SELECT count(*) FROM product t WHERE t.sku_fold = k.fold AND t.product_id IS NOT NULL AND t.sku <> k.asked)
           AS twins,
       (SELECT json_group_array(t.sku) FROM product t
        WHERE t.sku_fold = k.fold AND t.product_id IS NOT NULL AND t.sku <> k.asked) AS twin_skus,
       p.missing_since_ms IS NOT NULL AS is_missing,
       p.type AS kind, b.quantity, b.ours, coalesce(b.fact_exchange_id, r.exchange_id) AS fact_exchange_id,
       (SELECT m.sent_moment FROM sent m WHERE m.id = coalesce(b.fact_exchange_id, r.exchange_id)) AS fact_moment,
       b.vanished_ms IS NOT NULL AS vanished, b.is_active IS NOT 0 AS is_active,
       EXISTS (SELECT 1 FROM cell_write w WHERE w.product = k.product AND w.warehouse_id = k.warehouse_id
               AND (w.ended IS NULL OR w.doubted_ms IS NOT NULL)) AS is_busy,
       EXISTS (SELECT 1 FROM mismatch m WHERE m.product = k.product AND m.warehouse_id = k.warehouse_id)
           AS is_disputed,
       k.last_set_id, (SELECT s.created_at FROM outbox s WHERE s.id = k.last_set_id) AS last_set_at,
       (SELECT json_extract(s.body, '$.counted_at') FROM outbox s WHERE s.id = k.last_set_id) AS last_set_counted_at,
       (SELECT coalesce(json_group_array(json_array(a.id, json_extract(a.body, '$.delta'), a.created_at)), '[]')
        FROM outbox a
        WHERE a.sku = k.asked AND a.warehouse_id = k.warehouse_id AND (a.state = 'applied' OR a.reason = 'landed') AND a.sku IS NOT NULL
          AND a.kind = 'quantity.adjust'
          AND (a.id > k.first_set_id OR a.created_at > k.first_counted_at)) AS applied_adjusts,
       iif(k.first_counted_at IS NULL, '[]', (
           SELECT json_group_array(json_array(h.quantity, h.ours, h.since_ms, h.last_ms)) FROM (
               SELECT * FROM (SELECT position, quantity, ours, since_ms, observed_ms AS last_ms FROM balance_past
                              WHERE product = k.product AND warehouse_id = k.warehouse_id
                              ORDER BY position DESC LIMIT 500)
               UNION ALL SELECT 9223372036854775807, b.quantity, b.ours, b.since_ms, coalesce(b.fact_ms, r.observed_ms)
               WHERE b.quantity IS NOT NULL
               ORDER BY position) h)) AS pairs
FROM (SELECT known.*, (SELECT min(c.id) FROM outbox c WHERE c.sku = asked AND c.warehouse_id = known.warehouse_id
                       AND c.state IN ('pending', 'sending', 'held', 'in_doubt') AND c.sku IS NOT NULL
                       AND c.kind = 'quantity.set') AS first_set_id,
             (SELECT min(strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(c.body, '$.counted_at'))) FROM outbox c
              WHERE c.sku = asked AND c.warehouse_id = known.warehouse_id
                AND c.state IN ('pending', 'sending', 'held', 'in_doubt') AND c.sku IS NOT NULL
                AND c.kind = 'quantity.set' AND octet_length(c.body) <= 262144) AS first_counted_at
      FROM known) k
LEFT JOIN product p ON p.id = k.product
LEFT JOIN product o ON o.id = k.own
LEFT JOIN reading asked ON asked.id = coalesce(p.reading_id, o.reading_id)
LEFT JOIN reading r ON r.id = p.reading_id
LEFT JOIN balance b ON b.product = k.product AND b.warehouse_id = k.warehouse_id
ORDER BY k.place";

impl Write {
    /// Marks cells as being written by an exchange that is about to be sent.
    pub async fn cell_claim(&mut self, exchange: ExchangeId, writes: &[CellWrite]) -> Result<(), StoreError> {
        let sql = "INSERT INTO cell_write (product, warehouse_id, exchange_id, before, written) \
                   SELECT value->>'product', value->>'warehouse_id', ?2, value->>'before', value->>'written' \
                   FROM json_each(?1) WHERE true \
                   ON CONFLICT (product, warehouse_id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       before = excluded.before, written = excluded.written, ended = NULL, is_unseen = 0, \
                       doubted_ms = NULL, look_ms = NULL";
        let done = sqlx::query(sql).bind(json(writes)).bind(exchange.0).execute(&mut *self.tx).await;
        done.map(drop).doing("claim cells")
    }

    /// Ends the writes of an exchange; those in `applied` are facts from now on, and ours. The exchange ended before.
    pub async fn cell_conclude(
        &mut self,
        exchange: ExchangeId,
        ended: Position,
        sent_at: Timestamp,
        applied: &[CellWrite],
    ) -> Result<(), StoreError> {
        self.cells_written(exchange, sent_at, applied).await?;
        self.writes_accepted(exchange, sent_at, applied).await?;
        let sql = "UPDATE cell_write SET ended = ?2 WHERE exchange_id = ?1 AND ended IS NULL";
        let done = sqlx::query(sql).bind(exchange.0).bind(ended.0).execute(&mut *self.tx).await;
        done.map(drop).doing("end the writes of cells")
    }

    /// Makes what was written the fact of its cells, and adds what it moved to our sum.
    pub(super) async fn cells_written(
        &mut self,
        exchange: ExchangeId,
        sent_at: Timestamp,
        written: &[CellWrite],
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO balance (product, warehouse_id, quantity, fact_exchange_id, fact_ms, since_ms) \
                   SELECT value->>'product', value->>'warehouse_id', value->>'written', ?2, ?3, ?3 \
                   FROM json_each(?1) WHERE true \
                   ON CONFLICT (product, warehouse_id) DO UPDATE SET \
                       ours = ours + excluded.quantity - coalesce( \
                           (SELECT w.before FROM cell_write w WHERE w.product = excluded.product \
                            AND w.warehouse_id = excluded.warehouse_id), excluded.quantity), \
                       since_ms = iif(quantity <> excluded.quantity, excluded.since_ms, since_ms), \
                       quantity = excluded.quantity, fact_exchange_id = excluded.fact_exchange_id, \
                       fact_ms = excluded.fact_ms, vanished_ms = NULL";
        let query = sqlx::query(sql).bind(json(written)).bind(exchange.0).bind(sent_at.0);
        query.execute(&mut *self.tx).await.doing("record written quantities")?;
        let products: Vec<i64> = written.iter().map(|write| write.product).collect();
        self.digests_clear(&products).await?;
        let changed = written.iter().filter(|write| write.before != Some(write.written));
        let changed: Vec<(i64, i64)> = changed.map(|write| (write.product, write.warehouse_id)).collect();
        let sql = "UPDATE cell_write SET emptied_ms = iif(written = 0, iif(before > 0, ?2, emptied_ms), NULL) \
                   WHERE (product, warehouse_id) IN (SELECT value->>0, value->>1 FROM json_each(?1))";
        let done = sqlx::query(sql).bind(json(&changed)).bind(sent_at.0).execute(&mut *self.tx).await;
        done.doing("note which cells were emptied")?;
        self.mismatch_end(&changed).await
    }

    /// Fixes the base of counts that had none young enough: the first read after their insertion, if it came
    /// within `max_base_age_ms` of it (rules.md 3). The last of the transaction that records the read; it commits.
    pub async fn outbox_fix_bases(
        self,
        read: ExchangeId,
        observed_at: Timestamp,
        max_base_age_ms: i64,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET moves = moves + 1, (base_quantity, base_ours, base_ms) = \
                       (SELECT quantity, ours, observed_ms FROM count_base c WHERE c.id = outbox.id) \
                   WHERE state = 'pending' AND kind = 'quantity.set' AND position < ?1 \
                     AND octet_length(body) <= 262144 \
                     AND ?2 - (julianday(created_at) - 2440587.5) * 86400000 <= ?3 \
                     AND (base_ms IS NULL OR (json_type(body, '$.seen') IS NULL \
                          AND (julianday(created_at) - 2440587.5) * 86400000 - base_ms > ?3)) \
                     AND EXISTS (SELECT 1 FROM count_base c WHERE c.id = outbox.id AND c.observed_ms = ?2); \
                   COMMIT";
        let query = sqlx::query(sql).bind(read.0).bind(observed_at.0).bind(max_base_age_ms);
        self.commit_by(query, "fix the base of counts and commit what was read").await.map(drop)
    }
}
