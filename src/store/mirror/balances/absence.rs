//! Products that an answer lacks: the age of their stock levels, and the proof that a SKU is missing.
//!
//! A quantity is as old as the last answer that held it. The stock levels of an absent product keep their age
//! while its read batch is updated. So do those that an incompletely read record does not show. A read batch
//! holds only when a product was requested; `product.lack` holds the way in which the answer lacked it.
//!
//! A SKU becomes missing only on proof ([`crate::reconcile::proof`]). A check counts if the answer is small
//! enough not to be cut and no record in it hides its SKU. A requested SKU must have come, and so must all
//! other SKUs that the previous answer showed. A SKU that the platform never returned needs two answers, a
//! known one needs two checks minutes apart. A record that is present but cannot be read is no absence.
//!
//! A record that comes after an answer lacked it proves that the platform leaves out existing records. All
//! earlier checks of all SKUs are then discarded.

use super::page::{BalancePage, KnownProducts, PageMembers, ProductWrite};
use crate::model::time::whole_millis;
use crate::model::{Moment, Operation, Sku, Timestamp, case_key};
use crate::reconcile::ProductLack;
use crate::reconcile::proof::{ABSENCE_CHECKS_APART, CheckTime, TRUSTED_PAGE_SKUS};
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::{json_rows, link_is_unproved};
use crate::store::{Result, Store, WriteTransaction};
use serde_json::{Value, json as value};
use sqlx_macros::FromRow;
use std::collections::BTreeSet;

/// Number of SKUs known to exist that are requested beside SKUs that may be gone.
///
/// All of them must come; a platform that leaves out records at random seldom spares so many.
pub(crate) const WITNESSES: usize = 8;
/// Number of undecided spellings among them at most.
const SPELLINGS: usize = WITNESSES / 2;

/// Change held as `no_fact`, with the later state of its stock level.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct UnshownRow {
    /// The change.
    pub id: i64,
    /// SKU to request.
    pub sku: String,
    /// Time at which the change was held.
    pub held_ms: i64,
    /// Time at which the platform was last asked for the SKU; `None`: never.
    pub requested_ms: Option<i64>,
    /// True if a later answer showed the stock level or proved the SKU missing, so the change can be decided.
    pub is_decidable: bool,
    /// True if the SKU is proved missing.
    pub is_missing: bool,
}

