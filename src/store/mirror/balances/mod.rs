//! Recording of a page of balances.
//!
//! A page takes a few statements (`engine/bulk.rs`, and `json_each` where rows are few). A statement per row
//! would cross to the connection's thread and back thousands of times. A product whose digest equals the new
//! record's is skipped (`page.rs`). Of the others only the differences are written.
//!
//! A stock level keeps its older fact and that fact's age if a write overlaps the read: claimed, or finished
//! after this request was sent. The answer may be older than the write (docs/rules.md 3). It also keeps them if
//! it shows the value from before its last write, until a second check agrees (docs/rules.md 3, `readback.rs`).

pub(in crate::store) mod absence;
pub(in crate::store) mod history;
pub(in crate::store) mod page;
pub(in crate::store) mod unchanged;

use super::readback::WriteJudgement;
use super::stock_levels::json_rows;
use crate::client::wire::WarehouseBalance;
use crate::model::{ExchangeId, Sku};
use crate::store::engine::bulk::BulkValue::{Flag, Integer, Text};
use crate::store::engine::bulk::{BulkInsert, RowConflicts, shared_text};
use crate::store::engine::error::SqlContext;
use crate::store::{MismatchRow, Result, WriteTransaction};
use page::{BalancePage, KnownProducts, KnownProductsRow, PageMembers, ProductWrite, record_digests};
use serde_json::{Value, json as value};
use std::sync::OnceLock;
use unchanged::{PARSER_VERSION, page_is_evidence};

#[derive(Clone, Debug, Default)]
pub(crate) struct BalancesRecorded {
    /// Number of stock levels that are new or whose quantity or attributes changed.
    pub stock_levels_changed: u64,
    /// Accepted writes that the platform does not show, as two checks agree.
    pub(crate) mismatched: Vec<MismatchRow>,
    /// Number of conflicts that ended, because the platform shows the written quantity.
    pub conflicts_closed: u64,
    /// Number of stock levels whose changes waited for a second check, which this page was.
    pub stock_levels_unblocked: u64,
    /// Requested SKUs that came under no spelling.
    pub absent: Vec<Sku>,
    /// Number of those that are not proved missing: a large answer may have been cut.
    pub unproved: u64,
    /// True if no requested SKU came.
    pub is_silent: bool,
}

/// Insertion of products. New ones get the read batch of their page, known ones later. A SKU
/// that now belongs to another product loses its type.
static PRODUCT_INSERT: BulkInsert<7> = BulkInsert {
    target: "product (read_batch_id, id, sku, case_key, product_id, upc, total, digest)",
    conflict_clause: "ON CONFLICT (id) DO UPDATE SET \
               type = CASE WHEN product.product_id <> excluded.product_id THEN NULL ELSE product.type END, \
               product_id = coalesce(excluded.product_id, product.product_id), \
               upc = coalesce(excluded.upc, product.upc), total = coalesce(excluded.total, product.total), \
               alias_of = NULL, absent_ms = NULL, missing_since_ms = NULL, lack = NULL, digest = excluded.digest \
           WHERE (excluded.product_id IS NOT NULL AND product.product_id IS DISTINCT FROM excluded.product_id) \
               OR (excluded.upc IS NOT NULL AND product.upc IS DISTINCT FROM excluded.upc) \
               OR (excluded.total IS NOT NULL AND product.total IS DISTINCT FROM excluded.total) \
               OR product.alias_of IS NOT NULL OR product.lack IS NOT NULL \
               OR product.digest IS DISTINCT FROM excluded.digest",
    statements: OnceLock::new(),
};

