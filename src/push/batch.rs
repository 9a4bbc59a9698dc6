//! Batch of stock levels: the SKUs that its read asks for, and the packing of its writes.

use super::snapshot::PendingStockLevel;
use crate::model::{Sku, UPDATE_MAX_ENTRIES};
use crate::reconcile::packing::{PackingEntry, pack_calls};
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

/// Returns the SKUs of the next read before a push: those of the first `most` stale stock levels, as long as they are
/// less than `skus_per_call`, each beside the products of its case key. These vouch for the absence of a spelling that
/// the platform does not return.
pub(super) fn page_to_read(stale: &[&PendingStockLevel], most: usize, skus_per_call: usize) -> BTreeSet<Sku> {
    let mut page = BTreeSet::new();
    for work in stale.iter().take(most) {
        if page.len() < skus_per_call {
            page.extend(work.read_rows.row.twin_skus.iter().chain([&work.stock_level.sku]).cloned());
        }
    }
    page
}
