//! Recording a page of balances: the one place where a product's and its cells' facts change.
//!
//! A handful of statements a page, each over all of it (`json_each`): a statement per row would cross to the
//! connection's thread and back thousands of times. What did not change is not written.
//!
//! A cell that a write of ours overlaps (claimed, or concluded after this request was sent) keeps its older fact:
//! the answer may be from before the write (rules.md 5). Its age stays the older fact's too. So does a cell that shows
//! the value from before its last write, until a second look agrees (rules.md 6, `readback.rs`).

use super::error::Doing;
use super::{MismatchRow, Store, StoreError, Write};
use crate::model::{ExchangeId, Quantity, Sku, Timestamp, WarehouseId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The service's word on one product (`ProductBalance`).
#[derive(Clone, Debug)]
pub struct BalanceFact {
    /// In the service's spelling.
    pub sku: Sku,
    /// `Id`.
    pub product_id: Option<i64>,
    /// `UPC`.
    pub upc: Option<String>,
    /// `QuantityOnHand` of the product: kept and shown, never a cell's fact.
    pub total: Option<i64>,
    /// `Warehouses[]`.
    pub cells: Vec<CellBalance>,
    /// False where an entry of `Warehouses[]` could not be read: then none counts as vanished.
    pub is_whole: bool,
}

/// The service's word on one cell (`ProductBalance.Warehouses[]`).
#[derive(Clone, Debug)]
pub struct CellBalance {
    /// `WarehouseId`.
    pub warehouse_id: WarehouseId,
    /// `QuantityOnHand`.
    pub quantity: Quantity,
    /// `WarehouseSKU`.
    pub warehouse_sku: Option<String>,
    /// `IsActive`.
    pub is_active: Option<bool>,
    /// `IncludeInSyncBalance`.
    pub include_in_sync: Option<bool>,
}

/// One answer to *Get product balances*.
#[derive(Clone, Copy, Debug)]
pub struct BalancePage<'a> {
    /// The exchange that brought it; its id is the position at which it began.
    pub exchange_id: ExchangeId,
    /// When its request was sent.
    pub observed_at: Timestamp,
    /// What was asked for.
    pub asked: &'a [Sku],
    /// What came.
    pub products: &'a [BalanceFact],
}

/// What a page changed.
#[derive(Clone, Debug, Default)]
pub struct BalancesRecorded {
    /// Cells whose quantity or attributes changed, or that are new.
    pub cells_changed: u64,
    /// Cells left alone because a write of ours overlaps the read, or a late replica may have answered.
    pub cells_overlapped: u64,
    /// Writes that the service accepted and, as two looks agree, does not show.
    pub mismatched: Vec<MismatchRow>,
    /// Conflicts that the answer ended: the service shows what was written.
    pub agreed: u64,
    /// SKUs that were asked for and not returned under any spelling.
    pub absent: Vec<Sku>,
    /// Those of them that are not sure to be missing: a large answer may have been cut.
    pub unsure: Vec<Sku>,
}

/// From here on a SKU that is not returned counts as missing: a large answer may have been cut silently.
const TRUSTED_PAGE: usize = 25;

impl Store {
    /// How many of these SKUs the service is known to have.
    pub async fn product_known(&self, skus: &[Sku]) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM product WHERE product_id IS NOT NULL AND missing_since_ms IS NULL \
                   AND sku IN (SELECT value FROM json_each(?1))";
        let count: i64 = sqlx::query_scalar(sql)
            .bind(super::cells::json(skus))
            .fetch_one(&self.read)
            .await
            .doing("count the known SKUs of a page")?;
        Ok(count.unsigned_abs())
    }
}

impl Write {
    /// Records a page of balances.
    pub async fn mirror_balances(&mut self, page: &BalancePage<'_>) -> Result<BalancesRecorded, StoreError> {
        let spelled = Spellings::of(page);
        let rows = Rows::of(page);
        self.products_write(page, &rows, &spelled).await?;
        let judged = self.writes_judge(page).await?;
        let no_fact = super::cells::json(&judged.no_fact);
        self.older_facts_keep(&no_fact).await?;
        // Before the reading moves on: what a cell held is kept with the time it was last seen.
        let changed = self.cells_write(page, &rows, &no_fact).await?;
        self.reading_move(page, &spelled).await?;
        self.cells_vanish(page, &rows, &no_fact).await?;
        let agreed = self.mismatch_agree(&rows.cells).await?;
        let unsure = self.absent_mark(page, &spelled).await?;
        Ok(BalancesRecorded {
            cells_changed: changed,
            cells_overlapped: judged.no_fact.len() as u64,
            mismatched: judged.opened,
            agreed,
            absent: spelled.absent,
            unsure,
        })
    }

