//! `verify`: compares the mirror with the platform, the stalest SKUs first, within a number of calls.
//!
//! An operator starts it; no job of the daemon does. Its exchanges are journalled and counted like all others
//! but bring no fact. The run's input contains `verify`, and the projection skips such a run. A mirror that
//! repaired itself during the comparison would hide the differences.

use crate::client::Verdict;
use crate::client::wire::{self, DecodedAnswer, ProductBalance};
use crate::exec::{JobContext, JobError, call};
use crate::model::{Lane, RunId, Sku, Timestamp, counted};
use crate::reconcile::brake;
use crate::store::{Durability, VerifyRow};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Default number of calls: with the default page size, 2,000 SKUs and a tenth of a minute's quota.
pub(crate) const VERIFY_CALLS: usize = 10;

/// Result of a comparison.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Calls made.
    pub calls: usize,
    /// SKUs asked for.
    pub skus: usize,
    /// Stock levels compared.
    pub levels_compared: usize,
    /// Stock levels in the mirror.
    pub levels_known: i64,
    /// Age of the mirror's oldest fact.
    pub oldest_age_seconds: Option<i64>,
    /// Median age of the facts.
    pub median_age_seconds: Option<i64>,
    /// Stock levels that differ.
    pub drift: Vec<MirrorDifference>,
    /// Reason why the rest was not compared, if there is one.
    pub trouble: Option<String>,
    /// Compared stock levels that are above zero in the mirror.
    #[serde(skip)]
    levels_above_zero: u64,
    /// Components of the kits that differ.
    #[serde(skip)]
    components: BTreeMap<(String, i64), Vec<String>>,
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
    /// Own write, pending change, sale, or component of a kit that explains the difference, if any.
    pub explained_by: Option<String>,
    /// True if sales are the explanation.
    #[serde(skip)]
    is_sold: bool,
}

impl VerifyReport {
    /// Returns the unexplained differences.
    pub(crate) fn unexplained(&self) -> impl Iterator<Item = &MirrorDifference> {
        self.drift.iter().filter(|drift| drift.explained_by.is_none())
    }

    /// Returns the number of unexplained differences.
    pub fn unexplained_count(&self) -> usize {
        self.unexplained().count()
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
    let levels_known = age.stock_levels;
    let mut verified =
        VerifyReport { levels_known, oldest_age_seconds, median_age_seconds, ..VerifyReport::default() };
    while verified.skus < skus.len() && verified.calls < calls {
        let rest = &skus[verified.skus..];
        let requested = &rest[..page.min(rest.len())];
        verified.calls += 1;
        if !verified.compare_page(context, run, requested).await? {
            page = (requested.len() / 2).max(1);
        }
    }
    verified.explain_kits();
    verified.doubt_emptied();
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
        let request = wire::get_product_balances(requested);
        let answer = context.read_once(run, Lane::Poll, request).await?;
        context.exchange_end_ignored(&answer).await?;
        if answer.reply.verdict != Verdict::Accepted {
            // A smaller page may help.
            if !answer.reply.may_shrink_page() {
                context.check_permanent(run, "the balances to compare", &answer.reply).await?;
            }
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
            self.levels_compared += 1;
            self.levels_above_zero += u64::from(row.quantity > Some(0));
            if let Some(difference) = level_difference(row, shown) {
                self.components.insert(difference.level(), row.components.clone());
                self.drift.push(difference);
            }
        }
        if let Some(first) = unshown.first() {
            let skus = counted(unshown.len(), "SKU");
            let why = format!("the answer has no readable record of {skus}, such as `{first}`");
            self.trouble.get_or_insert(why);
        }
        let unknown = service.into_iter().filter(|(_, quantity)| *quantity != 0);
        self.drift
            .extend(unknown.map(|(level, quantity)| MirrorDifference::new(level, None, Some(quantity))));
    }
}

