//! The cells a call of ours writes, as the mirror itself tells, and the end of such a write where no answer told it.
//!
//! What a call writes follows from its request and the facts at its claim, so a replay finds the same cells and the same
//! `before`. What ends a write in doubt is a decision: it stands in the journal as an event, cell by cell, before the
//! cell changes (rules.md 37).

use super::cells::{CellSeen, CellWrite, cell_rows, json};
use super::error::Doing;
use super::outbox::outbox_open_of;
use super::{StoreError, Write};
use crate::model::{Cell, ExchangeId, Position, ProductId, Quantity, Sku, Timestamp, WarehouseId};
use serde_json::json as value;
use std::collections::BTreeMap;

/// The event of a write in doubt that turned out to be done.
pub const CELL_LANDED: &str = "cell.landed";
/// The event of a write in doubt that was not done, or that nobody waits for any more.
pub const CELL_ENDED: &str = "cell.ended";

/// A cell as the tables name it: product row and warehouse.
type Row = (i64, i64, Option<i64>, i64);

fn writes(rows: Vec<Row>) -> Vec<CellWrite> {
    let write = |(product, warehouse_id, before, written): Row| CellWrite {
        product,
        warehouse_id,
        before: before.map(Quantity),
        written: Quantity(written),
    };
    rows.into_iter().map(write).collect()
}

impl Write {
    /// True if these cells and their wishes are what a plan was made from. People and programs may have changed either
    /// between the look and this transaction.
    pub async fn cells_stand(&mut self, seen: &[&CellSeen]) -> Result<bool, StoreError> {
        let cells: Vec<Cell> = seen.iter().map(|seen| seen.cell.clone()).collect();
        let rows = cell_rows(&mut self.tx, &cells).await?;
        if !rows.iter().eq(seen.iter().map(|seen| &seen.row)) {
            return Ok(false);
        }
        let open = outbox_open_of(&mut self.tx, &cells).await?;
        let open: BTreeMap<i64, i64> = open.into_iter().map(|open| (open.wish.id, open.wish.moves)).collect();
        Ok(open == seen.iter().flat_map(|seen| seen.open.iter().copied()).collect())
    }

    /// What a call with these entries writes, in their order; a SKU without a product is left out.
    pub async fn cell_writes(
        &mut self,
        entries: &[(&Sku, WarehouseId, Quantity)],
    ) -> Result<Vec<CellWrite>, StoreError> {
        let sql = "SELECT p.id, CAST(e.value->>1 AS INTEGER), b.quantity, e.value->>2 \
                   FROM json_each(?1) e JOIN product p ON p.sku = e.value->>0 \
                   LEFT JOIN balance b ON b.product = p.id AND b.warehouse_id = CAST(e.value->>1 AS INTEGER) \
                       AND b.unlinked_ms IS NULL ORDER BY e.key";
        let rows = sqlx::query_as(sql).bind(json(entries)).fetch_all(&mut *self.tx).await;
        Ok(writes(rows.doing("find the cells that a call writes")?))
    }

    /// What an update of this product writes: each of its cells, with the quantity it has.
    pub async fn cell_writes_of(&mut self, id: ProductId, sku: &Sku) -> Result<Vec<CellWrite>, StoreError> {
        let sql = "SELECT b.product, b.warehouse_id, b.quantity, b.quantity FROM product q \
                   JOIN balance b ON b.product = coalesce(q.alias_of, q.id) AND b.unlinked_ms IS NULL \
                   WHERE q.sku = coalesce((SELECT sku FROM product WHERE product_id = ?1 \
                       AND missing_since_ms IS NULL ORDER BY id LIMIT 1), ?2) ORDER BY b.warehouse_id";
        let query = sqlx::query_as(sql).bind(id.0).bind(sku.as_str());
        let rows = query.fetch_all(&mut *self.tx).await;
        Ok(writes(rows.doing("find the cells that an update writes")?))
    }

    /// The writes of a call that are still open.
    pub async fn cell_writes_open(&mut self, exchange: ExchangeId) -> Result<Vec<CellWrite>, StoreError> {
        let sql = "SELECT product, warehouse_id, before, written FROM stock_level_write \
                   WHERE exchange_id = ?1 AND ended IS NULL ORDER BY product, warehouse_id";
        let rows = sqlx::query_as(sql).bind(exchange.0).fetch_all(&mut *self.tx).await;
        Ok(writes(rows.doing("find the cells that a call wrote")?))
    }

    /// Ends a write in doubt that landed: its quantity is ours, and the cell's fact as of the send. Nothing is done where
    /// it ended before.
    pub async fn cell_landed(
        &mut self,
        exchange: ExchangeId,
        sent_at: Timestamp,
        write: &CellWrite,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if !self.cell_is_claimed(exchange, write).await? {
            return Ok(());
        }
        let ended = self.cell_event(CELL_LANDED, exchange, write, at).await?;
        self.cell_take(exchange, sent_at, write, ended).await
    }