    /// Records what only a product's own record says of it: its name and its type.
    pub async fn mirror_product_kind(
        &mut self,
        sku: &Sku,
        name: Option<&str>,
        kind: Option<&str>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE product SET name = coalesce(?2, name), type = coalesce(?3, type) WHERE sku = ?1";
        let query = sqlx::query(sql).bind(sku.as_str()).bind(name).bind(kind);
        query.execute(&mut *self.tx).await.map(drop).doing("record a product's name and type")
    }

    async fn products_write(
        &mut self,
        page: &BalancePage<'_>,
        rows: &Rows,
        spelled: &Spellings,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO product (sku, sku_fold, product_id, upc, total) \
                   SELECT value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each(?1) WHERE true \
                   ON CONFLICT (sku) DO UPDATE SET \
                       product_id = coalesce(excluded.product_id, product_id), \
                       upc = coalesce(excluded.upc, upc), total = coalesce(excluded.total, total), \
                       alias_of = NULL, absent = 0, missing_since_ms = NULL \
                   WHERE (excluded.product_id IS NOT NULL AND product_id IS NOT excluded.product_id) \
                       OR (excluded.upc IS NOT NULL AND upc IS NOT excluded.upc) \
                       OR (excluded.total IS NOT NULL AND total IS NOT excluded.total) \
                       OR alias_of IS NOT NULL OR absent > 0";
        let done = sqlx::query(sql).bind(&rows.products).execute(&mut *self.tx).await;
        done.doing("record products")?;
        if spelled.aliases.is_empty() && spelled.absent.is_empty() {
            return Ok(());
        }
        let others = page.asked.iter().filter(|sku| !spelled.exact.contains(*sku));
        let others: Vec<Value> = others.map(|sku| json!([sku, sku.fold()])).collect();
        let sql = "INSERT INTO product (sku, sku_fold) SELECT value->>0, value->>1 FROM json_each(?1) WHERE true \
                   ON CONFLICT (sku) DO NOTHING";
        let done = sqlx::query(sql).bind(super::cells::json(&others)).execute(&mut *self.tx).await;
        done.doing("record the SKUs that were asked for")?;
        for (asked, returned) in &spelled.aliases {
            let sql = "UPDATE product SET alias_of = (SELECT id FROM product WHERE sku = ?2) WHERE sku = ?1";
            let done =
                sqlx::query(sql).bind(asked.as_str()).bind(returned.as_str()).execute(&mut *self.tx).await;
            done.doing("record another spelling")?;
        }
        Ok(())
    }

    /// Pins the older fact's time on cells of which the page says no fact, before the reading moves on.
    async fn older_facts_keep(&mut self, no_fact: &str) -> Result<(), StoreError> {
        let sql = "UPDATE balance SET fact_exchange_id = reading.exchange_id, fact_ms = reading.observed_ms \
                   FROM product JOIN reading ON reading.id = product.reading_id \
                   WHERE product.id = balance.product AND balance.fact_exchange_id IS NULL \
                     AND (balance.product, balance.warehouse_id) IN ( \
                         SELECT value->>0, value->>1 FROM json_each(?1))";
        let done = sqlx::query(sql).bind(no_fact).execute(&mut *self.tx).await;
        done.map(drop).doing("keep the facts that a write overlaps")
    }

