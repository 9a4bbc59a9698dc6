//! Packs entries into update calls: 1–25 entries, each SKU once (service-interface.md, *Update quantity on hand*).
//!
//! The number of calls is always the lower bound K = max(⌈n/25⌉, most entries of one SKU). It is kept by taking
//! in each call min(25, distinct SKUs) entries, first of the SKUs that have K entries left: those must be in every
//! call that remains. Only then come the urgent ones, then the SKUs with most left. SKUs are told apart by their
//! fold, so that twins never share a call (rules.md 12).
//!
//! Two heaps instead of sorting anew for each call: a first flush may bring a hundred thousand entries.

use crate::model::Sku;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Entries one call takes.
pub const CALL_MAX_ENTRIES: usize = 25;

/// One cell to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its SKU; the warehouse does not matter for packing.
    pub sku: &'a Sku,
    /// Whether an operator waits for it.
    pub urgent: bool,
}

/// The entries of the next call, as indexes into `entries`: the urgent ones as far as the bound allows.
pub fn next_call(entries: &[Entry<'_>]) -> Vec<usize> {
    Packer::new(entries).next().unwrap_or_default()
}

/// All calls, as indexes into `entries`: each entry once.
pub fn pack(entries: &[Entry<'_>]) -> Vec<Vec<usize>> {
    Packer::new(entries).collect()
}

/// The fewest calls `entries` fit into.
pub fn fewest_calls(entries: &[Entry<'_>]) -> usize {
    Packer::new(entries).calls_left()
}

/// A SKU's entries that are still to be packed, in their order.
#[derive(Default)]
struct Twins {
    urgent: VecDeque<usize>,
    bulk: VecDeque<usize>,
}

impl Twins {
    fn left(&self) -> usize {
        self.urgent.len() + self.bulk.len()
    }

    /// The first of those left: breaks ties in the order of the entries.
    fn first(&self) -> usize {
        self.urgent.iter().chain(&self.bulk).next().copied().unwrap_or(usize::MAX)
    }
}

/// A SKU's rank in a heap. One that no longer agrees with the SKU's entries is out of date and skipped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    entries: usize,
    first: Reverse<usize>,
    sku: usize,
    left: usize,
}

struct Packer {
    skus: Vec<Twins>,
    by_left: BinaryHeap<Rank>,
    by_urgent: BinaryHeap<Rank>,
    left: usize,
}

impl Packer {
    fn new(entries: &[Entry<'_>]) -> Self {
        let mut index_of: HashMap<String, usize> = HashMap::with_capacity(entries.len());
        let mut skus: Vec<Twins> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let sku = *index_of.entry(entry.sku.fold()).or_insert(skus.len());
            if sku == skus.len() {
                skus.push(Twins::default());
            }
            let twins = &mut skus[sku];
            if entry.urgent { twins.urgent.push_back(index) } else { twins.bulk.push_back(index) }
        }
        let mut packer =
            Self { left: entries.len(), by_left: BinaryHeap::new(), by_urgent: BinaryHeap::new(), skus };
        (0..packer.skus.len()).for_each(|sku| packer.rank(sku));
        packer
    }

    /// Puts a SKU with what it has left into the heaps.
    fn rank(&mut self, sku: usize) {
        let twins = &self.skus[sku];
        let rank = Rank { entries: twins.left(), first: Reverse(twins.first()), sku, left: twins.left() };
        if twins.left() > 0 {
            self.by_left.push(rank);
        }
        if !twins.urgent.is_empty() {
            self.by_urgent.push(Rank { entries: twins.urgent.len(), ..rank });
        }
    }

    /// K: the lower bound, and the number of calls still to come.
    fn calls_left(&mut self) -> usize {
        let most = top(&mut self.by_left, &self.skus).map_or(0, |rank| rank.left);
        most.max(self.left.div_ceil(CALL_MAX_ENTRIES))
    }

    /// The SKU to take next into a call of which `calls` are left, this one included.
    fn choose(&mut self, calls: usize) -> Option<usize> {
        let most = top(&mut self.by_left, &self.skus)?;
        if most.left == calls {
            return Some(most.sku);
        }
        Some(top(&mut self.by_urgent, &self.skus).unwrap_or(most).sku)
    }

    /// Takes an entry of the SKU, the urgent ones first.
    fn take(&mut self, sku: usize) -> Option<usize> {
        let twins = &mut self.skus[sku];
        let index = twins.urgent.pop_front().or_else(|| twins.bulk.pop_front())?;
        self.left -= 1;
        Some(index)
    }
}

/// The best rank that is up to date. A SKU taken in this call has one entry fewer than any of its ranks says, so
/// it cannot be chosen again before it is ranked anew.
fn top(heap: &mut BinaryHeap<Rank>, skus: &[Twins]) -> Option<Rank> {
    while let Some(rank) = heap.peek() {
        if skus[rank.sku].left() == rank.left {
            return Some(*rank);
        }
        heap.pop();
    }
    None
}

impl Iterator for Packer {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let calls = self.calls_left();
        let mut taken = Vec::new();
        let mut call = Vec::new();
        while call.len() < CALL_MAX_ENTRIES {
            let Some(sku) = self.choose(calls) else { break };
            call.extend(self.take(sku));
            taken.push(sku);
        }
        taken.into_iter().for_each(|sku| self.rank(sku));
        (!call.is_empty()).then_some(call)
    }
}

#[cfg(test)]
mod tests;
