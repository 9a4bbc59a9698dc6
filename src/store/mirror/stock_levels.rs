//! Stock levels as decisions need them: the fact, the own delta, open writes.

use crate::model::{
    ChangeId, ExchangeId, Moment, Position, ProductId, Quantity, Sku, StockLevel, Timestamp, WarehouseId,
};
use crate::reconcile::ProductLack;
use crate::store::engine::error::SqlContext as _;
use crate::store::engine::fetch::Connection;
use crate::store::{OutboxWindow, Result, Store, WriteTransaction};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx_macros::FromRow;
use std::collections::BTreeMap;

/// Known state of a stock level that changes name.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct StockLevelRow {
    /// SKU, as the caller names it.
    pub spelling: String,
    pub warehouse_id: WarehouseId,
    /// Row of the product with this spelling, else of the only one with its case key; `None`: there is none.
    pub product: Option<i64>,
    pub sku: Option<Sku>,
    /// Product id at the platform; `None`: the platform did not return the product.
    pub product_id: Option<ProductId>,
    /// Position at which another product took the SKU over; earlier facts are of the product before.
    pub product_id_position: Option<i64>,
    /// True if the platform was asked for the SKU.
    pub was_requested: bool,
    /// Position of the exchange that last asked for it.
    pub requested_position: Option<i64>,
    /// Time at which it was last asked for, since boot; `None` if that was another boot or before a restore.
    pub requested_moment: Option<Moment>,
    /// Manner in which the last answer lacked the product; `None`: it showed all of it.
    pub(crate) lack: Option<ProductLack>,
    /// SKU of each other product with the same case key.
    #[sqlx(json)]
    pub twin_skus: Vec<Sku>,
    /// True if the platform is proved not to return the product.
    pub is_missing: bool,
    /// Type of the product, where the platform named it.
    pub kind: Option<String>,
    pub quantity: Option<Quantity>,
    /// O, the own delta: the sum over finished writes of (written − fact used).
    pub own_delta: Option<i64>,
    /// Time at which the fact's request was sent, since boot; `None` if that was another boot or before a restore.
    pub fact_moment: Option<Moment>,
    pub fact_exchange_id: Option<i64>,
    /// True if the last answer lacks the link to the warehouse, which an earlier one showed.
    pub is_unlinked: bool,
    /// False if the platform reported the warehouse as inactive for the product.
    pub is_active: bool,
    /// True if a write is in flight or in doubt, or a stale replica may have answered the last read.
    pub is_busy: bool,
    /// True if the platform accepted the last write and does not show it.
    pub is_disputed: bool,
    pub last_set_id: Option<ChangeId>,
    /// Time of that count's insertion, RFC 3339.
    pub last_set_at: Option<String>,
    /// Moment that the count names, as its caller wrote it.
    pub last_set_counted_at: Option<String>,
    /// Applied adjusts that an open count may have to add: change, delta, time of the insertion in RFC 3339.
    #[sqlx(json)]
    pub applied_adjusts: Vec<(ChangeId, i64, String)>,
    /// Facts, oldest first: R, O, first and last observation. Empty unless an open count names its moment.
    #[sqlx(json)]
    pub quantity_states: Vec<(Quantity, i64, Option<Timestamp>, Option<Timestamp>)>,
}

/// Stock level as a plan saw it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedStockLevel {
    pub stock_level: StockLevel,
    pub row: StockLevelRow,
    /// Part of the outbox that was planned.
    pub window: OutboxWindow,
    /// Id and revision of each pending or held change in the window.
    pub open_changes: Vec<(ChangeId, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize)]
pub(crate) struct StockLevelWrite {
    pub product: i64,
    pub warehouse_id: i64,
    /// Fact on which the write was decided; `None`: there was none.
    pub before: Option<Quantity>,
    pub written: Quantity,
}

/// Serialises rows for a bulk statement.
pub(in crate::store) fn json_rows<T: Serialize + ?Sized>(rows: &T) -> String {
    serde_json::to_string(rows).expect("rows hold only texts, numbers and nulls, which JSON can write")
}

/// Serialises rows for a bulk statement, of several with one key the last: PostgreSQL updates no row twice.
pub(super) fn json_rows_by_key<T: Serialize, K: Ord>(rows: &[T], key: impl Fn(&T) -> K) -> String {
    let last: BTreeMap<K, &T> = rows.iter().map(|row| (key(row), row)).collect();
    json_rows(&last.into_values().collect::<Vec<_>>())
}