    /// Points the page's products to a reading of this exchange. Where they are exactly one older reading, that row
    /// moves on instead: an unchanged page costs one row.
    async fn reading_move(&mut self, page: &BalancePage<'_>, spelled: &Spellings) -> Result<(), StoreError> {
        let mut members: BTreeSet<&Sku> = page.asked.iter().collect();
        members.extend(page.products.iter().map(|p| &p.sku));
        members.extend(spelled.aliases.values());
        let members_json = super::cells::json(&members);
        let sql = "SELECT count(*), min(reading_id), max(reading_id), count(reading_id) FROM product \
                   WHERE sku IN (SELECT value FROM json_each(?1))";
        let (count, oldest, newest, read): (i64, Option<i64>, Option<i64>, i64) = sqlx::query_as(sql)
            .bind(&members_json)
            .fetch_one(&mut *self.tx)
            .await
            .doing("find the readings of a page")?;
        let one = oldest.filter(|_| oldest == newest && read == count);
        if let Some(reading) = one {
            let sql = "UPDATE reading SET exchange_id = ?2, observed_ms = ?3 WHERE id = ?1 \
                       AND (SELECT count(*) FROM product WHERE reading_id = ?1) = ?4";
            let done = sqlx::query(sql)
                .bind(reading)
                .bind(page.exchange_id.0)
                .bind(page.observed_at.0)
                .bind(count)
                .execute(&mut *self.tx)
                .await
                .doing("move a reading on")?;
            if done.rows_affected() == 1 {
                return Ok(());
            }
        }
        self.reading_new(page, &members_json).await
    }

    async fn reading_new(&mut self, page: &BalancePage<'_>, members: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO reading (exchange_id, observed_ms) VALUES (?1, ?2) RETURNING id";
        let query = sqlx::query_scalar(sql).bind(page.exchange_id.0).bind(page.observed_at.0);
        let reading: i64 = query.fetch_one(&mut *self.tx).await.doing("begin a reading")?;
        let sql = "UPDATE product SET reading_id = ?2 WHERE sku IN (SELECT value FROM json_each(?1))";
        let done = sqlx::query(sql).bind(members).bind(reading).execute(&mut *self.tx).await;
        done.doing("point products to their reading")?;
        let sql = "DELETE FROM reading WHERE id < ?1 \
                   AND NOT EXISTS (SELECT 1 FROM product WHERE product.reading_id = reading.id)";
        let done = sqlx::query(sql).bind(reading).execute(&mut *self.tx).await;
        done.map(drop).doing("drop readings nothing points to")
    }

    async fn cells_write(
        &mut self,
        page: &BalancePage<'_>,
        rows: &Rows,
        no_fact: &str,
    ) -> Result<u64, StoreError> {
        let sql = "INSERT INTO balance (product, warehouse_id, quantity, warehouse_sku, is_active, include_in_sync, \
                                        since_ms) \
                   SELECT p.id, value->>1, value->>2, value->>3, value->>4, value->>5, ?3 \
                   FROM json_each(?1) JOIN product p ON p.sku = value->>0 \
                   WHERE (p.id, value->>1) NOT IN (SELECT n.value->>0, n.value->>1 FROM json_each(?2) n) \
                   ON CONFLICT (product, warehouse_id) DO UPDATE SET \
                       quantity = excluded.quantity, warehouse_sku = excluded.warehouse_sku, \
                       is_active = excluded.is_active, include_in_sync = excluded.include_in_sync, \
                       since_ms = iif(quantity <> excluded.quantity, excluded.since_ms, since_ms), \
                       fact_exchange_id = NULL, fact_ms = NULL, vanished_ms = NULL \
                   WHERE quantity <> excluded.quantity OR warehouse_sku IS NOT excluded.warehouse_sku \
                       OR is_active IS NOT excluded.is_active OR include_in_sync IS NOT excluded.include_in_sync \
                       OR fact_exchange_id IS NOT NULL OR vanished_ms IS NOT NULL";
        let query = sqlx::query(sql).bind(&rows.cells).bind(no_fact).bind(page.observed_at.0);
        let done = query.execute(&mut *self.tx).await;
        Ok(done.doing("record balances")?.rows_affected())
    }

