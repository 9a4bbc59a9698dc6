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

/// Returns the SKUs of the next read before a push, with its witnesses. These are the SKUs of the first `most`
/// stale stock levels. If an answer lacked some SKUs as a whole, these come first, in a page of at most
/// [`PROVING_PAGE_SKUS`] SKUs. Its witnesses are SKUs that are known to exist, and undecided spellings.
pub(super) async fn page_to_read(
    store: &Store,
    stale: &[&PendingStockLevel],
    most: usize,
) -> Result<(BTreeSet<Sku>, Vec<Sku>), StoreError> {
    let is_lacking =
        |work: &&&PendingStockLevel| matches!(work.lack, Some(ProductLack::Absent | ProductLack::Silent));
    let (lacking, others): (Vec<_>, Vec<_>) = stale.iter().partition(is_lacking);
    let sku = |work: &&PendingStockLevel| work.stock_level.sku.clone();
    if lacking.is_empty() {
        return Ok((others.into_iter().take(most).map(sku).collect(), Vec::new()));
    }
    let mut page = Vec::new();
    for sku in lacking.into_iter().chain(others).map(sku) {
        if page.len() < PROVING_PAGE_SKUS && !page.contains(&sku) {
            page.push(sku);
        }
    }
    let witnesses = store.witness_skus(&page).await?;
    Ok((page.into_iter().collect(), witnesses))
}
