//! Accepted writes and the quantities that the platform shows afterwards (docs/rules.md 3, 7).
//!
//! Every read of balances is judged here. A value is not taken as a fact if the read overlaps a write or a
//! stale replica may have answered. A difference on which two checks agree is a mismatch. Both follow from
//! exchanges and written quantities alone, so a replay has the same result.

use super::stock_levels::{StockLevelWrite, json_rows};
use crate::client::wire::ProductBalance;
use crate::model::{ExchangeId, Position, Quantity, Sku, Timestamp, time};
use crate::reconcile::read_admission::{
    AcceptedWrite, LastWrite, READS_APART, ReadAdmission, StockLevelRead, admit_read, needs_read_back,
};
use crate::store::mirror::balances::page::BalancePage;
use crate::store::{Result, Store, WriteTransaction};
use serde_json::{Value, json as value};
use sqlx_macros::FromRow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Delay of a check for which no change waits, so that writes of a few seconds share it.
const SHARED_CHECK_DELAY: Duration = Duration::from_secs(5);

/// Accepted write that the platform does not show.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct MismatchRow {
    pub sku: String,
    pub warehouse_id: i64,
    pub written: i64,
    /// Quantity that the platform shows; `None`: the product without this warehouse.
    pub shown: Option<i64>,
}

/// Judgement of a page about written stock levels.
#[derive(Debug, Default)]
pub(super) struct WriteJudgement {
    /// Stock levels (product, warehouse) for which the page holds no fact.
    pub(super) no_fact: Vec<(i64, i64)>,
    pub(super) mismatches: Vec<MismatchRow>,
    /// Number of stock levels whose doubt ended with this page; their changes waited for it.
    pub(super) stock_levels_unblocked: u64,
}

#[derive(FromRow)]
struct StockLevelWriteRow {
    product: i64,
    warehouse_id: i64,
    sku: String,
    exchange_id: i64,
    before: Option<i64>,
    written: i64,
    ended: Option<i64>,
    is_unconfirmed: bool,
    is_proven: bool,
    first_mismatch_ms: Option<i64>,
    check_due_ms: Option<i64>,
}

impl StockLevelWriteRow {
    fn last_write(&self) -> LastWrite {
        LastWrite {
            completed: self.ended.map(Position),
            before: self.before.map(Quantity),
            target: Quantity(self.written),
            is_unconfirmed: self.is_unconfirmed,
            first_mismatch_at: self.first_mismatch_ms.map(Timestamp),
        }
    }

    fn accepted_write(&self) -> AcceptedWrite {
        AcceptedWrite {
            exchange_id: ExchangeId(self.exchange_id),
            warehouse_id: self.warehouse_id,
            before: self.before.map(Quantity),
            target: Quantity(self.written),
            is_proven: self.is_proven,
        }
    }

    /// Returns the quantity shown, or `Some(None)` for the product without this warehouse. `None` where the
    /// answer lacks the product or a part of it.
    fn shown_quantity(&self, products: &BTreeMap<&str, &ProductBalance<'_>>) -> Option<Option<Quantity>> {
        let product = products.get(self.sku.as_str())?;
        match product.warehouses.iter().find(|level| level.warehouse_id.0 == self.warehouse_id) {
            Some(level) => Some(Some(Quantity(level.quantity_on_hand))),
            None => (!product.is_partial).then_some(None),
        }
    }

    /// Returns the row after a check: unconfirmed, proven, time of the first mismatch, next check.
    fn updated_values(
        &self,
        is_unconfirmed: bool,
        is_proven: bool,
        first_mismatch: Option<Timestamp>,
        check_due: Option<Timestamp>,
    ) -> Value {
        value!([self.product, self.warehouse_id, is_unconfirmed, is_proven, first_mismatch, check_due])
    }
}

impl Store {
    /// Returns the time of the next check of an accepted write, without the SKUs in `left_out`.
    pub(crate) async fn readback_due(&self, left_out: &[&str]) -> Result<Option<Timestamp>> {
        let sql = "SELECT min(CASE WHEN first_mismatch_ms IS NULL THEN check_due_ms + $1 ELSE check_due_ms END) \
                   FROM stock_level_write \
                   WHERE check_due_ms IS NOT NULL AND product NOT IN \
                       (SELECT id FROM product WHERE sku IN (SELECT atom FROM json_each($2)))";
        let values = (time::whole_millis(SHARED_CHECK_DELAY), json_rows(left_out));
        self.fetch_value(sql, values, "read the time of the next check of accepted writes").await
    }