    /// Marks the cells whose product was returned without them: the link to the warehouse is gone.
    async fn cells_vanish(
        &mut self,
        page: &BalancePage<'_>,
        rows: &Rows,
        no_fact: &str,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE balance SET vanished_ms = ?3 \
                   WHERE vanished_ms IS NULL \
                     AND product IN (SELECT p.id FROM json_each(?1) JOIN product p ON p.sku = value->>0) \
                     AND (product, warehouse_id) NOT IN ( \
                         SELECT p.id, CAST(value->>1 AS INTEGER) FROM json_each(?2) JOIN product p ON p.sku = value->>0) \
                     AND (product, warehouse_id) NOT IN (SELECT value->>0, value->>1 FROM json_each(?4))";
        let done = sqlx::query(sql)
            .bind(&rows.whole)
            .bind(&rows.cells)
            .bind(page.observed_at.0)
            .bind(no_fact)
            .execute(&mut *self.tx)
            .await;
        done.map(drop).doing("mark vanished cells")
    }

    /// Counts the SKUs the service did not return; a small answer that lacks one again makes it missing. Those that
    /// are not missing yet are returned.
    async fn absent_mark(
        &mut self,
        page: &BalancePage<'_>,
        spelled: &Spellings,
    ) -> Result<Vec<Sku>, StoreError> {
        if spelled.absent.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "UPDATE product SET absent = absent + 1, \
                       missing_since_ms = iif(?3 AND (absent > 0 OR product_id IS NULL), \
                                              coalesce(missing_since_ms, ?2), missing_since_ms) \
                   WHERE sku IN (SELECT value FROM json_each(?1)) RETURNING sku, missing_since_ms IS NULL";
        let marked: Vec<(String, bool)> = sqlx::query_as(sql)
            .bind(super::cells::json(&spelled.absent))
            .bind(page.observed_at.0)
            .bind(page.asked.len() <= TRUSTED_PAGE)
            .fetch_all(&mut *self.tx)
            .await
            .doing("mark the SKUs the service did not return")?;
        let unsure = marked.into_iter().filter(|(_, is_unsure)| *is_unsure);
        Ok(unsure.filter_map(|(sku, _)| Sku::new(sku).ok()).collect())
    }
}

/// The page as JSON arrays, one row each, for the bulk statements.
struct Rows {
    products: String,
    cells: String,
    /// The products whose cells are all there.
    whole: String,
}

impl Rows {
    fn of(page: &BalancePage<'_>) -> Self {
        let products: Vec<Value> = page
            .products
            .iter()
            .map(|p| json!([p.sku, p.sku.fold(), p.product_id, p.upc, p.total]))
            .collect();
        let cells = page.products.iter().flat_map(|p| p.cells.iter().map(move |c| (p, c)));
        let cells: Vec<Value> = cells.map(|(p, c)| cell_row(p, c)).collect();
        let whole: Vec<Value> = page.products.iter().filter(|p| p.is_whole).map(|p| json!([p.sku])).collect();
        let text = |rows: &[Value]| super::cells::json(rows);
        Self { products: text(&products), cells: text(&cells), whole: text(&whole) }
    }
}

fn cell_row(product: &BalanceFact, cell: &CellBalance) -> Value {
    let flag = |value: Option<bool>| value.map(i64::from);
    json!([
        product.sku,
        cell.warehouse_id,
        cell.quantity,
        cell.warehouse_sku,
        flag(cell.is_active),
        flag(cell.include_in_sync)
    ])
}

/// How the answer spells what was asked: exactly, otherwise, or not at all (rules.md 12).
struct Spellings {
    exact: BTreeSet<Sku>,
    aliases: BTreeMap<Sku, Sku>,
    absent: Vec<Sku>,
}

impl Spellings {
    fn of(page: &BalancePage<'_>) -> Self {
        let exact: BTreeSet<Sku> = page.products.iter().map(|p| p.sku.clone()).collect();
        let mut folds: BTreeMap<String, Vec<&Sku>> = BTreeMap::new();
        for product in page.products {
            folds.entry(product.sku.fold()).or_default().push(&product.sku);
        }
        let (mut aliases, mut absent) = (BTreeMap::new(), Vec::new());
        for asked in page.asked.iter().filter(|sku| !exact.contains(*sku)) {
            match folds.get(&asked.fold()).map(Vec::as_slice) {
                Some([only]) => drop(aliases.insert(asked.clone(), (*only).clone())),
                _ => absent.push(asked.clone()),
            }
        }
        Self { exact, aliases, absent }
    }
}