/// Stored state of a SKU that an answer lacks.
#[derive(FromRow)]
struct AbsentSku {
    id: i64,
    sku: String,
    is_known: bool,
    absent: i64,
    absent_ms: Option<Timestamp>,
    absent_moment: Option<Moment>,
    missing_since_ms: Option<i64>,
    /// True if the previous answer showed it.
    was_shown: bool,
}

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

    /// Returns a few SKUs outside `beside`: those that the last answers showed, then those that they lacked;
    /// without any, tracked ones.
    ///
    /// Requested beside SKUs that may be gone, the former show that the answer is not empty in error. One of
    /// the latter that comes again shows that the platform leaves out records.
    pub async fn witness_skus(&self, beside: &[Sku]) -> Result<Vec<Sku>> {
        let sql = "SELECT p.sku FROM read_batch r JOIN product p ON p.read_batch_id = r.id \
                   WHERE p.product_id IS NOT NULL AND p.missing_since_ms IS NULL AND p.alias_of IS NULL \
                     AND coalesce(p.lack, 'silent') IN ('absent', 'silent') \
                     AND p.sku NOT IN (SELECT atom FROM json_each($1)) \
                     AND p.sku NOT IN (SELECT subject FROM quarantine WHERE operation = $2) \
                   ORDER BY p.lack IS NOT NULL, r.exchange_id DESC, r.id DESC, p.sku LIMIT $3";
        let shown = self.witness_skus_from(sql, beside).await?;
        if !shown.is_empty() {
            return Ok(shown);
        }
        let sql = "SELECT t.sku FROM tracked_sku t LEFT JOIN product p ON p.sku = t.sku \
                   WHERE p.read_batch_id IS NULL AND t.sku NOT IN (SELECT atom FROM json_each($1)) \
                     AND t.sku NOT IN (SELECT subject FROM quarantine WHERE operation = $2) \
                   ORDER BY t.sku LIMIT $3";
        self.witness_skus_from(sql, beside).await
    }

    /// Returns the SKUs to request beside `page`: undecided spellings of its SKUs, and witnesses.
    pub(crate) async fn skus_beside(&self, page: &[Sku]) -> Result<Vec<Sku>> {
        let mut beside = self.undecided_spellings(page).await?;
        let quarantined = self.quarantine_by_operation(Operation::GetProductBalances).await?;
        beside.retain(|sku| !quarantined.iter().any(|row| row.subject == sku.as_str()));
        beside.truncate(SPELLINGS);
        for witness in self.witness_skus(page).await? {
            if beside.len() < WITNESSES && !beside.contains(&witness) {
                beside.push(witness);
            }
        }
        Ok(beside)
    }

    /// Returns the tracked SKUs that are other spellings of these SKUs and of which no answer decided whether
    /// they are products.
    ///
    /// A returned SKU may be the platform's spelling of a SKU that seems unknown.
    pub(crate) async fn undecided_spellings(&self, skus: &[Sku]) -> Result<Vec<Sku>> {
        if skus.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT json_group_array(t.sku) FROM tracked_sku t LEFT JOIN product p ON p.sku = t.sku \
                   WHERE p.product_id IS NULL AND p.alias_of IS NULL AND p.missing_since_ms IS NULL \
                     AND t.sku NOT IN (SELECT atom FROM json_each($1))";
        let values = (json_rows(skus),);
        let found: LossyText =
            self.fetch_value(sql, values, "find the tracked SKUs that no answer decided").await?;
        let found: Vec<String> =
            serde_json::from_str(&String::from(found)).expect("SQLite wrote the list, from texts");
        let keys: BTreeSet<String> = skus.iter().map(Sku::case_key).collect();
        let found = found.into_iter().filter_map(|sku| Sku::new(sku).ok());
        Ok(found.filter(|sku| keys.contains(&sku.case_key())).collect())
    }

    async fn witness_skus_from(&self, sql: &'static str, beside: &[Sku]) -> Result<Vec<Sku>> {
        let limit = i64::try_from(WITNESSES).unwrap_or(i64::MAX);
        let values = (json_rows(beside), Operation::GetProductBalances.as_str(), limit);
        let skus: Vec<String> = self.fetch_column(sql, values, "find witness SKUs").await?;
        Ok(skus.into_iter().filter_map(|sku| Sku::new(sku).ok()).collect())
    }

    /// Returns the changes held because no answer showed a fact that they depend on.
    ///
    /// Later answers are recognised by position, because the calendar may be set. A SKU that is proved
    /// missing is not decided while another spelling of it is undecided.
    pub(crate) async fn unshown_list(&self) -> Result<Vec<UnshownRow>> {
        let sql = concat!(
            "SELECT h.id, coalesce(p.sku, h.asked) AS sku, h.held_ms, r.observed_ms AS requested_ms, \
                          p.missing_since_ms IS NOT NULL OR (coalesce(r.exchange_id > h.held, FALSE) AND ( \
                              p.lack IS NULL OR (p.lack = 'partial' AND EXISTS ( \
                                  SELECT 1 FROM balance b WHERE b.product = p.id \
                                    AND b.warehouse_id = h.warehouse_id AND b.fact_exchange_id IS NULL)))) \
                              AND NOT EXISTS (SELECT 1 FROM balance b WHERE b.product = p.id \
                                  AND b.warehouse_id = h.warehouse_id AND ",
            link_is_unproved!("$1"),
            ") AS is_decidable, p.missing_since_ms IS NOT NULL AS is_missing \
                   FROM (SELECT o.id, o.warehouse_id, coalesce(o.sku, ( \
                                    SELECT u.sku FROM product u WHERE u.product_id = CAST(o.body->>'Id' AS NUMERIC) \
                                      AND u.missing_since_ms IS NULL ORDER BY u.id LIMIT 1), o.body->>'Sku') AS asked, \
                                coalesce(o.state_changed_ms, 0) AS held_ms, \
                                coalesce((SELECT max(m.position) FROM change_transition m \
                                    WHERE m.change_id = o.id), 0) AS held \
                         FROM outbox o WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.state = 'held' \
                           AND o.reason = 'no_fact') h \
                   LEFT JOIN product p ON p.id = (SELECT m.product FROM sku_spelling m \
                   WHERE m.spelling = h.asked) \
                   LEFT JOIN read_batch r ON r.id = p.read_batch_id WHERE h.asked IS NOT NULL ORDER BY h.id"
        );
        let values = (whole_millis(ABSENCE_CHECKS_APART),);
        let mut rows: Vec<UnshownRow> =
            self.fetch_all(sql, values, "read the changes held for a missing fact").await?;
        let missing = rows.iter().filter(|row| row.is_missing);
        let missing: Vec<Sku> = missing.filter_map(|row| Sku::new(row.sku.as_str()).ok()).collect();
        let undecided = self.undecided_spellings(&missing).await?;
        let undecided: BTreeSet<String> = undecided.iter().map(Sku::case_key).collect();
        for row in rows.iter_mut().filter(|row| row.is_missing) {
            row.is_decidable &= !undecided.contains(&case_key(&row.sku));
        }
        Ok(rows)
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
            rows.iter().filter(|row| !row.is_new && !row.fact.is_whole).collect();
        if partial.is_empty() && members.all_matched() {
            return Ok(());
        }
        let mut products = known.not_returned(members);
        products.extend(partial.iter().map(|row| row.id));
        let shown =
            partial.iter().flat_map(|row| row.fact.stock_levels.iter().map(|c| (row.id, c.warehouse_id.0)));
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
        let partial: Vec<&Sku> =
            rows.iter().filter(|row| !row.fact.is_whole).map(|row| &row.fact.sku).collect();
        if !partial.is_empty() {
            self.lack_store(&partial, ProductLack::Partial).await?;
        }
        if !members.unreadable.is_empty() {
            self.lack_store(&members.unreadable.iter().collect::<Vec<_>>(), ProductLack::Unreadable).await?;
        }
        if members.absent.is_empty() { Ok(Vec::new()) } else { self.absent_mark(page, members).await }
    }

    /// Discards all earlier checks, because the platform left out an existing record.
    pub(super) async fn absence_checks_discard(&mut self) -> Result<()> {
        let sql = "UPDATE product SET absent_ms = NULL, absent_moment = NULL WHERE absent_ms IS NOT NULL";
        self.execute(sql, (), "clear the absence checks").await
    }

    /// Records that a record came incomplete; it is then no absence.
    async fn lack_store(&mut self, skus: &[&Sku], lack: ProductLack) -> Result<()> {
        let sql = "UPDATE product SET lack = $2, digest = NULL, absent = 0, absent_ms = NULL, absent_moment = NULL, \
                       missing_since_ms = NULL WHERE sku IN (SELECT atom FROM json_each($1))";
        self.execute(sql, (json_rows(skus), lack.as_str()), "record an incomplete answer").await
    }

    /// Counts the SKUs that an answer lacks, and marks those it proves missing. Returns the SKUs for which
    /// another, small request may prove more.
    async fn absent_mark(&mut self, page: &BalancePage<'_>, members: &PageMembers<'_>) -> Result<Vec<Sku>> {
        let sql = "SELECT id, sku, absent, absent_ms, absent_moment, missing_since_ms, \
                          product_id IS NOT NULL AS is_known, \
                          product_id IS NOT NULL AND missing_since_ms IS NULL \
                              AND lack IS DISTINCT FROM 'absent' AS was_shown \
                   FROM product WHERE sku IN (SELECT atom FROM json_each($1)) ORDER BY id";
        let values = (json_rows(&members.absent),);
        let found: Vec<AbsentSku> = self.fetch_all(sql, values, "read what is known of absent SKUs").await?;
        let lack = match (page.has_unnamed_record, members.any_came) {
            (true, _) => ProductLack::Unreadable,
            (false, true) => ProductLack::Absent,
            (false, false) => ProductLack::Silent,
        };
        let is_small = page.requested.len() <= TRUSTED_PAGE_SKUS;
        let check = page.moment.filter(|_| is_small && lack == ProductLack::Absent);
        let check = check.map(|moment| CheckTime { at: page.observed_at, moment });
        let shown_before = found.iter().filter(|row| row.was_shown).count();
        let mut unsure = Vec::new();
        let mut marked: Vec<Value> = Vec::new();
        for mut row in found {
            row.absent += i64::from(lack == ProductLack::Absent);
            let rest_came = shown_before == usize::from(row.was_shown);
            if let Some(check) = check.filter(|_| rest_came) {
                row.count_absence(check);
            }
            let AbsentSku { id, absent, absent_ms, absent_moment, missing_since_ms, .. } = &row;
            let absent_moment = absent_moment.map(|moment| moment.0);
            marked.push(value!([id, absent, absent_ms, absent_moment, missing_since_ms]));
            if row.missing_since_ms.is_none()
                && lack != ProductLack::Unreadable
                && (!is_small || !row.is_known)
            {
                unsure.extend(Sku::new(row.sku).ok());
            }
        }
        let sql = "UPDATE product SET lack = $2, digest = NULL, absent = CAST(m.value->>1 AS BIGINT), \
                       absent_ms = CAST(m.value->>2 AS BIGINT), absent_moment = CAST(m.value->>3 AS BIGINT), \
                       missing_since_ms = CAST(m.value->>4 AS BIGINT) \
                   FROM json_each($1) m WHERE product.id = CAST(m.value->>0 AS BIGINT)";
        let values = (json_rows(&marked), lack.as_str());
        self.execute(sql, values, "mark the SKUs that the platform did not return").await?;
        Ok(unsure)
    }
}

impl AbsentSku {
    fn count_absence(&mut self, check: CheckTime) {
        let first = self.absent_ms.zip(self.absent_moment).map(|(at, moment)| CheckTime { at, moment });
        let is_missing = if self.is_known { check.proves_absent(first, true) } else { self.absent > 1 };
        let first = check.measured_from(first);
        (self.absent_ms, self.absent_moment) = (Some(first.at), Some(first.moment));
        if is_missing {
            self.missing_since_ms.get_or_insert(check.at.0);
        }
    }
}