    /// Returns the SKUs with a check due by `now`; first, with true, those for which a change may wait.
    pub(crate) async fn readback_skus(&self, now: Timestamp) -> Result<Vec<(Sku, bool)>> {
        let sql = "SELECT p.sku, count(w.first_mismatch_ms) > 0 AS is_urgent FROM stock_level_write w \
                   JOIN product p ON p.id = w.product WHERE w.check_due_ms IS NOT NULL \
                   AND w.check_due_ms <= $1 \
                   GROUP BY p.id ORDER BY is_urgent DESC, min(w.check_due_ms), p.sku";
        let rows: Vec<(String, bool)> =
            self.fetch_all(sql, (now.0,), "read the accepted writes to check").await?;
        Ok(rows.into_iter().filter_map(|(sku, is_urgent)| Some((Sku::new(sku).ok()?, is_urgent))).collect())
    }

    /// Returns the accepted writes that the platform does not show.
    pub(crate) async fn mismatch_list(&self) -> Result<Vec<MismatchRow>> {
        let sql = "SELECT p.sku, m.warehouse_id, m.written, m.shown FROM mismatch m \
                   JOIN product p ON p.id = m.product ORDER BY m.since_ms, p.sku, m.warehouse_id";
        self.fetch_all(sql, (), "read the open conflicts").await
    }
}

impl WriteTransaction {
    /// Judges a page about written stock levels and stores the result.
    pub(super) async fn writes_judge(&mut self, page: &BalancePage<'_>) -> Result<WriteJudgement> {
        let (mut judged, mut updates) = (WriteJudgement::default(), Vec::new());
        let products: BTreeMap<&str, &ProductBalance<'_>> =
            page.products.iter().map(|product| (product.sku.as_str(), product)).collect();
        for row in self.writes_to_judge(page).await? {
            let last = row.last_write();
            let quantity = row.shown_quantity(&products);
            let updates_before = updates.len();
            let read = StockLevelRead {
                began: Position(page.exchange_id.0),
                sent_at: page.observed_at,
                quantity: quantity.unwrap_or(Some(last.target)),
            };
            let proven = row.is_proven || read.quantity == Some(last.target);
            match (admit_read(&read, &last), quantity) {
                (ReadAdmission::Evidence, _) => judged.no_fact.push((row.product, row.warehouse_id)),
                // The answer lacks the stock level: a due check has no result, and any later read judges the
                // write.
                (_, None) => {
                    let was_due = row.check_due_ms.is_some_and(|at| at <= page.observed_at.0);
                    if was_due && page.requested.iter().any(|sku| sku.as_str() == row.sku) {
                        updates.push(row.updated_values(row.is_unconfirmed, row.is_proven, None, None));
                    }
                }
                (ReadAdmission::Fact, Some(_)) => updates.push(row.updated_values(false, proven, None, None)),
                (ReadAdmission::ReadAgain { not_before }, Some(_)) => {
                    judged.no_fact.push((row.product, row.warehouse_id));
                    let first = last.first_mismatch_at.unwrap_or(page.observed_at).min(page.observed_at);
                    updates.push(row.updated_values(true, row.is_proven, Some(first), Some(not_before)));
                }
                (ReadAdmission::Contradiction, Some(shown)) => {
                    updates.push(row.updated_values(false, false, None, None));
                    if needs_read_back(&row.accepted_write()) {
                        judged.mismatches.push(self.mismatch_open(&row, shown, page.observed_at).await?);
                    }
                }
            }
            let is_judged =
                updates.len() > updates_before && !judged.no_fact.contains(&(row.product, row.warehouse_id));
            judged.stock_levels_unblocked += u64::from(is_judged && row.first_mismatch_ms.is_some());
        }
        self.writes_store(&updates).await?;
        Ok(judged)
    }

    /// Returns the writes that overlap a page or are unconfirmed.
    async fn writes_to_judge(&mut self, page: &BalancePage<'_>) -> Result<Vec<StockLevelWriteRow>> {
        let skus: BTreeSet<&Sku> =
            page.requested.iter().chain(page.products.iter().map(|p| &p.sku)).collect();
        let sql = "SELECT w.product, w.warehouse_id, p.sku, w.exchange_id, w.before, w.written, w.ended, \
                          w.is_unconfirmed, w.is_proven, w.first_mismatch_ms, w.check_due_ms \
                   FROM stock_level_write w JOIN product p ON p.id = w.product \
                   WHERE p.sku IN (SELECT atom FROM json_each($1)) \
                     AND (w.ended IS NULL OR w.ended > $2 OR w.is_unconfirmed)";
        let values = (json_rows(&skus), page.exchange_id.0);
        self.fetch_all(sql, values, "read the writes to the stock levels of a page").await
    }