static STOCK_LEVEL_INSERT: BulkInsert<6> = BulkInsert {
    target: "balance (since_ms, product, warehouse_id, quantity, warehouse_sku, is_active, include_in_sync)",
    conflict_clause: "ON CONFLICT (product, warehouse_id) DO UPDATE SET \
               quantity = excluded.quantity, warehouse_sku = excluded.warehouse_sku, \
               is_active = excluded.is_active, include_in_sync = excluded.include_in_sync, \
               since_ms = CASE WHEN balance.quantity <> excluded.quantity THEN excluded.since_ms \
                               ELSE balance.since_ms END, \
               fact_exchange_id = NULL, fact_ms = NULL, unlinked_ms = NULL \
           WHERE balance.quantity <> excluded.quantity \
               OR balance.warehouse_sku IS DISTINCT FROM excluded.warehouse_sku \
               OR balance.is_active IS DISTINCT FROM excluded.is_active \
               OR balance.include_in_sync IS DISTINCT FROM excluded.include_in_sync \
               OR balance.fact_exchange_id IS NOT NULL OR balance.unlinked_ms IS NOT NULL",
    statements: OnceLock::new(),
};

impl WriteTransaction {
    pub(crate) async fn mirror_balances(&mut self, page: &BalancePage<'_>) -> Result<BalancesRecorded> {
        let members = PageMembers::from_page(page);
        // The digests are computed while SQLite works on its own thread.
        let (known, digests) =
            tokio::join!(self.products_known(page.exchange_id, &members), async { record_digests(page) });
        let known = known?;
        let judged =
            if known.is_evidence { self.writes_judge(page).await? } else { WriteJudgement::default() };
        let is_exact = page.is_whole && members.are_as_requested(page) && judged.no_fact.is_empty();
        let batch = self.read_batch_create(page, &known, is_exact).await?;
        let rows = known.records_to_write(page, &members, &digests, &judged.no_fact);
        self.products_write(&rows, batch).await?;
        self.unmatched_skus_write(&members).await?;
        self.older_facts_keep(&judged.no_fact).await?;
        self.unshown_keep(&members, &known, &rows).await?;
        // Before the read batch is updated: the history stores the old pair with the time it was last seen.
        let stock_levels_changed = self.stock_levels_write(page, &rows, &judged.no_fact).await?;
        self.stock_levels_unlink(page, &rows, &judged.no_fact).await?;
        self.read_batch_move(page, &members, &known, batch).await?;
        let agreed = if known.is_evidence { self.mismatch_close_agreed(page).await? } else { 0 };
        let unproved = self.unshown_mark(page, &members, &rows).await?;
        if is_exact && !known.is_nothing() {
            self.read_batch_mark_verified(page).await?;
        }
        Ok(BalancesRecorded {
            stock_levels_changed,
            mismatched: judged.mismatches,
            conflicts_closed: agreed,
            stock_levels_unblocked: judged.stock_levels_unblocked,
            is_silent: !members.any_came && members.unreadable.is_empty() && !page.has_unnamed_record,
            absent: members.absent,
            unproved,
        })
    }

    /// Returns the known members of a page, with `is_evidence` if writes or conflicts require a judgement.
    /// Mostly none do, and the page's stock levels need no scan.
    async fn products_known(
        &mut self,
        exchange: ExchangeId,
        members: &PageMembers<'_>,
    ) -> Result<KnownProducts> {
        // One row of text, because a row per member would cross to the connection's thread one by one.
        let sql = concat!(
            "SELECT json_group_array(json_array(m.key, p.id, p.digest, p.read_batch_id)), \
                 (SELECT coalesce(max(id), 0) FROM product), ",
            page_is_evidence!(),
            " FROM json_each($1) m CROSS JOIN product p WHERE p.sku = m.atom"
        );
        let values = (json_rows(&members.skus), exchange.0);
        let found: KnownProductsRow = self.fetch_one(sql, values, "read the products of a page").await?;
        Ok(KnownProducts::from_row(found, members))
    }

