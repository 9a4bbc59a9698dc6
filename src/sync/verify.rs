//! `verify`: compares the mirror with the platform, the stalest SKUs first, within a number of calls.
//!
//! An operator starts it; no job of the daemon does. Its exchanges are journalled and counted like all others
//! but bring no fact. The run's input contains `verify`, and the projection skips such a run. A mirror that
//! repaired itself during the comparison would hide the differences.

use crate::client::Verdict;
use crate::client::wire::{self, DecodedAnswer, ProductBalance};
use crate::exec::{JobContext, JobError, call};
use crate::model::{Lane, RunId, Sku};
use crate::store::{Durability, VerifyRow};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Default number of calls: with the default page size, 2,000 SKUs and a tenth of a minute's quota.
pub const VERIFY_CALLS: usize = 10;

/// Result of a comparison.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Calls made.
    pub calls: usize,
    /// SKUs asked for.
    pub skus: usize,
    /// Stock levels compared.
    pub cells_compared: usize,
    /// Stock levels in the mirror.
    pub cells_known: i64,
    /// Age of the mirror's oldest fact.
    pub oldest_age_seconds: Option<i64>,
    /// Median age of the facts.
    pub median_age_seconds: Option<i64>,
    /// Stock levels that differ.
    pub drift: Vec<MirrorDifference>,
    /// Reason why the rest was not compared, if there is one.
    pub trouble: Option<String>,
}

/// A stock level that differs between the mirror and the platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorDifference {
    /// The SKU.
    pub sku: String,
    /// The warehouse.
    pub warehouse_id: i64,
    /// The mirror's fact; `None`: the mirror has no such stock level.
    pub mirror: Option<i64>,
    /// The platform's quantity; `None`: the platform shows no such stock level.
    pub service: Option<i64>,
    /// Platform minus mirror.
    pub difference: i64,
    /// Own write or pending change that explains the difference, if any.
    pub explained_by: Option<String>,
}

impl VerifyReport {
    /// Returns the number of unexplained differences.
    pub fn unexplained_count(&self) -> usize {
        self.drift.iter().filter(|drift| drift.explained_by.is_none()).count()
    }
}

/// Compares within `calls` calls. SKUs without an answer are left out and reported.
///
/// # Errors
/// Fails if no call was answered, or the key is refused.
pub async fn verify_mirror(context: &JobContext, run: RunId, calls: usize) -> Result<VerifyReport, JobError> {
    let mut write = context.store.begin_write(Durability::Normal).await?;
    write.run_input_store(run, &json!({"verify": calls})).await?;
    write.commit().await?;
    let mut page = context.settings().skus_per_call;
    let skus = context.store.verify_skus(page.saturating_mul(calls)).await?;
    let age = context.store.mirror_age().await?;
    let (oldest_age_seconds, median_age_seconds) = age.ages_seconds(context.now());
    let cells_known = age.stock_levels;
    let mut verified =
        VerifyReport { cells_known, oldest_age_seconds, median_age_seconds, ..VerifyReport::default() };
    while verified.skus < skus.len() && verified.calls < calls {
        let rest = &skus[verified.skus..];
        let requested = &rest[..page.min(rest.len())];
        verified.calls += 1;
        if !verified.compare_page(context, run, requested).await? {
            page = (requested.len() / 2).max(1);
        }
    }
    if let (Some(why), 0) = (&verified.trouble, verified.skus) {
        return Err(JobError::GivenUp { what: "the balances to compare".into(), why: why.clone() });
    }
    Ok(verified)
}

impl VerifyReport {
    /// Makes one call. Returns false if its page was too large or brought nothing.
    async fn compare_page(
        &mut self,
        context: &JobContext,
        run: RunId,
        requested: &[Sku],
    ) -> Result<bool, JobError> {
        let request = wire::get_product_balances(requested)?;
        let answer = context.read_once(run, Lane::Poll, request).await?;
        context.exchange_end_ignored(&answer).await?;
        if answer.reply.verdict != Verdict::Accepted {
            context.fail_if_permanent(run, "the balances to compare", &answer.reply).await?;
            self.trouble = Some(call::reply_message(&answer.reply));
            return Ok(matches!(answer.reply.verdict, Verdict::Throttled(_)));
        }
        match wire::decode_balances(&answer.reply.body) {
            Ok(decoded) => {
                // Read after the answer, so that a write during the call shows as an overlap.
                let mirror = context.store.verify_stock_levels(requested, answer.id).await?;
                self.compare_answer(&mirror, &decoded);
                self.skus += requested.len();
                Ok(true)
            }
            Err(why) => {
                self.trouble = Some(why.to_string());
                Ok(false)
            }
        }
    }

