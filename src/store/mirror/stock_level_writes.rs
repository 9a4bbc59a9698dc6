//! Stock levels written by a call, and the end of a write in doubt without its answer.
//!
//! The writes of a call follow from its request and the facts at its claim. A replay therefore
//! finds the same stock levels and the same `before`. A decision ends a write in doubt, by an event
//! for each stock level (docs/rules.md 21).

use super::stock_levels::{PlannedStockLevel, StockLevelWrite, json_rows, stock_level_rows};
use crate::model::{
    ChangeId, ExchangeId, Position, ProductId, Quantity, Sku, StockLevel, Timestamp, WarehouseId,
};
use crate::store::outbox::changes::outbox_open_revisions;
use crate::store::{Result, WriteTransaction};
use serde_json::json as value;
use sqlx_macros::FromRow;
use std::collections::BTreeMap;

/// Event of a write in doubt that took effect.
pub(in crate::store) const WRITE_TOOK_EFFECT: &str = "write.took_effect";
/// Event of a write in doubt that had no effect, or whose outcome nothing depends on any more.
pub(in crate::store) const WRITE_ENDED: &str = "write.ended";

#[derive(FromRow)]
struct OpenWriteRow {
    exchange_id: i64,
    /// Time of the send, for an event only.
    #[sqlx(default)]
    sent_ms: i64,
    #[sqlx(flatten)]
    write: StockLevelWrite,
}

impl WriteTransaction {
    /// Returns true if these stock levels and their changes are still as the plan of one window saw them.
    pub(crate) async fn stock_levels_unchanged(&mut self, seen: &[&PlannedStockLevel]) -> Result<bool> {
        let Some(PlannedStockLevel { window, .. }) = seen.first() else { return Ok(true) };
        let levels: Vec<StockLevel> = seen.iter().map(|seen| seen.stock_level.clone()).collect();
        let rows = stock_level_rows(&mut self.tx, &levels).await?;
        if !rows.iter().eq(seen.iter().map(|seen| &seen.row)) {
            return Ok(false);
        }
        let planned: BTreeMap<ChangeId, i64> =
            seen.iter().flat_map(|seen| seen.open_changes.iter().copied()).collect();
        let open = outbox_open_revisions(&mut self.tx, window, &levels, planned.len() + 1).await?;
        Ok(planned == open.into_iter().collect())
    }

    /// Returns the writes of a call with these entries, in their order; a SKU without a product is left out.
    pub(crate) async fn stock_level_writes_of_entries(
        &mut self,
        entries: &[(&Sku, WarehouseId, Quantity)],
    ) -> Result<Vec<StockLevelWrite>> {
        let sql = "SELECT p.id AS product, CAST(e.value->>1 AS BIGINT) AS warehouse_id, b.quantity AS before, \
                       CAST(e.value->>2 AS BIGINT) AS written \
                   FROM json_each($1) e JOIN product p ON p.sku = e.value->>0 \
                   LEFT JOIN balance b ON b.product = p.id AND b.warehouse_id = CAST(e.value->>1 AS BIGINT) \
                       AND b.unlinked_ms IS NULL ORDER BY e.key";
        self.fetch_all(sql, (json_rows(entries),), "find the stock levels that a call writes").await
    }

    /// Returns the writes of a product update: each stock level with its present quantity.
    pub(crate) async fn stock_level_writes_of_update(
        &mut self,
        id: ProductId,
        sku: &Sku,
    ) -> Result<Vec<StockLevelWrite>> {
        let sql = "SELECT b.product, b.warehouse_id, b.quantity AS before, b.quantity AS written FROM product q \
                   JOIN balance b ON b.product = coalesce(q.alias_of, q.id) AND b.unlinked_ms IS NULL \
                   WHERE q.sku = coalesce((SELECT sku FROM product WHERE product_id = $1 \
                       AND missing_since_ms IS NULL ORDER BY id LIMIT 1), $2) ORDER BY b.warehouse_id";
        self.fetch_all(sql, (id.0, sku.as_str()), "find the stock levels that an update writes").await
    }

    /// Returns the open writes of a call.
    pub(crate) async fn stock_level_writes_open(
        &mut self,
        exchange: ExchangeId,
    ) -> Result<Vec<StockLevelWrite>> {
        let sql = "SELECT product, warehouse_id, before, written FROM stock_level_write \
                   WHERE exchange_id = $1 AND ended IS NULL ORDER BY product, warehouse_id";
        self.fetch_all(sql, (exchange.0,), "read the open writes of a call").await
    }