impl VerifyReport {
    /// Explains each kit that differs together with one of its components, in whichever warehouse.
    fn explain_kits(&mut self) {
        let differing: BTreeSet<String> = self.drift.iter().map(|drift| drift.sku.clone()).collect();
        for kit in self.drift.iter_mut().filter(|drift| drift.explained_by.is_none()) {
            let components = self.components.get(&kit.level());
            let differs = |sku: &&String| differing.contains(*sku);
            if let Some(component) = components.and_then(|skus| skus.iter().find(differs)) {
                kit.explained_by = Some(format!("a kit: its component `{component}` differs too"));
            }
        }
    }

    /// Withdraws the explanation by sales if no compared stock level is above zero any more: that is an emptied
    /// account, as for a push (`reconcile/brake.rs`).
    fn doubt_emptied(&mut self) {
        let has_emptied =
            |drift: &&MirrorDifference| drift.mirror > Some(0) && drift.service.unwrap_or(0) <= 0;
        let emptied = self.drift.iter().filter(has_emptied).count() as u64;
        let above_zero = self.levels_above_zero.saturating_sub(emptied);
        if self.levels_above_zero >= brake::ZEROED_MIN
            && brake::is_emptied_answer(self.levels_above_zero, above_zero)
        {
            self.drift.iter_mut().filter(|drift| drift.is_sold).for_each(|drift| drift.explained_by = None);
        }
    }
}

impl MirrorDifference {
    fn level(&self) -> (String, i64) {
        (self.sku.clone(), self.warehouse_id)
    }

    fn new((sku, warehouse_id): (String, i64), mirror: Option<i64>, service: Option<i64>) -> Self {
        let difference = service.unwrap_or(0).saturating_sub(mirror.unwrap_or(0));
        Self { sku, warehouse_id, mirror, service, difference, explained_by: None, is_sold: false }
    }
}

/// Returns the difference of a stock level. Nothing beside 0 is none: a new warehouse has a stock level of every product.
fn level_difference(row: &VerifyRow, service: Option<i64>) -> Option<MirrorDifference> {
    let level = (row.sku.clone(), row.warehouse_id);
    let difference = MirrorDifference::new(level, row.quantity, service);
    if difference.difference == 0 {
        return None;
    }
    let (by_us, sold) = (explained_by(row, service), sold(row, service));
    let is_sold = by_us.is_none() && sold.is_some();
    Some(MirrorDifference { explained_by: by_us.or(sold), is_sold, ..difference })
}

fn explained_by(row: &VerifyRow, service: Option<i64>) -> Option<String> {
    let changes = row.change_keys.as_deref().unwrap_or("of another program");
    if row.is_overlapped {
        return Some("a write of tallyd was answered during the read".into());
    }
    if service.is_some() && service == row.written_in_flight {
        return Some(format!("a write in doubt explains it: {changes}"));
    }
    if service.is_some() && service == row.pending_quantity {
        return Some(format!("pending changes explain it: {changes}"));
    }
    if let Some(component) = &row.changed_component {
        return Some(format!("a kit: its component `{component}` changed since the read"));
    }
    None
}

