//! Rows that `verify` compares: the stalest SKUs, their stock levels, and the open changes for them.

use crate::model::{ExchangeId, Sku, Timestamp};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store};
use sqlx_macros::FromRow;

#[derive(Clone, Debug, FromRow)]
pub(crate) struct VerifyRow {
    pub sku: String,
    pub warehouse_id: i64,
    /// Fact; `None`: the link vanished or the platform does not return the SKU.
    pub quantity: Option<i64>,
    /// Time at which the fact's request was sent.
    pub fact_ms: Option<i64>,
    pub pending_quantity: Option<i64>,
    /// Quantity of a write in flight or in doubt.
    pub written_in_flight: Option<i64>,
    /// True if a write ended after the read began, so the read may show either side.
    pub is_overlapped: bool,
    /// Keys of the stock level's open changes, as one text.
    pub change_keys: Option<String>,
    /// Components of a kit, as the platform spells them; empty for another product.
    #[sqlx(json)]
    pub components: Vec<String>,
    /// Component whose stock, in whichever warehouse, changed after the read that brought the kit's fact.
    pub changed_component: Option<String>,
}

/// Size and age of the mirror.
#[derive(Clone, Copy, Debug, Default, FromRow)]
pub(crate) struct MirrorAge {
    /// Number of stock levels that have not vanished.
    pub stock_levels: i64,
    /// Time at which the oldest fact was observed.
    pub oldest_ms: Option<i64>,
    /// Time at which the median fact was observed.
    pub median_ms: Option<i64>,
}

const VERIFY_ROWS: &str = "
SELECT p.sku, b.warehouse_id,
       CASE WHEN b.unlinked_ms IS NULL AND p.missing_since_ms IS NULL THEN b.quantity END AS quantity,
       coalesce(b.fact_ms, r.observed_ms) AS fact_ms, s.pending_quantity, CASE WHEN w.ended IS NULL THEN w.written END AS written_in_flight,
       coalesce(w.ended > $2, FALSE) AS is_overlapped,
       (SELECT group_concat(o.key, ', ') FROM outbox o
        WHERE o.state IN ('pending', 'sending', 'held', 'in_doubt') AND o.sku IS NOT NULL
          AND o.sku IN (SELECT m.spelling FROM sku_spelling m WHERE m.case_key = p.case_key
          AND m.product = p.id)
          AND o.warehouse_id = b.warehouse_id) AS change_keys,
       (SELECT json_group_array(c.sku) FROM kit_component c
        WHERE c.kit_id = p.product_id AND c.sku IS NOT NULL AND c.missing_since_ms IS NULL) AS components,
       (SELECT min(c.sku) FROM kit_component c JOIN product n ON n.sku = c.sku
        WHERE c.kit_id = p.product_id AND c.missing_since_ms IS NULL
          AND (EXISTS (SELECT 1 FROM balance_history h WHERE h.product = n.id
                       AND h.position > coalesce((SELECT e.ended FROM exchange e
                                                  WHERE e.id = coalesce(b.fact_exchange_id, r.exchange_id)),
                                                 coalesce(b.fact_exchange_id, r.exchange_id)))
               OR EXISTS (SELECT 1 FROM stock_level_write v
                          WHERE v.product = n.id
                            AND (v.ended IS NULL OR v.exchange_id > coalesce(b.fact_exchange_id, r.exchange_id))))
       ) AS changed_component
FROM balance b JOIN product p ON p.id = b.product
LEFT JOIN read_batch r ON r.id = p.read_batch_id
LEFT JOIN stock s ON s.sku = p.sku AND s.warehouse_id = b.warehouse_id
LEFT JOIN stock_level_write w ON w.product = p.id AND w.warehouse_id = b.warehouse_id
WHERE p.sku IN (SELECT atom FROM json_each($1)) AND p.alias_of IS NULL
ORDER BY p.sku, b.warehouse_id";

impl Store {
    /// Returns the tracked SKUs that were read longest ago.
    pub(crate) async fn verify_skus(&self, limit: usize) -> Result<Vec<Sku>> {
        let sql = "SELECT p.sku FROM tracked_sku t JOIN product q ON q.sku = t.sku \
                   JOIN product p ON p.id = coalesce(q.alias_of, q.id) \
                   JOIN read_batch r ON r.id = p.read_batch_id \
                   GROUP BY p.id, r.id ORDER BY r.exchange_id, r.id, p.sku LIMIT $1";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.fetch_column(sql, (limit,), "find the SKUs that were read longest ago").await
    }

    /// Returns the stock levels of these SKUs in the mirror, after an exchange.
    pub(crate) async fn verify_stock_levels(
        &self,
        skus: &[Sku],
        exchange: ExchangeId,
    ) -> Result<Vec<VerifyRow>> {
        self.fetch_all(VERIFY_ROWS, (json_rows(skus), exchange.0), "read the stock levels to compare").await
    }

    /// Returns size and age of the mirror.
    pub(crate) async fn mirror_age(&self) -> Result<MirrorAge> {
        let sql = "WITH fact AS (SELECT coalesce(b.fact_ms, r.observed_ms) AS at FROM linked_balance b \
                       JOIN product p ON p.id = b.product LEFT JOIN read_batch r ON r.id = p.read_batch_id \
                       WHERE p.missing_since_ms IS NULL AND p.alias_of IS NULL) \
                   SELECT count(*) AS stock_levels, min(at) AS oldest_ms, \
                          (SELECT at FROM fact ORDER BY at NULLS FIRST \
                           LIMIT 1 OFFSET (SELECT count(*) / 2 FROM fact)) AS median_ms \
                   FROM fact";
        self.fetch_one(sql, (), "read the age of the mirror").await
    }
}

impl MirrorAge {
    /// Returns the ages of the oldest and the median fact, in seconds.
    pub(crate) fn ages_seconds(&self, now: Timestamp) -> (Option<i64>, Option<i64>) {
        let age = |at: Option<i64>| at.map(|at| (now.0 - at).max(0) / 1000);
        (age(self.oldest_ms), age(self.median_ms))
    }
}
