//! `verify`: compares mirror and service, the stalest SKUs first, within so many calls.
//!
//! No job of the daemon but a question a person asks. Its exchanges are journalled and counted like all others and
//! bring no fact: the run's input says `verify`, and a fold of the journal leaves such a run out. A mirror that mended
//! itself while it was looked at would hide what the look is for.

use super::{Context, JobError, call};
use crate::client::Verdict;
use crate::client::wire::{self, Decoded, ProductBalance};
use crate::model::{Lane, RunId, Sku, Timestamp};
use crate::store::{Durability, MirrorAge, VerifyRow};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Calls where nobody says how many: with the packaged page size, 2,000 SKUs and a tenth of a minute's quota.
pub const VERIFY_CALLS: usize = 10;

/// What a comparison found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verified {
    /// Calls spent.
    pub calls: usize,
    /// SKUs asked for.
    pub skus: usize,
    /// Cells compared.
    pub cells_compared: usize,
    /// Cells the mirror knows.
    pub cells_known: i64,
    /// Age of the mirror's oldest fact.
    pub oldest_age_seconds: Option<i64>,
    /// Age of the fact in the middle.
    pub median_age_seconds: Option<i64>,
    /// Cells in which the two differ.
    pub drift: Vec<Drift>,
    /// What kept the rest from being compared, if anything did.
    pub trouble: Option<String>,
}

/// A cell in which mirror and service differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The SKU.
    pub sku: String,
    /// The warehouse.
    pub warehouse_id: i64,
    /// The mirror's fact; none: it knows no such cell.
    pub mirror: Option<i64>,
    /// What the service shows; none: no such cell.
    pub service: Option<i64>,
    /// Service less mirror.
    pub difference: i64,
    /// What on its way explains it, if anything does.
    pub explained_by: Option<String>,
}

impl Verified {
    /// The differences that nothing explains.
    pub fn unexplained(&self) -> usize {
        self.drift.iter().filter(|drift| drift.explained_by.is_none()).count()
    }
}

/// Compares within `calls` calls. What the service does not answer is left out and said.
///
/// # Errors
/// When not one call was answered, or the key is refused.
pub async fn verify(context: &Context, run: RunId, calls: usize) -> Result<Verified, JobError> {
    let mut write = context.store.begin(Durability::Normal).await?;
    write.run_input(run, &json!({"verify": calls})).await?;
    write.commit().await?;
    let mut page = context.settings().skus_per_call;
    let skus = context.store.verify_skus(page.saturating_mul(calls)).await?;
    let mut verified = Verified::begun(context.store.mirror_age().await?, context.now());
    while verified.skus < skus.len() && verified.calls < calls {
        let rest = &skus[verified.skus..];
        let asked = &rest[..page.min(rest.len())];
        verified.calls += 1;
        if !verified.compare(context, run, asked).await? {
            page = (asked.len() / 2).max(1);
        }
    }
    match &verified.trouble {
        Some(why) if verified.skus == 0 => {
            Err(JobError::GivenUp { what: "the balances to compare".into(), why: why.clone() })
        }
        Some(_) | None => Ok(verified),
    }
}

impl Verified {
    fn begun(age: MirrorAge, now: Timestamp) -> Self {
        let (oldest_age_seconds, median_age_seconds) = age.seconds(now);
        Self {
            calls: 0,
            skus: 0,
            cells_compared: 0,
            cells_known: age.cells,
            oldest_age_seconds,
            median_age_seconds,
            drift: Vec::new(),
            trouble: None,
        }
    }

    /// One call; false where its page was too much, or brought nothing.
    async fn compare(&mut self, context: &Context, run: RunId, asked: &[Sku]) -> Result<bool, JobError> {
        let request =
            wire::get_product_balances(asked).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = context.read_once(run, Lane::Poll, request).await?;
        context.end_alone(&answer).await?;
        if answer.reply.verdict != Verdict::Accepted {
            context.give_up_if_hopeless(run, "the balances to compare", &answer.reply).await?;
            self.trouble = Some(call::words(&answer.reply));
            return Ok(matches!(answer.reply.verdict, Verdict::Throttled(_)));
        }
        match wire::decode_balances(&answer.reply.body) {
            Ok(decoded) => {
                // Looked at after the answer: what was written meanwhile is seen to overlap.
                let mirror = context.store.verify_cells(asked, answer.id).await?;
                self.take(&mirror, &decoded);
                self.skus += asked.len();
                Ok(true)
            }
            Err(why) => {
                self.trouble = Some(why.to_string());
                Ok(false)
            }
        }
    }

