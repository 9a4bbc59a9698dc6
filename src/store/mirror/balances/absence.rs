//! Products that an answer lacks: the age of their stock levels, and the proof that a SKU is missing.
//!
//! A quantity is as old as the last answer that held it. The stock levels of an absent product keep their age
//! while its read batch is updated. So do those that an incompletely read record does not show. A read batch
//! holds only when a product was requested; `product.lack` holds the way in which the answer lacked it.
//!
//! The other SKUs of the same answer vouch for an absence: a SKU becomes missing by two answers that lack it and
//! hold another requested SKU. Of a known SKU these are minutes apart. An answer that holds none of the requested
//! SKUs proves nothing, and a record that cannot be read is no absence. A wrong mark rejects no change, and the next
//! answer with the record removes it.

use super::page::{BalancePage, KnownProducts, PageMembers, ProductWrite};
use crate::model::Sku;
use crate::model::time::whole_millis;
use crate::reconcile::ProductLack;
use crate::reconcile::proof::ABSENCE_CHECKS_APART;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store, WriteTransaction};

impl Store {
    /// Returns the number of these SKUs that the platform has. One that the last answer lacked, beside others, counts
    /// no more.
    pub(crate) async fn product_known_count(&self, skus: &[Sku]) -> Result<u64> {
        let sql = "SELECT count(*) FROM product WHERE product_id IS NOT NULL AND missing_since_ms IS NULL \
                     AND lack IS DISTINCT FROM 'absent' \
                     AND sku IN (SELECT atom FROM json_each($1))";
        let count: i64 = self.fetch_value(sql, (json_rows(skus),), "count the known SKUs of a page").await?;
        Ok(count.unsigned_abs())
    }
}

impl WriteTransaction {
    /// Fixes the age of stock levels that a page does not show, before its read batch is updated.
    pub(super) async fn unshown_keep(
        &mut self,
        members: &PageMembers<'_>,
        known: &KnownProducts,
        rows: &[ProductWrite<'_>],
    ) -> Result<()> {
        let partial: Vec<&ProductWrite<'_>> =
            rows.iter().filter(|row| !row.is_new && row.fact.is_partial).collect();
        if partial.is_empty() && members.all_matched() {
            return Ok(());
        }
        let mut products = known.not_returned(members);
        products.extend(partial.iter().map(|row| row.id));
        let shown =
            partial.iter().flat_map(|row| row.fact.warehouses.iter().map(|c| (row.id, c.warehouse_id.0)));
        let shown: Vec<(i64, i64)> = shown.collect();
        let sql = "UPDATE balance SET fact_exchange_id = read_batch.exchange_id, \
                   fact_ms = read_batch.observed_ms \
                   FROM product JOIN read_batch ON read_batch.id = product.read_batch_id \
                   WHERE product.id = balance.product AND balance.fact_exchange_id IS NULL \
                     AND balance.product IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) \
                     AND (balance.product, balance.warehouse_id) NOT IN ( \
                         SELECT CAST(value->>0 AS BIGINT), CAST(value->>1 AS BIGINT) FROM json_each($2))";
        let values = (json_rows(&products), json_rows(&shown));
        self.execute(sql, values, "keep the age of absent stock levels").await?;
        self.digests_clear(&products).await
    }

    /// Records how a page lacks requested SKUs, and marks those it proves missing. Returns the number of
    /// SKUs that the page lacks without such a proof.
    pub(super) async fn unshown_mark(
        &mut self,
        page: &BalancePage<'_>,
        members: &PageMembers<'_>,
        rows: &[ProductWrite<'_>],
    ) -> Result<u64> {
        let partial = rows.iter().filter(|row| row.fact.is_partial).map(|row| &row.fact.sku);
        let unreadable: Vec<&Sku> = partial.chain(&members.unreadable).collect();
        if !unreadable.is_empty() {
            let sql = "UPDATE product SET lack = 'unreadable', digest = NULL, absent_ms = NULL, missing_since_ms = NULL \
                       WHERE sku IN (SELECT atom FROM json_each($1))";
            self.execute(sql, (json_rows(&unreadable),), "record an incomplete answer").await?;
        }
        if members.absent.is_empty() {
            return Ok(0);
        }
        let lack = match page.has_unnamed_record {
            true => ProductLack::Unreadable,
            false => ProductLack::Absent,
        };
        let is_vouched_for = members.any_came && !page.has_unnamed_record;
        let sql = "UPDATE product SET lack = $2, digest = NULL, \
                       absent_ms = CASE WHEN $3 AND NOT coalesce(absent_ms <= $4, FALSE) THEN $4 ELSE absent_ms END, \
                       missing_since_ms = CASE WHEN $3 AND missing_since_ms IS NULL AND absent_ms IS NOT NULL \
                           AND (product_id IS NULL OR $4 - absent_ms >= $5) THEN $4 ELSE missing_since_ms END \
                   WHERE sku IN (SELECT atom FROM json_each($1)) \
                   RETURNING missing_since_ms IS NULL";
        let apart = whole_millis(ABSENCE_CHECKS_APART);
        let values = (json_rows(&members.absent), lack.as_str(), is_vouched_for, page.observed_at.0, apart);
        let marked: Vec<bool> =
            self.fetch_column(sql, values, "mark the SKUs that the platform did not return").await?;
        Ok(marked.into_iter().filter(|is_unproved| *is_unproved).count() as u64)
    }
}