/// Explains a smaller quantity by sales since the read, or since a write in flight.
///
/// The platform does not report its sales, and only a sale lowers a quantity without a change of ours. A sale
/// neither raises a quantity nor takes more than there is.
fn sold(row: &VerifyRow, service: Option<i64>) -> Option<String> {
    let shown = service.filter(|shown| *shown >= 0)?;
    let is_sold = |from: &i64| *from > shown;
    let from = row.quantity.filter(is_sold).or(row.written_in_flight.filter(is_sold))?;
    let since = row.fact_ms.map_or_else(String::new, |ms| format!(", at {}", Timestamp(ms)));
    Some(format!("sold: {} of {from} since the last read{since}", counted(from - shown, "unit")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_and_what_was_sold_explains_a_difference() {
        let row = VerifyRow {
            sku: "A".into(),
            warehouse_id: 1,
            quantity: Some(50),
            pending_quantity: None,
            written_in_flight: None,
            is_overlapped: false,
            change_keys: Some("w".into()),
            fact_ms: Some(0),
            components: Vec::new(),
            changed_component: None,
        };
        let pending = VerifyRow { pending_quantity: Some(47), ..row.clone() };
        let in_doubt = VerifyRow { written_in_flight: Some(47), ..row.clone() };
        let overlapped = VerifyRow { is_overlapped: true, ..row.clone() };
        let raised = VerifyRow { written_in_flight: Some(60), ..row.clone() };
        let kit = VerifyRow { changed_component: Some("part".into()), ..row.clone() };
        let vanished = VerifyRow { quantity: None, ..row.clone() };
        let empty = VerifyRow { quantity: Some(0), ..row.clone() };
        // (stock level, the platform's quantity, the difference, explained)
        let cases = [
            ("agrees", &row, Some(50), None),
            ("sold from", &row, Some(48), Some((-2, true))),
            ("sold out", &row, Some(0), Some((-50, true))),
            ("below zero, which is no sale", &row, Some(-1), Some((-51, false))),
            ("more than before", &row, Some(51), Some((1, false))),
            ("a kit whose component changed", &kit, Some(60), Some((10, true))),
            ("no such stock level there", &row, None, Some((-50, false))),
            ("vanished and back", &vanished, Some(7), Some((7, false))),
            ("vanished", &vanished, None, None),
            ("nothing beside 0", &vanished, Some(0), None),
            ("0 beside nothing", &empty, None, None),
            ("below 0 beside nothing", &vanished, Some(-1), Some((-1, false))),
            ("what is pending is done", &pending, Some(47), Some((-3, true))),
            ("what is pending is not that", &pending, Some(53), Some((3, false))),
            ("what is in doubt landed", &in_doubt, Some(47), Some((-3, true))),
            ("what is in doubt is not that", &in_doubt, Some(53), Some((3, false))),
            ("what is in doubt landed and was sold from", &raised, Some(58), Some((8, true))),
            ("a write overlaps", &overlapped, Some(46), Some((-4, true))),
        ];
        for (name, row, service, expected) in cases {
            let found =
                level_difference(row, service).map(|drift| (drift.difference, drift.explained_by.is_some()));
            assert_eq!(found, expected, "{name}");
        }
    }
    fn difference(sku: &str, mirror: i64, service: i64, explained_by: Option<String>) -> MirrorDifference {
        MirrorDifference {
            explained_by,
            ..MirrorDifference::new((sku.into(), 1), Some(mirror), Some(service))
        }
    }

    #[test]
    fn a_kit_that_differs_with_its_component_is_explained_and_the_component_is_not() {
        let mut report = VerifyReport {
            drift: vec![difference("kit", 5, 9, None), difference("part", 10, 18, None)],
            components: BTreeMap::from([(("kit".into(), 1), vec!["part".into()])]),
            ..VerifyReport::default()
        };
        report.explain_kits();
        assert_eq!(report.unexplained().map(|drift| drift.sku.as_str()).collect::<Vec<_>>(), ["part"]);
    }

    #[test]
    fn an_account_that_is_empty_as_a_whole_was_not_sold_out() {
        for (above_zero, emptied, unexplained) in [(10, 10, 10), (11, 10, 0), (9, 9, 0)] {
            let sold = |n| MirrorDifference {
                is_sold: true,
                ..difference(&format!("S{n}"), 3, 0, Some("sold".into()))
            };
            let drift = (0..emptied).map(sold).collect();
            let mut report = VerifyReport { drift, levels_above_zero: above_zero, ..VerifyReport::default() };
            report.doubt_emptied();
            assert_eq!(report.unexplained_count(), unexplained, "{emptied} of {above_zero}");
        }
    }
}
