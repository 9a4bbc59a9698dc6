//! Queue of a pipeline: the packed calls, and the choice of the next one.

use super::backlog::PushBacklog;
use super::brake;
use super::pipeline::{PushPipeline, QueuedCall};
use super::snapshot::{OwnReads, PendingStockLevel};
use crate::exec::balances_reader::PageQueue;
use crate::model::{Sku, StockLevel};
use crate::store::OutboxMark;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::task::JoinSet;

impl PushPipeline {
    /// Queues a call. An operator's call goes before the others.
    pub(super) fn queue_call(&mut self, call: QueuedCall) {
        self.reserved_levels.extend(call.stock_levels.iter().cloned());
        if call.is_urgent {
            let position = self.queued_calls.iter().take_while(|before| before.is_urgent).count();
            self.queued_calls.insert(position, call);
        } else {
            self.queued_calls.push_back(call);
        }
    }

    pub(super) fn queue_part(&mut self, stock_levels: &[StockLevel]) {
        self.reserved_levels.extend(stock_levels.iter().cloned());
        self.refused_parts.push_back(QueuedCall {
            stock_levels: stock_levels.to_vec(),
            plans: Vec::new(),
            is_urgent: false,
            is_separate: true,
        });
    }

    /// Reserves a stock level for its read. Returns true if its SKU is not read yet.
    pub(super) fn reserve_read(&mut self, work: &PendingStockLevel) -> bool {
        self.reserved_levels.insert(work.stock_level.clone());
        let levels = self.reading.entry(work.stock_level.sku.clone()).or_default();
        levels.push(work.backlog_entry());
        levels.len() == 1
    }

    /// Puts the stock levels of these SKUs back to the backlog after their read, and returns them.
    pub(super) fn end_reads(&mut self, skus: &[Sku]) -> Vec<StockLevel> {
        let levels: Vec<_> = skus.iter().filter_map(|sku| self.reading.remove(sku)).flatten().collect();
        levels.iter().for_each(|(level, _)| drop(self.reserved_levels.take(level)));
        self.backlog.put_back(levels.clone());
        levels.into_iter().map(|(level, _)| level).collect()
    }

    /// Returns true if a read or update in flight has an operator's change.
    pub(super) fn has_urgent_in_flight(&self) -> bool {
        self.urgent_reads + self.urgent_sends > 0
    }

    /// Returns the call that may start, with at most `at_once` bulk calls in flight.
    pub(super) fn next_call(&mut self, at_once: usize) -> Option<QueuedCall> {
        let is_urgent = self.queued_calls.front().is_some_and(|call| call.is_urgent);
        if !is_urgent && self.in_flight.len() - self.reads_in_flight - self.urgent_sends >= at_once {
            return None;
        }
        if is_urgent {
            return self.queued_calls.pop_front();
        }
        self.refused_parts.pop_front().or_else(|| self.queued_calls.pop_front())
    }

    /// Puts the stock levels of queued calls back to the backlog, to be planned again.
    pub(super) fn requeue_calls(&mut self) {
        let calls: Vec<QueuedCall> = self.queued_calls.drain(..).collect();
        let named =
            |call: QueuedCall| call.stock_levels.into_iter().map(move |level| (level, call.is_urgent));
        let levels: Vec<(StockLevel, bool)> = calls.into_iter().flat_map(named).collect();
        for (level, _) in &levels {
            self.reserved_levels.remove(level);
        }
        self.backlog.put_back(levels);
    }
}

impl Default for PushPipeline {
    fn default() -> Self {
        Self {
            in_flight: JoinSet::new(),
            reads_in_flight: 0,
            urgent_reads: 0,
            urgent_sends: 0,
            queued_calls: VecDeque::new(),
            refused_parts: VecDeque::new(),
            unpacked_levels: Vec::new(),
            reserved_levels: BTreeSet::new(),
            failed_pages: PageQueue::default(),
            is_part_in_flight: false,
            reading: BTreeMap::new(),
            given_up: BTreeSet::new(),
            own_reads: OwnReads::new(),
            latency: Duration::ZERO,
            seen: OutboxMark::default(),
            intake_end: None,
            backlog: PushBacklog::default(),
            delayed_levels: BTreeSet::new(),
            projected_backlog: brake::ProjectedBacklog::default(),
            new_plans: BTreeMap::new(),
            is_pace_paid: false,
        }
    }
}
