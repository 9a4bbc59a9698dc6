//! Batch of stock levels: the SKUs that its read asks for, and the packing of its writes.

use super::snapshot::PendingStockLevel;
use crate::exec::balances_reader::PROVING_PAGE_SKUS;
use crate::model::{Sku, UPDATE_MAX_ENTRIES};
use crate::reconcile::ProductLack;
use crate::reconcile::packing::{PackingEntry, pack_calls};
use crate::store::{Store, StoreError};
use std::collections::BTreeSet;

/// Packs the writes of a batch into calls. If `has_more` (a read is in flight or the backlog is not empty), a
/// call that is not full is left out. A call with an operator's change, or with a write that cannot wait, is
/// kept.
pub(super) fn pack_writes<'w>(
    writes: &[&'w PendingStockLevel],
    has_more: bool,
    cannot_wait: impl Fn(&PendingStockLevel) -> bool,
) -> Vec<Vec<&'w PendingStockLevel>> {
    let entries: Vec<PackingEntry<'_>> = writes.iter().map(|work| work.packing_entry()).collect();
    let packed = pack_calls(&entries).into_iter();
    let mut calls: Vec<Vec<&PendingStockLevel>> =
        packed.map(|call| call.into_iter().map(|index| writes[index]).collect()).collect();
    if has_more {
        calls.retain(|call| {
            call.len() == UPDATE_MAX_ENTRIES || call.iter().any(|work| work.is_urgent || cannot_wait(work))
        });
    }
    calls
}

/// Returns the SKUs of the next read before a push. These are all stale SKUs, unless an answer lacked some of
/// them: then the lacking SKUs come first, up to [`PROVING_PAGE_SKUS`] SKUs in all.
pub(super) fn skus_to_read(stale: &[&PendingStockLevel]) -> BTreeSet<Sku> {
    if !stale.iter().any(is_lacking) {
        return stale.iter().map(|work| work.stock_level.sku.clone()).collect();
    }
    let mut skus: BTreeSet<Sku> = BTreeSet::new();
    let first =
        stale.iter().filter(|work| is_lacking(work)).chain(stale.iter().filter(|work| !is_lacking(work)));
    for work in first {
        if skus.len() >= PROVING_PAGE_SKUS {
            break;
        }
        skus.insert(work.stock_level.sku.clone());
    }
    skus
}

/// Returns true if an answer lacked the SKU as a whole.
pub(super) fn is_lacking(work: &&PendingStockLevel) -> bool {
    work.lack.is_some_and(ProductLack::needs_confirmation)
}

/// Returns the witnesses of a page: SKUs that are known to exist, and undecided spellings of the page's SKUs.
/// Empty unless an earlier answer lacked a SKU of the page.
pub(super) async fn witnesses_of(
    store: &Store,
    stale: &[&PendingStockLevel],
    skus: &BTreeSet<Sku>,
) -> Result<Vec<Sku>, StoreError> {
    if !stale.iter().any(|work| is_lacking(work) && skus.contains(&work.stock_level.sku)) {
        return Ok(Vec::new());
    }
    store.witness_skus(&skus.iter().cloned().collect::<Vec<_>>()).await
}