    /// Compares a page: the stock levels of the mirror, and those that only the platform shows. Missing data
    /// is no difference: a record that is unreadable in whole or part, and an empty answer.
    fn compare_answer(&mut self, mirror: &[VerifyRow], decoded: &DecodedAnswer<ProductBalance<'_>>) {
        let is_empty = decoded.records.is_empty() && decoded.parked.is_empty();
        let unread: BTreeSet<&str> =
            decoded.parked.iter().filter_map(|p| p.sku.as_ref().map(Sku::as_str)).collect();
        let hides = is_empty || decoded.parked.iter().any(|parked| parked.sku.is_none());
        let mut service: BTreeMap<(String, i64), i64> = BTreeMap::new();
        for product in &decoded.records {
            for level in &product.warehouses {
                let name = (product.sku.as_str().to_owned(), level.warehouse_id.0);
                service.insert(name, level.quantity_on_hand);
            }
        }
        let mut unshown = BTreeSet::new();
        for row in mirror {
            let shown = service.remove(&(row.sku.clone(), row.warehouse_id));
            if shown.is_none() && (hides || unread.contains(row.sku.as_str())) {
                unshown.insert(row.sku.as_str());
                continue;
            }
            self.cells_compared += 1;
            self.drift.extend(level_difference(row, shown));
        }
        if let Some(first) = unshown.first() {
            let skus = unshown.len();
            let why = format!("the answer has no readable record of {skus} SKU(s), such as `{first}`");
            self.trouble.get_or_insert(why);
        }
        let unknown = service.into_iter();
        self.drift
            .extend(unknown.map(|(level, quantity)| MirrorDifference::new(level, None, Some(quantity))));
    }
}

impl MirrorDifference {
    fn new((sku, warehouse_id): (String, i64), mirror: Option<i64>, service: Option<i64>) -> Self {
        let difference = service.unwrap_or(0).saturating_sub(mirror.unwrap_or(0));
        Self { sku, warehouse_id, mirror, service, difference, explained_by: None }
    }
}

fn level_difference(row: &VerifyRow, service: Option<i64>) -> Option<MirrorDifference> {
    let level = (row.sku.clone(), row.warehouse_id);
    (row.quantity != service).then(|| MirrorDifference {
        explained_by: explained_by(row, service),
        ..MirrorDifference::new(level, row.quantity, service)
    })
}

fn explained_by(row: &VerifyRow, service: Option<i64>) -> Option<String> {
    let changes = row.change_keys.as_deref().unwrap_or("of another program");
    if row.is_overlapped {
        return Some("a write of tallyd was answered during the read".into());
    }
    if service.is_some() && service == row.written_in_flight {
        return Some(format!("a write in doubt explains it: {changes}"));
    }
    (service.is_some() && service == row.pending_quantity)
        .then(|| format!("pending changes explain it: {changes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_its_way_explains_a_difference() {
        let row = VerifyRow {
            sku: "A".into(),
            warehouse_id: 1,
            quantity: Some(50),
            pending_quantity: None,
            written_in_flight: None,
            is_overlapped: false,
            change_keys: Some("w".into()),
        };
        let pending = VerifyRow { pending_quantity: Some(47), ..row.clone() };
        let in_doubt = VerifyRow { written_in_flight: Some(47), ..row.clone() };
        let overlapped = VerifyRow { is_overlapped: true, ..row.clone() };
        let vanished = VerifyRow { quantity: None, ..row.clone() };
        // (stock level, the platform's quantity, the difference, explained)
        let cases = [
            ("agrees", &row, Some(50), None),
            ("sold from", &row, Some(48), Some((-2, false))),
            ("no such stock level there", &row, None, Some((-50, false))),
            ("vanished and back", &vanished, Some(7), Some((7, false))),
            ("vanished", &vanished, None, None),
            ("what is pending is done", &pending, Some(47), Some((-3, true))),
            ("what is pending is not that", &pending, Some(46), Some((-4, false))),
            ("what is in doubt landed", &in_doubt, Some(47), Some((-3, true))),
            ("what is in doubt is not that", &in_doubt, Some(46), Some((-4, false))),
            ("a write overlaps", &overlapped, Some(46), Some((-4, true))),
        ];
        for (name, row, service, expected) in cases {
            let found =
                level_difference(row, service).map(|drift| (drift.difference, drift.explained_by.is_some()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