impl Store {
    /// Returns these stock levels in their order, under the platform's spelling where it is known.
    pub(crate) async fn stock_levels_resolve(&self, levels: &[StockLevel]) -> Result<Vec<StockLevel>> {
        if levels.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT coalesce((SELECT m.sku FROM sku_spelling m \
                                    WHERE m.spelling = value->>0), value->>0) \
                   FROM json_each($1) ORDER BY key";
        let names =
            self.fetch_column(sql, (stock_level_names(levels),), "resolve the SKUs of changes").await?;
        let resolved =
            |(sku, level): (Sku, &StockLevel)| StockLevel { sku, warehouse_id: level.warehouse_id };
        Ok(names.into_iter().zip(levels).map(resolved).collect())
    }

    /// Returns the known state of these stock levels, in their order.
    ///
    /// The stock levels are named as [`Self::stock_levels_resolve`] returns them.
    pub(crate) async fn stock_level_rows(&self, levels: &[StockLevel]) -> Result<Vec<StockLevelRow>> {
        stock_level_rows(&mut *self.read_connection().await?, levels).await
    }

    pub async fn journal_position(&self) -> Result<Position> {
        self.fetch_value("SELECT position FROM journal_sequence", (), "read the journal's position").await
    }
}

pub(super) async fn stock_level_rows(
    from: &mut Connection,
    levels: &[StockLevel],
) -> Result<Vec<StockLevelRow>> {
    from.rows(STOCK_LEVEL_ROWS, (stock_level_names(levels),)).await.context("read stock levels")
}

pub(in crate::store) fn stock_level_names(levels: &[StockLevel]) -> String {
    let rows: Vec<Value> = levels.iter().map(|c| json!([c.sku, c.warehouse_id, c.sku.case_key()])).collect();
    json_rows(&rows)
}

/// SQL: the changes `$change` of the stock level `k`, under all its spellings.
macro_rules! is_of_level {
    ($change:literal) => {
        concat!(
            $change,
            ".sku IN (SELECT atom FROM json_each(k.spellings)) AND ",
            $change,
            ".sku IS NOT NULL AND ",
            $change,
            ".warehouse_id = k.warehouse_id"
        )
    };
}

/// SQL: the [`StockLevelRow`]s of the stock levels of parameter 1.
///
/// `MATERIALIZED` CTEs hold what is used several times: the spellings and the counts of a stock level. A call is looked
/// up by its id: PostgreSQL would read a materialised CTE of all calls whole.
const STOCK_LEVEL_ROWS: &str = concat!(
    "
WITH stock_level AS (SELECT key AS ordinal, value->>0 AS spelling, CAST(value->>1 AS BIGINT) AS warehouse_id,
                     value->>2 AS case_key
              FROM json_each($1)),
     -- The platform's spelling and the others of the same product.
     spelled AS MATERIALIZED (SELECT k.*, (SELECT CAST(json_group_array(m.spelling) AS TEXT) FROM (
                                  SELECT m.spelling FROM sku_spelling m
                                  WHERE m.case_key = k.case_key AND m.sku = k.spelling
                                  UNION ALL SELECT k.spelling) m) AS spellings
                              FROM stock_level k),
     -- A spelling that was never requested names no product of its own yet. The brakes use the one that it probably names.
     known AS MATERIALIZED (SELECT k.*, q.id AS own, coalesce(CASE WHEN q.product_id IS NULL THEN (
                          SELECT CASE WHEN count(*) = 1 THEN min(t.id) END FROM product t
                          WHERE t.case_key = k.case_key
                            AND t.product_id IS NOT NULL AND t.alias_of IS NULL AND t.missing_since_ms IS NULL) END,
                          q.id) AS product,
                      (SELECT max(s.id) FROM outbox s WHERE ",
    is_of_level!("s"),
    "
                       AND (s.state = 'applied' OR s.reason = 'landed') AND s.kind = 'quantity.set') AS last_set_id,
                      (SELECT min(c.id) FROM outbox c WHERE ",
    is_of_level!("c"),
    "
                       AND c.state IN ('pending', 'sending', 'held', 'in_doubt')
                       AND c.kind = 'quantity.set') AS first_set_id,
             -- A bound that is early enough: which adjusts came after a count is decided from its own moment. One that
             -- SQLite cannot read is as early as can be.
             (SELECT min(coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', upper(trim(json_extract(c.body, '$.counted_at'))),
                                           '-1 second'), ''))
              FROM outbox c
              WHERE json_extract(c.body, '$.counted_at') IS NOT NULL AND ",
    is_of_level!("c"),
    "
                AND c.state IN ('pending', 'sending', 'held', 'in_doubt')
                AND c.kind = 'quantity.set' AND octet_length(c.body) <= 262144) AS first_counted_at
               FROM spelled k LEFT JOIN product q ON q.sku = k.spelling),
     -- Moments of another boot are not comparable, and what was seen before a restore is not fresh.
     sent AS NOT MATERIALIZED (SELECT e.id, e.sent_moment FROM exchange e JOIN session s ON s.id = e.session_id
              WHERE e.id > (SELECT position FROM last_restore)
                AND s.boot_id = (SELECT boot_id FROM session ORDER BY id DESC LIMIT 1))
