//! Packs entries into update calls of 1–25 entries with distinct SKUs.
//!
//! The limits are those of docs/interface.md, *Update quantity on hand*. The number of calls is always the
//! lower bound K = max(⌈n/25⌉, most entries of one SKU). Each call takes min(25, distinct SKUs) entries. SKUs
//! with K entries left come first, because they must be in every remaining call. Urgent entries come next,
//! then the SKUs with most entries left. SKUs are compared by case key, so that SKUs that differ in case only
//! never share a call (docs/rules.md 8).
//!
//! Two heaps replace sorting for each call, because a first backlog may have 100,000 entries.

use crate::model::{Sku, UPDATE_MAX_ENTRIES};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackingEntry<'a> {
    pub sku: &'a Sku,
    /// True if an operator waits for the entry.
    pub is_urgent: bool,
}

/// Returns all calls as indexes into `entries`, each entry once.
pub(crate) fn pack_calls(entries: &[PackingEntry<'_>]) -> Vec<Vec<usize>> {
    CallPacker::new(entries).collect()
}

#[derive(Default)]
struct SkuEntries {
    urgent: VecDeque<usize>,
    bulk: VecDeque<usize>,
}

impl SkuEntries {
    fn remaining_count(&self) -> usize {
        self.urgent.len() + self.bulk.len()
    }

    /// Returns the first entry left, which breaks ties in the order of the entries.
    fn first_entry(&self) -> usize {
        self.urgent.iter().chain(&self.bulk).next().copied().unwrap_or(usize::MAX)
    }
}

/// A SKU's rank in a heap. A rank that differs from the SKU's entries is outdated and skipped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SkuRank {
    entries: usize,
    first: Reverse<usize>,
    sku: usize,
    left: usize,
}

struct CallPacker {
    skus: Vec<SkuEntries>,
    by_left: BinaryHeap<SkuRank>,
    by_urgent: BinaryHeap<SkuRank>,
    left: usize,
}

impl CallPacker {
    fn new(entries: &[PackingEntry<'_>]) -> Self {
        let mut index_of: HashMap<String, usize> = HashMap::with_capacity(entries.len());
        let mut skus: Vec<SkuEntries> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let sku = *index_of.entry(entry.sku.case_key()).or_insert(skus.len());
            if sku == skus.len() {
                skus.push(SkuEntries::default());
            }
            let entries = &mut skus[sku];
            if entry.is_urgent { entries.urgent.push_back(index) } else { entries.bulk.push_back(index) }
        }
        let mut packer =
            Self { left: entries.len(), by_left: BinaryHeap::new(), by_urgent: BinaryHeap::new(), skus };
        (0..packer.skus.len()).for_each(|sku| packer.push_ranks(sku));
        packer
    }

    fn push_ranks(&mut self, sku: usize) {
        let entries = &self.skus[sku];
        let left = entries.remaining_count();
        let rank = SkuRank { entries: left, first: Reverse(entries.first_entry()), sku, left };
        if left > 0 {
            self.by_left.push(rank);
        }
        if !entries.urgent.is_empty() {
            self.by_urgent.push(SkuRank { entries: entries.urgent.len(), ..rank });
        }
    }

    /// Returns K: the lower bound, which is the number of calls left.
    fn calls_left(&mut self) -> usize {
        let most = best_rank(&mut self.by_left, &self.skus).map_or(0, |rank| rank.left);
        most.max(self.left.div_ceil(UPDATE_MAX_ENTRIES))
    }

    /// Returns the SKU to take next, with `calls` left including the current call.
    fn choose_sku(&mut self, calls: usize) -> Option<usize> {
        let most = best_rank(&mut self.by_left, &self.skus)?;
        if most.left == calls {
            return Some(most.sku);
        }
        Some(best_rank(&mut self.by_urgent, &self.skus).unwrap_or(most).sku)
    }

    fn take_entry(&mut self, sku: usize) -> Option<usize> {
        let entries = &mut self.skus[sku];
        let index = entries.urgent.pop_front().or_else(|| entries.bulk.pop_front())?;
        self.left -= 1;
        Some(index)
    }
}

/// Returns the best current rank. A SKU taken in this call has one entry fewer than its ranks state, so it is
/// not chosen again before it is ranked again.
fn best_rank(heap: &mut BinaryHeap<SkuRank>, skus: &[SkuEntries]) -> Option<SkuRank> {
    while let Some(rank) = heap.peek() {
        if skus[rank.sku].remaining_count() == rank.left {
            return Some(*rank);
        }
        heap.pop();
    }
    None
}

impl Iterator for CallPacker {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let calls = self.calls_left();
        let mut taken = Vec::new();
        let mut call = Vec::new();
        while call.len() < UPDATE_MAX_ENTRIES {
            let Some(sku) = self.choose_sku(calls) else { break };
            call.extend(self.take_entry(sku));
            taken.push(sku);
        }
        taken.into_iter().for_each(|sku| self.push_ranks(sku));
        (!call.is_empty()).then_some(call)
    }
}

#[cfg(test)]
mod tests;
