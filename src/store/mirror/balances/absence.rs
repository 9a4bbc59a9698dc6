//! Products that an answer lacks: the age of their stock levels, and the proof that a SKU is missing.
//!
//! A quantity is as old as the last answer that held it. The stock levels of an absent product keep their age
//! while its read batch is updated. So do those that an incompletely read record does not show. A read batch
//! holds only when a product was requested; `product.lack` holds the way in which the answer lacked it.
//!
//! A SKU becomes missing only by two answers that lack it and hold other requested SKUs: of a known one they are
//! minutes apart. A call for many SKUs does not count, because its answer may be cut. A record that is present but
//! cannot be read is no absence. A wrong mark costs little: no change is rejected for it, and the next answer with the
//! record removes it.

use super::page::{BalancePage, KnownProducts, PageMembers, ProductWrite};
use crate::model::time::whole_millis;
use crate::model::{Operation, Sku};
use crate::reconcile::ProductLack;
use crate::reconcile::proof::{ABSENCE_CHECKS_APART, TRUSTED_PAGE_SKUS};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store, WriteTransaction};

/// Number of SKUs known to exist that are requested beside SKUs that may be gone.
pub(crate) const WITNESSES: usize = 8;

impl Store {
    /// Returns the number of these SKUs that the platform has, and true if it has others.
    pub(crate) async fn product_known_count(&self, skus: &[Sku]) -> Result<(u64, bool)> {
        let sql = "SELECT count(*), EXISTS ( \
                       SELECT 1 FROM product WHERE product_id IS NOT NULL AND missing_since_ms IS NULL \
                         AND sku NOT IN (SELECT atom FROM json_each($1))) \
                   FROM product WHERE product_id IS NOT NULL AND missing_since_ms IS NULL \
                     AND sku IN (SELECT atom FROM json_each($1))";
        let (count, has_others): (i64, bool) =
            self.fetch_one(sql, (json_rows(skus),), "count the known SKUs of a page").await?;
        Ok((count.unsigned_abs(), has_others))
    }

    /// Returns a few SKUs outside `beside`: those that the last answers showed, then those that they lacked.
    ///
    /// Requested beside SKUs that may be gone, the former show that the answer is not empty in error. One of
    /// the latter that comes again shows that the platform leaves out records.
    pub(crate) async fn witness_skus(&self, beside: &[Sku]) -> Result<Vec<Sku>> {
        let sql = "SELECT p.sku FROM read_batch r JOIN product p ON p.read_batch_id = r.id \
                   WHERE p.product_id IS NOT NULL AND p.missing_since_ms IS NULL AND p.alias_of IS NULL \
                     AND coalesce(p.lack, 'silent') IN ('absent', 'silent') \
                     AND p.sku NOT IN (SELECT atom FROM json_each($1)) \
                     AND p.sku NOT IN (SELECT subject FROM quarantine WHERE operation = $2) \
                   ORDER BY p.lack IS NOT NULL, r.exchange_id DESC, r.id DESC, p.sku LIMIT $3";
        let limit = i64::try_from(WITNESSES).unwrap_or(i64::MAX);
        let values = (json_rows(beside), Operation::GetProductBalances.as_str(), limit);
        let skus: Vec<String> = self.fetch_column(sql, values, "find witness SKUs").await?;
        Ok(skus.into_iter().filter_map(|sku| Sku::new(sku).ok()).collect())
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

    /// Records how a page lacks requested SKUs, and marks those it proves missing. Returns the SKUs for which
    /// another, small request may prove more.
    pub(super) async fn unshown_mark(
        &mut self,
        page: &BalancePage<'_>,
        members: &PageMembers<'_>,
        rows: &[ProductWrite<'_>],
    ) -> Result<Vec<Sku>> {
        let partial = rows.iter().filter(|row| row.fact.is_partial).map(|row| &row.fact.sku);
        let unreadable: Vec<&Sku> = partial.chain(&members.unreadable).collect();
        if !unreadable.is_empty() {
            let sql = "UPDATE product SET lack = 'unreadable', digest = NULL, absent_ms = NULL, missing_since_ms = NULL \
                       WHERE sku IN (SELECT atom FROM json_each($1))";
            self.execute(sql, (json_rows(&unreadable),), "record an incomplete answer").await?;
        }
        if members.absent.is_empty() { Ok(Vec::new()) } else { self.absent_mark(page, members).await }
    }

    /// Records that an answer lacks SKUs, and marks those it proves missing. Returns the SKUs for which another, small
    /// request may prove more.
    async fn absent_mark(&mut self, page: &BalancePage<'_>, members: &PageMembers<'_>) -> Result<Vec<Sku>> {
        let lack = match (page.has_unnamed_record, members.any_came) {
            (true, _) => ProductLack::Unreadable,
            (false, true) => ProductLack::Absent,
            (false, false) => ProductLack::Silent,
        };
        let is_small = page.requested.len() <= TRUSTED_PAGE_SKUS;
        let is_absent = lack == ProductLack::Absent;
        let sql = "UPDATE product SET lack = $2, digest = NULL, \
                       absent_ms = CASE WHEN $3 AND ($6 OR product_id IS NULL) \
                           AND NOT coalesce(absent_ms <= $4, FALSE) THEN $4 ELSE absent_ms END, \
                       missing_since_ms = CASE WHEN $3 AND $6 AND missing_since_ms IS NULL \
                           AND absent_ms IS NOT NULL AND (product_id IS NULL OR $4 - absent_ms >= $5) \
                           THEN $4 ELSE missing_since_ms END \
                   WHERE sku IN (SELECT atom FROM json_each($1)) \
                   RETURNING sku, missing_since_ms IS NULL, product_id IS NOT NULL";
        let apart = whole_millis(ABSENCE_CHECKS_APART);
        let values =
            (json_rows(&members.absent), lack.as_str(), is_absent, page.observed_at.0, apart, is_small);
        let marked: Vec<(String, bool, bool)> =
            self.fetch_all(sql, values, "mark the SKUs that the platform did not return").await?;
        let may_prove_more = |(_, is_open, is_known): &(String, bool, bool)| {
            *is_open && lack != ProductLack::Unreadable && !(is_small && *is_known)
        };
        let unsure = marked.into_iter().filter(may_prove_more);
        let mut unsure: Vec<Sku> = unsure.filter_map(|(sku, ..)| Sku::new(sku).ok()).collect();
        unsure.sort();
        Ok(unsure)
    }
}