    /// Ends a write in doubt. If it took effect, its quantity becomes the fact as of the send and counts in the
    /// own delta; otherwise the fact stays. Does nothing if the write has ended.
    pub(crate) async fn stock_level_write_decide(
        &mut self,
        exchange: ExchangeId,
        write: &StockLevelWrite,
        took_effect: bool,
        at: Timestamp,
    ) -> Result<()> {
        // An event has the platform's names, because a replay has other row ids.
        let sql = "SELECT p.sku, e.sent_ms FROM stock_level_write w JOIN product p ON p.id = w.product \
                   JOIN exchange e ON e.id = w.exchange_id \
                   WHERE w.exchange_id = $1 AND w.product = $2 AND w.warehouse_id = $3 AND w.ended IS NULL";
        let values = (exchange, write.product, write.warehouse_id);
        let open = self.fetch_optional(sql, values, "read the open write of a stock level").await?;
        let Some::<(String, i64)>((sku, sent_ms)) = open else { return Ok(()) };
        let detail = value!({
            "exchange_id": exchange, "sent_ms": sent_ms, "sku": sku, "warehouse_id": write.warehouse_id,
            "before": write.before, "written": write.written,
        });
        let kind = if took_effect { WRITE_TOOK_EFFECT } else { WRITE_ENDED };
        let subject = format!("{sku} @{}", write.warehouse_id);
        self.fact_decide(at, kind, &subject, Some(&detail.to_string())).await
    }

    /// Ends the open writes without an undecided change: a person cancelled it or requested it again.
    pub(crate) async fn stock_level_writes_end_orphaned(&mut self, at: Timestamp) -> Result<()> {
        let sql = "SELECT exchange_id, product, warehouse_id, before, written FROM stock_level_write \
                   WHERE ended IS NULL AND NOT EXISTS ( \
                       SELECT 1 FROM outbox o WHERE o.exchange_id = stock_level_write.exchange_id \
                         AND (o.state IN ('sending', 'in_doubt') OR (o.state = 'held' AND o.reason = 'undecided')) \
                         AND (o.sku IS NULL OR (o.warehouse_id = stock_level_write.warehouse_id AND EXISTS ( \
                             SELECT 1 FROM product p JOIN product q ON q.case_key = p.case_key \
                             WHERE p.id = stock_level_write.product AND q.sku = o.sku)))) \
                   ORDER BY exchange_id, product, warehouse_id";
        let orphaned: Vec<OpenWriteRow> =
            self.fetch_all(sql, (), "find the open writes without an undecided change").await?;
        for row in orphaned {
            self.stock_level_write_decide(ExchangeId(row.exchange_id), &row.write, false, at).await?;
        }
        Ok(())
    }

    /// Applies the end of a write in doubt.
    pub(in crate::store) async fn apply_write_event(
        &mut self,
        kind: &str,
        detail: &str,
        ended: Position,
    ) -> Result<()> {
        let sql = "SELECT w.exchange_id, CAST($1->>'sent_ms' AS BIGINT) AS sent_ms, w.product, w.warehouse_id, \
                       w.before, w.written \
                   FROM product p JOIN stock_level_write w ON w.product = p.id \
                   AND w.warehouse_id = CAST($1->>'warehouse_id' AS BIGINT) \
                   WHERE p.sku = $1->>'sku' AND w.exchange_id = CAST($1->>'exchange_id' AS BIGINT) \
                     AND w.ended IS NULL";
        let found: Option<OpenWriteRow> =
            self.fetch_optional(sql, (detail,), "find the stock level of an event").await?;
        let Some(OpenWriteRow { exchange_id, sent_ms, write }) = found else { return Ok(()) };
        if kind == WRITE_TOOK_EFFECT {
            let written = std::slice::from_ref(&write);
            self.stock_levels_written(ExchangeId(exchange_id), Timestamp(sent_ms), written).await?;
        }
        let sql = "UPDATE stock_level_write SET ended = $4 \
                   WHERE exchange_id = $1 AND product = $2 AND warehouse_id = $3 AND ended IS NULL";
        let values = (exchange_id, write.product, write.warehouse_id, ended);
        self.execute(sql, values, "end the write of a stock level").await
    }
}