SELECT k.spelling, k.warehouse_id, k.product, p.sku, p.product_id_position, CASE WHEN o.alias_of IS NULL THEN o.product_id END AS product_id,
       o.read_batch_id IS NOT NULL AS was_requested, requested.exchange_id AS requested_position,
       (SELECT m.sent_moment FROM sent m WHERE m.id = requested.exchange_id) AS requested_moment, o.lack,
       (SELECT json_group_array(n.sku) FROM (SELECT min(t.sku) AS sku FROM product t WHERE t.case_key = k.case_key
           AND t.product_id IS NOT NULL
        AND t.alias_of IS NULL AND t.sku <> k.spelling GROUP BY t.product_id) n) AS twin_skus,
       o.missing_since_ms IS NOT NULL AS is_missing,
       p.type AS kind, b.quantity, b.own_delta, coalesce(b.fact_exchange_id, r.exchange_id) AS fact_exchange_id,
       (SELECT m.sent_moment FROM sent m WHERE m.id = coalesce(b.fact_exchange_id, r.exchange_id)) AS fact_moment,
       b.unlinked_ms IS NOT NULL AS is_unlinked,
       b.is_active IS DISTINCT FROM FALSE AS is_active,
       EXISTS (SELECT 1 FROM stock_level_write w WHERE w.product = k.own AND w.warehouse_id = k.warehouse_id
               AND (w.ended IS NULL OR w.first_mismatch_ms IS NOT NULL)) AS is_busy,
       EXISTS (SELECT 1 FROM mismatch m WHERE m.product = k.own AND m.warehouse_id = k.warehouse_id)
           AS is_disputed,
       k.last_set_id, (SELECT coalesce(s.dated_at, s.created_at) FROM outbox s WHERE s.id = k.last_set_id) AS last_set_at,
       (SELECT json_extract(s.body, '$.counted_at') FROM outbox s WHERE s.id = k.last_set_id) AS last_set_counted_at,
       (SELECT coalesce(json_group_array(json_array(a.id, CAST(CAST(json_extract(a.body, '$.delta') AS NUMERIC) AS BIGINT),
                                                    coalesce(a.dated_at, a.created_at))), '[]')
        FROM outbox a
        WHERE ",
    is_of_level!("a"),
    "
          AND (a.state = 'applied' OR a.reason = 'landed') AND a.kind = 'quantity.adjust'
          AND a.id > CASE WHEN k.first_counted_at IS NULL THEN k.first_set_id ELSE 0 END
          AND (a.id > k.first_set_id OR coalesce(a.dated_at, a.created_at) > k.first_counted_at)) AS applied_adjusts,
       CASE WHEN k.first_counted_at IS NULL THEN '[]' ELSE (
           SELECT json_group_array(json_array(h.quantity, h.own_delta,
                                              CASE WHEN h.since_ms >= l.at_ms THEN h.since_ms END,
                                              CASE WHEN h.last_ms >= l.at_ms THEN h.last_ms END))
           FROM last_restore l CROSS JOIN (
               SELECT * FROM (SELECT position, quantity, own_delta, since_ms, observed_ms AS last_ms
               FROM balance_history
                              WHERE product = k.product AND warehouse_id = k.warehouse_id
                                AND position > coalesce(p.product_id_position, 0)
                              ORDER BY position DESC LIMIT 500) newest
               UNION ALL SELECT 9223372036854775807, b.quantity, b.own_delta, b.since_ms,
                                coalesce(b.fact_ms, r.observed_ms)
               WHERE b.quantity IS NOT NULL
               ORDER BY position) h) END AS quantity_states