    /// Ends a write in doubt that did not land: the cell holds what it held. Nothing is done where it ended before.
    pub async fn cell_not_landed(
        &mut self,
        exchange: ExchangeId,
        write: &CellWrite,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if !self.cell_is_claimed(exchange, write).await? {
            return Ok(());
        }
        let ended = self.cell_event(CELL_ENDED, exchange, write, at).await?;
        self.cell_end(exchange, write, ended).await
    }

    /// Ends the writes of cells that no undecided wish stands behind any more: a person cancelled it or sent it anew.
    pub async fn cells_free(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let sql = "SELECT exchange_id, product, warehouse_id, before, written FROM stock_level_write \
                   WHERE ended IS NULL AND NOT EXISTS ( \
                       SELECT 1 FROM outbox o WHERE o.exchange_id = stock_level_write.exchange_id \
                         AND (o.state IN ('sending', 'in_doubt') OR (o.state = 'held' AND o.reason = 'undecided')) \
                         AND (o.sku IS NULL OR (o.warehouse_id = stock_level_write.warehouse_id AND EXISTS ( \
                             SELECT 1 FROM product p JOIN product q ON q.case_key = p.case_key \
                             WHERE p.id = stock_level_write.product AND q.sku = o.sku)))) \
                   ORDER BY exchange_id, product, warehouse_id";
        let free: Vec<(i64, i64, i64, Option<i64>, i64)> =
            sqlx::query_as(sql).fetch_all(&mut *self.tx).await.doing("find the cells a person decided on")?;
        for (exchange, product, warehouse, before, written) in free {
            for write in writes(vec![(product, warehouse, before, written)]) {
                self.cell_not_landed(ExchangeId(exchange), &write, at).await?;
            }
        }
        Ok(())
    }

    /// Folds the event of a cell in again.
    pub async fn cell_refold(
        &mut self,
        kind: &str,
        detail: &str,
        position: Position,
    ) -> Result<(), StoreError> {
        let sql = "SELECT w.exchange_id, d.value->>'sent_ms', w.product, w.warehouse_id, w.before, w.written \
                   FROM (SELECT json(?1) AS value) d JOIN product p ON p.sku = d.value->>'sku' \
                   JOIN stock_level_write w ON w.product = p.id \
                   AND w.warehouse_id = d.value->>'warehouse_id' \
                   WHERE w.exchange_id = d.value->>'exchange_id' AND w.ended IS NULL";
        let found: Option<(i64, i64, i64, i64, Option<i64>, i64)> = sqlx::query_as(sql)
            .bind(detail)
            .fetch_optional(&mut *self.tx)
            .await
            .doing("find the cell of an event")?;
        let Some((exchange, sent_ms, product, warehouse, before, written)) = found else { return Ok(()) };
        for write in writes(vec![(product, warehouse, before, written)]) {
            match kind {
                CELL_LANDED => {
                    self.cell_take(ExchangeId(exchange), Timestamp(sent_ms), &write, position).await?;
                }
                _ => self.cell_end(ExchangeId(exchange), &write, position).await?,
            }
        }
        Ok(())
    }

    /// True if the write of this exchange has not ended yet.
    async fn cell_is_claimed(&mut self, exchange: ExchangeId, write: &CellWrite) -> Result<bool, StoreError> {
        let open = self.cell_writes_open(exchange).await?;
        Ok(open.iter().any(|open| open.is_of(write)))
    }

    async fn cell_take(
        &mut self,
        exchange: ExchangeId,
        sent_at: Timestamp,
        write: &CellWrite,
        ended: Position,
    ) -> Result<(), StoreError> {
        self.cells_written(exchange, sent_at, std::slice::from_ref(write)).await?;
        self.cell_end(exchange, write, ended).await
    }

    async fn cell_end(
        &mut self,
        exchange: ExchangeId,
        write: &CellWrite,
        ended: Position,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE stock_level_write SET ended = ?4 \
                   WHERE exchange_id = ?1 AND product = ?2 AND warehouse_id = ?3 AND ended IS NULL";
        let query = sqlx::query(sql).bind(exchange.0).bind(write.product).bind(write.warehouse_id);
        let done = query.bind(ended.0).execute(&mut *self.tx).await;
        done.map(drop).doing("end the write of a cell")
    }

    /// The event names the cell as the service does; a replay has other row ids.
    async fn cell_event(
        &mut self,
        kind: &str,
        exchange: ExchangeId,
        write: &CellWrite,
        at: Timestamp,
    ) -> Result<Position, StoreError> {
        let sql = "SELECT p.sku, e.sent_ms FROM product p, exchange e WHERE p.id = ?1 AND e.id = ?2";
        let (sku, sent_ms): (String, i64) = sqlx::query_as(sql)
            .bind(write.product)
            .bind(exchange.0)
            .fetch_one(&mut *self.tx)
            .await
            .doing("name the cell of a write")?;
        let detail = value!({
            "exchange_id": exchange, "sent_ms": sent_ms, "sku": sku, "warehouse_id": write.warehouse_id,
            "before": write.before, "written": write.written,
        });
        let subject = format!("{sku} @{}", write.warehouse_id);
        self.event_append(at, kind, &subject, Some(&detail.to_string())).await
    }
}