    async fn writes_store(&mut self, rows: &[Value]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE stock_level_write SET is_unconfirmed = CAST(m.value->>2 AS BOOLEAN), \
                       is_proven = CAST(m.value->>3 AS BOOLEAN), \
                       first_mismatch_ms = CAST(m.value->>4 AS BIGINT), \
                       check_due_ms = CAST(m.value->>5 AS BIGINT) FROM json_each($1) m \
                   WHERE product = CAST(m.value->>0 AS BIGINT) AND warehouse_id = CAST(m.value->>1 AS BIGINT)";
        self.execute(sql, (json_rows(rows),), "store the checks of accepted writes").await
    }

    async fn mismatch_open(
        &mut self,
        row: &StockLevelWriteRow,
        shown: Option<Quantity>,
        at: Timestamp,
    ) -> Result<MismatchRow> {
        let sql = "INSERT INTO mismatch (product, warehouse_id, exchange_id, written, shown, since_ms) \
                   VALUES ($1, $2, $3, $4, $5, $6) \
                   ON CONFLICT (product, warehouse_id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       written = excluded.written, shown = excluded.shown, since_ms = excluded.since_ms";
        let shown = shown.map(|shown| shown.0);
        let values = (row.product, row.warehouse_id, row.exchange_id, row.written, shown, at.0);
        self.execute(sql, values, "open a conflict").await?;
        let (sku, warehouse_id, written) = (row.sku.clone(), row.warehouse_id, row.written);
        Ok(MismatchRow { sku, warehouse_id, written, shown })
    }

    /// Closes the conflicts of stock levels that now show the written quantity, and returns their number.
    pub(super) async fn mismatch_close_agreed(&mut self, page: &BalancePage<'_>) -> Result<u64> {
        let sql = "SELECT EXISTS (SELECT 1 FROM mismatch)";
        if !self.fetch_value(sql, (), "check for open conflicts").await? {
            return Ok(0);
        }
        let levels = page.products.iter().flat_map(|p| p.warehouses.iter().map(move |c| (p, c)));
        let levels: Vec<Value> =
            levels.map(|(p, c)| value!([p.sku, c.warehouse_id, c.quantity_on_hand])).collect();
        let sql = "DELETE FROM mismatch WHERE (product, warehouse_id, written) IN ( \
                       SELECT p.id, CAST(value->>1 AS BIGINT), CAST(value->>2 AS BIGINT) \
                       FROM json_each($1) JOIN product p ON p.sku = value->>0)";
        self.execute_counting(sql, (json_rows(&levels),), "close conflicts that the platform resolved").await
    }

    /// Closes the conflicts of stock levels (product, warehouse) that a later change decided.
    pub(crate) async fn mismatch_close(&mut self, levels: &[(i64, i64)]) -> Result<()> {
        let sql = "DELETE FROM mismatch WHERE (product, warehouse_id) IN ( \
                       SELECT CAST(value->>0 AS BIGINT), CAST(value->>1 AS BIGINT) FROM json_each($1))";
        self.execute(sql, (json_rows(levels),), "close conflicts that a later change resolved").await
    }

    /// Marks the writes of an exchange as accepted, before they end, and schedules their checks.
    pub(super) async fn writes_accepted(
        &mut self,
        exchange: ExchangeId,
        sent_at: Timestamp,
        applied: &[StockLevelWrite],
    ) -> Result<()> {
        let changing: Vec<&StockLevelWrite> =
            applied.iter().filter(|write| write.before != Some(write.written)).collect();
        if changing.is_empty() {
            return Ok(());
        }
        let sql = "SELECT product, warehouse_id FROM stock_level_write \
                   WHERE exchange_id = $1 AND ended IS NULL AND is_proven";
        let proven: BTreeSet<(i64, i64)> =
            self.fetch_all(sql, (exchange.0,), "read the proven stock levels").await?.into_iter().collect();
        let row = |write: &&StockLevelWrite| {
            let (product, warehouse_id) = (write.product, write.warehouse_id);
            let is_proven = proven.contains(&(product, warehouse_id));
            let (before, target) = (write.before, write.written);
            let accepted = AcceptedWrite { exchange_id: exchange, warehouse_id, before, target, is_proven };
            value!([product, warehouse_id, needs_read_back(&accepted)])
        };
        let rows: Vec<Value> = changing.iter().map(row).collect();
        // Counted from the send time, which a replay knows too. Two checks decide, at least [`READS_APART`]
        // apart.
        let sql = "UPDATE stock_level_write \
                   SET is_unconfirmed = TRUE, \
                       check_due_ms = CASE WHEN CAST(m.value->>2 AS BOOLEAN) THEN CAST($3 AS BIGINT) END \
                   FROM json_each($1) m \
                   WHERE product = CAST(m.value->>0 AS BIGINT) AND warehouse_id = CAST(m.value->>1 AS BIGINT) \
                     AND exchange_id = $2";
        let values = (json_rows(&rows), exchange.0, sent_at.plus(READS_APART).0);
        self.execute(sql, values, "schedule checks of accepted writes").await
    }
}