FROM known k
LEFT JOIN product p ON p.id = k.product
LEFT JOIN product o ON o.id = k.own
LEFT JOIN read_batch requested ON requested.id = o.read_batch_id
LEFT JOIN read_batch r ON r.id = p.read_batch_id
LEFT JOIN balance b ON b.product = k.product AND b.warehouse_id = k.warehouse_id
ORDER BY k.ordinal"
);

impl WriteTransaction {
    /// Marks stock levels as being written by an exchange that is about to be sent. Returns false if an open
    /// write of another call has one of them. The caller must then roll the transaction back.
    pub(crate) async fn stock_level_claim(
        &mut self,
        exchange: ExchangeId,
        writes: &[StockLevelWrite],
    ) -> Result<bool> {
        let sql = "INSERT INTO stock_level_write (product, warehouse_id, exchange_id, before, written) \
                   SELECT CAST(value->>'product' AS BIGINT), CAST(value->>'warehouse_id' AS BIGINT), $2, \
                       CAST(value->>'before' AS BIGINT), CAST(value->>'written' AS BIGINT) \
                   FROM json_each($1) WHERE true \
                   ON CONFLICT (product, warehouse_id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       before = excluded.before, written = excluded.written, ended = NULL, \
                           is_unconfirmed = FALSE, \
                       first_mismatch_ms = NULL, check_due_ms = NULL \
                   WHERE stock_level_write.ended IS NOT NULL";
        let claimed = self.execute_counting(sql, (json_rows(writes), exchange), "claim stock levels").await?;
        Ok(claimed == writes.len() as u64)
    }

    /// Ends the open writes of a finished exchange; those in `applied` become facts.
    ///
    /// A write that ended before is skipped, because a second completion would add its own delta twice.
    pub(crate) async fn stock_level_writes_complete(
        &mut self,
        exchange: ExchangeId,
        ended: Position,
        sent_at: Timestamp,
        applied: &[StockLevelWrite],
    ) -> Result<()> {
        let open = self.stock_level_writes_open(exchange).await?;
        let is_open = |write: &&StockLevelWrite| {
            open.iter().any(|open| (open.product, open.warehouse_id) == (write.product, write.warehouse_id))
        };
        let applied: Vec<StockLevelWrite> = applied.iter().filter(is_open).cloned().collect();
        self.stock_levels_written(exchange, sent_at, &applied).await?;
        self.writes_accepted(exchange, sent_at, &applied).await?;
        let sql = "UPDATE stock_level_write SET ended = $2 WHERE exchange_id = $1 AND ended IS NULL";
        self.execute(sql, (exchange, ended), "end the writes of stock levels").await
    }

    /// Sets the fact of the stock levels to the written quantity and adds the difference to the own delta.
    /// The writes must be open writes of this exchange.
    pub(super) async fn stock_levels_written(
        &mut self,
        exchange: ExchangeId,
        sent_at: Timestamp,
        written: &[StockLevelWrite],
    ) -> Result<()> {
        let sql = "INSERT INTO balance (product, warehouse_id, quantity, fact_exchange_id, fact_ms, since_ms) \
                   SELECT CAST(value->>'product' AS BIGINT), CAST(value->>'warehouse_id' AS BIGINT), \
                       CAST(value->>'written' AS BIGINT), $2, $3, $3 \
                   FROM json_each($1) WHERE true \
                   ON CONFLICT (product, warehouse_id) DO UPDATE SET \
                       own_delta = balance.own_delta + excluded.quantity - coalesce( \
                           (SELECT w.before FROM stock_level_write w WHERE w.product = excluded.product \
                            AND w.warehouse_id = excluded.warehouse_id), excluded.quantity), \
                       since_ms = CASE WHEN balance.quantity <> excluded.quantity THEN excluded.since_ms \
                                       ELSE balance.since_ms END, \
                       quantity = excluded.quantity, fact_exchange_id = excluded.fact_exchange_id, \
                       fact_ms = excluded.fact_ms, unlinked_ms = NULL";
        self.execute(sql, (json_rows(written), exchange, sent_at), "record written quantities").await?;
        let products: Vec<i64> = written.iter().map(|write| write.product).collect();
        self.digests_clear(&products).await?;
        let changed = written.iter().filter(|write| write.before != Some(write.written));
        let changed: Vec<(i64, i64)> = changed.map(|write| (write.product, write.warehouse_id)).collect();
        let sql = "UPDATE stock_level_write \
                   SET zeroed_ms = CASE WHEN written = 0 THEN CASE WHEN before > 0 THEN $2 ELSE zeroed_ms END END \
                   WHERE (product, warehouse_id) IN ( \
                       SELECT CAST(value->>0 AS BIGINT), CAST(value->>1 AS BIGINT) FROM json_each($1))";
        self.execute(sql, (json_rows(&changed), sent_at), "record which stock levels were emptied").await?;
        self.mismatch_close(&changed).await
    }