    /// Takes a page in: the cells both know, and those the service alone shows. What the answer does not show is no
    /// difference: a record that cannot be read, or not in full, and all of an answer that holds nothing.
    fn take(&mut self, mirror: &[VerifyRow], decoded: &Decoded<ProductBalance<'_>>) {
        let is_empty = decoded.records.is_empty() && decoded.parked.is_empty();
        let unread: BTreeSet<&str> = decoded.parked.iter().filter_map(|p| p.sku.as_deref()).collect();
        let hides = is_empty || decoded.parked.iter().any(|parked| parked.sku.is_none());
        let mut service: BTreeMap<(String, i64), i64> = BTreeMap::new();
        for product in &decoded.records {
            for cell in &product.warehouses {
                let name = (product.sku.as_str().to_owned(), cell.warehouse_id.0);
                service.insert(name, cell.quantity_on_hand);
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
            self.drift.extend(drift(row, shown));
        }
        if let Some(first) = unshown.first() {
            let skus = unshown.len();
            let why = format!(
                "the answer does not show {skus} SKU(s) so that they can be read, `{first}` among them"
            );
            self.trouble.get_or_insert(why);
        }
        let unknown = service.into_iter().map(|((sku, warehouse_id), quantity)| Drift {
            sku,
            warehouse_id,
            mirror: None,
            service: Some(quantity),
            difference: quantity,
            explained_by: None,
        });
        self.drift.extend(unknown);
    }
}

/// How a cell of the mirror differs from the service, if it does.
fn drift(row: &VerifyRow, service: Option<i64>) -> Option<Drift> {
    let mirror = row.quantity;
    (mirror != service).then(|| Drift {
        sku: row.sku.clone(),
        warehouse_id: row.warehouse_id,
        mirror,
        service,
        difference: service.unwrap_or(0).saturating_sub(mirror.unwrap_or(0)),
        explained_by: explained_by(row, service),
    })
}

fn explained_by(row: &VerifyRow, service: Option<i64>) -> Option<String> {
    let wishes = row.wishes.as_deref().unwrap_or("of another program");
    if row.is_overlapped {
        return Some("a write of ours was answered while it was read".into());
    }
    if service.is_some() && service == row.writing {
        return Some(format!("the write in doubt shows: {wishes}"));
    }
    (service.is_some() && service == row.pending_quantity)
        .then(|| format!("it is what the pending wishes make of it: {wishes}"))
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
            writing: None,
            is_overlapped: false,
            wishes: Some("w".into()),
        };
        let pending = VerifyRow { pending_quantity: Some(47), ..row.clone() };
        let in_doubt = VerifyRow { writing: Some(47), ..row.clone() };
        let overlapped = VerifyRow { is_overlapped: true, ..row.clone() };
        let vanished = VerifyRow { quantity: None, ..row.clone() };
        // (cell, what the service shows, the difference, whether it is explained)
        let cases = [
            ("agrees", &row, Some(50), None),
            ("sold from", &row, Some(48), Some((-2, false))),
            ("no such cell there", &row, None, Some((-50, false))),
            ("vanished and back", &vanished, Some(7), Some((7, false))),
            ("vanished", &vanished, None, None),
            ("what is pending is done", &pending, Some(47), Some((-3, true))),
            ("what is pending is not that", &pending, Some(46), Some((-4, false))),
            ("what is in doubt landed", &in_doubt, Some(47), Some((-3, true))),
            ("what is in doubt is not that", &in_doubt, Some(46), Some((-4, false))),
            ("a write overlaps", &overlapped, Some(46), Some((-4, true))),
        ];
        for (name, row, service, expected) in cases {
            let found = drift(row, service).map(|drift| (drift.difference, drift.explained_by.is_some()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