    async fn products_write(&mut self, rows: &[ProductWrite<'_>], batch: Option<i64>) -> Result<()> {
        let are =
            if rows.iter().all(|row| row.is_new) { RowConflicts::Impossible } else { RowConflicts::Possible };
        let done = PRODUCT_INSERT.insert_rows(&mut self.tx, batch, (rows, are), |row| {
            [
                Integer(Some(row.id)),
                Text(Some(shared_text(row.fact.sku.as_str()))),
                Text(Some(shared_text(&row.fact.sku.case_key()))),
                Integer(row.fact.id.map(|id| id.0)),
                Text(row.fact.upc.as_deref().map(shared_text)),
                Integer(row.fact.quantity_on_hand),
                Integer(row.digest),
            ]
        });
        done.await.map(drop).context("record products")
    }

    /// Records requested SKUs that did not come under their own spelling.
    async fn unmatched_skus_write(&mut self, members: &PageMembers<'_>) -> Result<()> {
        if members.all_matched() {
            return Ok(());
        }
        let others = members.aliases.iter().map(|(asked, _)| *asked);
        let others = others.chain(&members.absent).chain(&members.unreadable);
        let others: Vec<Value> = others.map(|sku| value!([sku, sku.case_key()])).collect();
        let sql = "INSERT INTO product (sku, case_key) SELECT value->>0, value->>1 FROM json_each($1) \
                   WHERE true \
                   ON CONFLICT (sku) DO NOTHING";
        self.execute(sql, (json_rows(&others),), "record the requested SKUs").await?;
        for (asked, returned) in &members.aliases {
            let sql = "UPDATE product SET alias_of = (SELECT id FROM product WHERE sku = $2), digest = NULL \
                       WHERE sku = $1";
            self.execute(sql, (asked.as_str(), returned.as_str()), "record an alias of a SKU").await?;
        }
        Ok(())
    }

    /// Fixes the age of stock levels that keep their older fact, before the read batch is updated.
    async fn older_facts_keep(&mut self, no_fact: &[(i64, i64)]) -> Result<()> {
        if no_fact.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE balance SET fact_exchange_id = read_batch.exchange_id, \
                   fact_ms = read_batch.observed_ms \
                   FROM product JOIN read_batch ON read_batch.id = product.read_batch_id \
                   WHERE product.id = balance.product AND balance.fact_exchange_id IS NULL \
                     AND (balance.product, balance.warehouse_id) IN ( \
                         SELECT CAST(value->>0 AS BIGINT), CAST(value->>1 AS BIGINT) FROM json_each($1))";
        self.execute(sql, (json_rows(no_fact),), "keep the age of facts that a write overlaps").await?;
        let products: Vec<i64> = no_fact.iter().map(|(product, _)| *product).collect();
        self.digests_clear(&products).await
    }

    /// Clears the digests of products whose rows no longer equal their last record.
    pub(super) async fn digests_clear(&mut self, products: &[i64]) -> Result<()> {
        let sql = "UPDATE product SET digest = NULL \
                   WHERE id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1))";
        self.execute(sql, (json_rows(products),), "clear the digests of products").await
    }

    /// Creates a read batch of this exchange; `None` where one older batch has exactly these members and is
    /// moved. If all members are new, no later step clears `verified_by`, so it is set here.
    async fn read_batch_create(
        &mut self,
        page: &BalancePage<'_>,
        known: &KnownProducts,
        is_exact: bool,
    ) -> Result<Option<i64>> {
        if let Some(batch) = known.read_batch {
            let sql = "SELECT count(*) FROM product WHERE read_batch_id = $1";
            let members: i64 = self.fetch_value(sql, (batch,), "count the products of a read batch").await?;
            if members.unsigned_abs() == known.member_count() {
                return Ok(None);
            }
        }
        let verified_by = (is_exact && known.is_nothing()).then_some(PARSER_VERSION);
        let sql = "INSERT INTO read_batch (exchange_id, observed_ms, verified_by) VALUES ($1, $2, $3) \
                   RETURNING id";
        let values = (page.exchange_id.0, page.observed_at.0, verified_by);
        self.fetch_value(sql, values, "create a read batch").await.map(Some)
    }

    /// Points the members to the new read batch, or updates their old one: an unchanged page costs one row.
    async fn read_batch_move(
        &mut self,
        page: &BalancePage<'_>,
        members: &PageMembers<'_>,
        known: &KnownProducts,
        batch: Option<i64>,
    ) -> Result<()> {
        let Some(batch) = batch else {
            let sql = "UPDATE read_batch SET exchange_id = $2, observed_ms = $3 WHERE id = $1";
            let values = (known.read_batch, page.exchange_id.0, page.observed_at.0);
            return self.execute(sql, values, "update a read batch").await;
        };
        let elsewhere = known.outside_batch(members);
        if elsewhere.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE product SET read_batch_id = $2 WHERE sku IN (SELECT atom FROM json_each($1))";
        self.execute(sql, (json_rows(&elsewhere), batch), "assign products to their read batch").await?;
        let sql = "DELETE FROM read_batch WHERE id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) \
                   AND NOT EXISTS (SELECT 1 FROM product WHERE product.read_batch_id = read_batch.id)";
        self.execute(sql, (json_rows(&known.read_batches),), "delete unused read batches").await
    }

    async fn stock_levels_write(
        &mut self,
        page: &BalancePage<'_>,
        rows: &[ProductWrite<'_>],
        no_fact: &[(i64, i64)],
    ) -> Result<u64> {
        let levels = rows.iter().flat_map(|row| row.fact.warehouses.iter().map(move |level| (row.id, level)));
        let facts: Vec<(i64, &WarehouseBalance<'_>)> =
            levels.filter(|(id, level)| !no_fact.contains(&(*id, level.warehouse_id.0))).collect();
        let are = if rows.iter().all(ProductWrite::has_new_stock_levels) {
            RowConflicts::Impossible
        } else {
            RowConflicts::Possible
        };
        let first = Some(page.observed_at.0);
        let done = STOCK_LEVEL_INSERT.insert_rows(&mut self.tx, first, (&facts, are), |(id, level)| {
            [
                Integer(Some(*id)),
                Integer(Some(level.warehouse_id.0)),
                Integer(Some(level.quantity_on_hand)),
                Text(level.warehouse_sku.as_deref().map(shared_text)),
                Flag(level.is_active),
                Flag(level.include_in_sync),
            ]
        });
        done.await.context("record balances")
    }

    /// Marks the stock levels that their product's record no longer holds as vanished. The answer did not
    /// show them, so each keeps its age. The caller must therefore do this before the read batch is updated.
    async fn stock_levels_unlink(
        &mut self,
        page: &BalancePage<'_>,
        rows: &[ProductWrite<'_>],
        no_fact: &[(i64, i64)],
    ) -> Result<()> {
        let whole: Vec<&ProductWrite<'_>> =
            rows.iter().filter(|row| !row.is_new && !row.fact.is_partial).collect();
        if whole.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = whole.iter().map(|row| row.id).collect();
        let levels =
            rows.iter().flat_map(|row| row.fact.warehouses.iter().map(|c| (row.id, c.warehouse_id.0)));
        let stay: Vec<(i64, i64)> = levels.chain(no_fact.iter().copied()).collect();
        let sql = "UPDATE balance SET unlinked_ms = $3, (fact_exchange_id, fact_ms) = ( \
                       SELECT coalesce(balance.fact_exchange_id, r.exchange_id), coalesce(balance.fact_ms, r.observed_ms) \
                       FROM product p LEFT JOIN read_batch r ON r.id = p.read_batch_id \
                       WHERE p.id = balance.product) \
                   WHERE unlinked_ms IS NULL \
                     AND product IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) \
                     AND (product, warehouse_id) NOT IN ( \
                         SELECT CAST(value->>0 AS BIGINT), CAST(value->>1 AS BIGINT) FROM json_each($2))";
        let values = (json_rows(&ids), json_rows(&stay), page.observed_at.0);
        self.execute(sql, values, "mark unlinked stock levels").await
    }
}