    /// Fixes the base of counts without a recent one, and commits: it is the first read after the count's
    /// insertion, if it came within `max_base_age_ms` (docs/rules.md 1).
    pub(crate) async fn outbox_fix_bases_and_commit(
        mut self,
        read: ExchangeId,
        observed_at: Timestamp,
        max_base_age_ms: i64,
    ) -> Result<()> {
        // First the counts whose spelling is resolved only now: an earlier fact may still be their base.
        let sql = "UPDATE outbox SET revision = revision + 1, (base_quantity, base_own_delta, base_ms) = \
                       (SELECT quantity, own_delta, known_ms FROM count_base_at_insert c \
                           WHERE c.id = outbox.id) \
                   WHERE state = 'pending' AND kind = 'quantity.set' AND position < $1 AND base_ms IS NULL \
                     AND EXISTS (SELECT 1 FROM count_base_at_insert c WHERE c.id = outbox.id \
                         AND c.known_ms - (julianday(coalesce(dated_at, created_at)) - 2440587.5) * 86400000 <= $3); \
                   UPDATE outbox SET revision = revision + 1, (base_quantity, base_own_delta, base_ms) = \
                       (SELECT quantity, own_delta, observed_ms FROM count_base c WHERE c.id = outbox.id) \
                   WHERE state = 'pending' AND kind = 'quantity.set' AND position < $1 \
                     AND octet_length(body) <= 262144 \
                     AND CAST($2 AS BIGINT) - (julianday(coalesce(dated_at, created_at)) - 2440587.5) * 86400000 <= $3 \
                     AND (base_ms IS NULL OR base_ms = 0 OR (json_type(body, '$.seen') IS NULL \
                          AND (julianday(coalesce(dated_at, created_at)) - 2440587.5) * 86400000 - base_ms > $3)) \
                     AND EXISTS (SELECT 1 FROM count_base c WHERE c.id = outbox.id AND c.observed_ms = $2)";
        self.execute(sql, (read, observed_at, max_base_age_ms), "fix the base of counts").await?;
        self.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::AssertSqlSafe;

    #[tokio::test]
    async fn stock_levels_are_read_by_indexes_whatever_the_size_of_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create_unlocked(&dir.path().join("t.db")).await.unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {STOCK_LEVEL_ROWS}");
        let plan: Vec<(i64, i64, i64, String)> =
            store.fetch_all(AssertSqlSafe(sql), ("[]", 0), "explain").await.unwrap();
        let steps: Vec<&str> = plan.iter().map(|(.., step)| step.as_str()).collect();
        // The rows of the statement itself: stock levels, their spellings and facts, the newest session, the restores.
        let small = [
            "json_each",
            "CONSTANT",
            "k",
            "m",
            "n",
            "h",
            "l",
            "newest",
            "session",
            "last_restore",
            "brake_trip",
        ];
        let is_whole = |step: &&&str| {
            let scanned = step.strip_prefix("SCAN ").and_then(|scan| scan.split(' ').next());
            step.contains("AUTOMATIC") || scanned.is_some_and(|scanned| !small.contains(&scanned))
        };
        let whole: Vec<&&str> = steps.iter().filter(is_whole).collect();
        assert_eq!(whole, Vec::<&&str>::new());
        let by_kind = "outbox_applied_stock_level (sku=? AND warehouse_id=? AND kind=?";
        assert_eq!(steps.iter().filter(|step| step.contains(by_kind)).count(), 2, "{steps:?}");
    }
}
