//! State of a run, and the queue of its calls.

use super::backlog::PushBacklog;
use super::brake;
use super::kinds::DeliveryRun;
use super::refusal::SentEffect;
use super::snapshot::{OwnReads, PendingStockLevel};
use super::summary::PushSummary;
use crate::exec::balances_reader::PageRead;
use crate::exec::{JobContext, JobError};
use crate::model::{ChangeId, Moment, RunId, Sku, StockLevel};
use crate::reconcile::isolation::SuspectQueue;
use crate::store::OutboxMark;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::task::JoinSet;

/// Lead of the quantities before shipments go beside them. A few quantities are thus sent in their planned
/// order.
const QUANTITIES_LEAD: Duration = Duration::from_secs(1);

pub(super) struct PushRun<'a> {
    pub(super) context: &'a JobContext,
    pub(super) run: RunId,
    pub(super) in_flight: JoinSet<Result<FinishedCall, JobError>>,
    pub(super) summary: PushSummary,
    pub(super) pipeline: PushPipeline,
    /// True if no quantity is left to be sent now.
    pub(super) is_drained: bool,
    /// Error that stops the quantities; the other changes go on.
    pub(super) drain_error: Option<JobError>,
    /// Changes that had moved when the drain began.
    pub(super) moved_before: u64,
    /// Other changes; `None` while a turn of them is in flight.
    pub(super) others: Option<Box<DeliveryRun>>,
    /// Time from which shipments go beside the drain.
    pub(super) shipments_from: Moment,
    /// True if a shipment may have come since the last turn of them.
    pub(super) are_shipments_due: bool,
    /// True if the last turn of the other changes sent nothing.
    pub(super) are_others_over: bool,
    /// True if the run has waited for a few stock levels. It waits only once, because a trickle may never end and
    /// other work starts only after the run.
    pub(super) has_waited: bool,
    /// Number of reads of each stock level without a decision.
    pub(super) read_counts: BTreeMap<StockLevel, u8>,
    /// End of the wait of a few stock levels, if nothing is in flight.
    pub(super) wait_end: Option<Moment>,
    /// Calls in a row that the platform refused as a whole.
    pub(super) consecutive_refusals: usize,
    /// True if further attempts are useless in this run.
    pub(super) is_cut_off: bool,
    /// Change after which the window begins: the part of the outbox that is planned at once.
    pub(super) window_after: ChangeId,
    /// Last change of the window, if others are behind it.
    pub(super) window_end: Option<ChangeId>,
    /// True if changes are left to the next run.
    pub(super) has_more: bool,
}

/// Drain of the quantities: the stock levels that are at work, by what they wait for.
#[derive(Debug, Default)]
pub(super) struct PushPipeline {
    pub(super) reads_in_flight: usize,
    /// Number of reads in flight for an operator's change.
    pub(super) urgent_reads: usize,
    pub(super) bulk_sends: usize,
    /// Number of updates in flight with an operator's change.
    pub(super) urgent_sends: usize,
    pub(super) queued_calls: VecDeque<QueuedCall>,
    /// Parts of calls that the platform refused as a whole, to find the offending entry.
    pub(super) refused_parts: VecDeque<QueuedCall>,
    /// Stock levels to be written that wait for others to fill their call.
    pub(super) unpacked_levels: Vec<StockLevel>,
    /// Stock levels of all of these; they are not planned again.
    pub(super) reserved_levels: BTreeSet<StockLevel>,
    /// Parts of failed pages, and quarantined SKUs that are due. One part is read at a time, beside new pages.
    pub(super) failed_pages: SuspectQueue<Sku>,
    pub(super) is_part_in_flight: bool,
    /// Stock levels whose SKU is read or waits in `failed_pages`, each with true if urgent.
    pub(super) reading: Vec<(StockLevel, bool)>,
    /// SKUs that are not tried again in this run.
    pub(super) given_up: BTreeSet<Sku>,
    pub(super) own_reads: OwnReads,
    pub(super) latency: Duration,
    /// Part of the window that is taken in.
    pub(super) seen: OutboxMark,
    /// End of the intake of programs' changes; `None` before the first.
    pub(super) intake_end: Option<Moment>,
    pub(super) backlog: PushBacklog,
    /// Stock levels that wait for others to share their read and their calls.
    pub(super) delayed_levels: BTreeSet<StockLevel>,
    pub(super) projected_backlog: brake::ProjectedBacklog,
    /// True if the next call directly follows the read for it. That read was paced for both.
    pub(super) is_pace_paid: bool,
}

#[derive(Debug)]
pub(super) struct QueuedCall {
    pub(super) stock_levels: Vec<StockLevel>,
    pub(super) is_urgent: bool,
    /// True if its stock levels failed in a shared call before.
    pub(super) is_separate: bool,
}

pub(super) enum FinishedCall {
    Read {
        skus: Vec<Sku>,
        page: PageRead,
        is_urgent: bool,
        is_part: bool,
    },
    Update {
        stock_levels: Vec<StockLevel>,
        is_urgent: bool,
        /// `None` if no call was made.
        effect: Option<SentEffect>,
    },
    /// Turn of the other changes, `beside` a drain or after it.
    Others {
        others: Box<DeliveryRun>,
        beside: bool,
        was_sent: Result<bool, JobError>,
    },
}

impl<'a> PushRun<'a> {
    pub(super) fn new(context: &'a JobContext, run: RunId) -> Self {
        let mut new = Self {
            context,
            run,
            in_flight: JoinSet::new(),
            summary: PushSummary::default(),
            pipeline: PushPipeline::default(),
            is_drained: true,
            drain_error: None,
            moved_before: 0,
            others: Some(Box::new(DeliveryRun::new(context, run))),
            shipments_from: Moment(0),
            are_shipments_due: true,
            are_others_over: false,
            has_waited: false,
            read_counts: BTreeMap::new(),
            wait_end: None,
            consecutive_refusals: 0,
            is_cut_off: false,
            window_after: ChangeId(0),
            window_end: None,
            has_more: false,
        };
        new.begin_drain();
        new
    }

    /// Begins a drain, at the first window, if none lasts and quantities can be sent.
    pub(super) fn begin_drain(&mut self) {
        if !self.is_drained || self.drain_error.is_some() {
            return;
        }
        let now = self.context.moment();
        if std::mem::take(&mut self.are_others_over) {
            self.has_waited = self.wait_end.is_some_and(|end| end <= now);
        }
        (self.is_drained, self.are_shipments_due) = (false, true);
        (self.window_after, self.has_more, self.moved_before) = (ChangeId(0), false, self.summary.moved());
        self.shipments_from = now.plus(QUANTITIES_LEAD);
    }
}

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
            is_urgent: false,
            is_separate: true,
        });
    }

    /// Reserves a stock level for its read. Returns true if its SKU is not read yet.
    pub(super) fn reserve_read(&mut self, work: &PendingStockLevel) -> bool {
        let is_new = !self.reading.iter().any(|(level, _)| level.sku == work.stock_level.sku);
        self.reserved_levels.insert(work.stock_level.clone());
        self.reading.push(work.backlog_entry());
        is_new
    }

    /// Puts the stock levels of these SKUs back to the backlog after their read, and returns them.
    pub(super) fn end_reads(&mut self, skus: &[Sku]) -> Vec<StockLevel> {
        let (ended, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.reading).into_iter().partition(|(level, _)| skus.contains(&level.sku));
        self.reading = left;
        ended.iter().for_each(|(level, _)| drop(self.reserved_levels.take(level)));
        self.backlog.put_back(ended.iter().cloned());
        ended.into_iter().map(|(level, _)| level).collect()
    }

    /// Returns true until the first changes are taken in.
    pub(super) fn is_new(&self) -> bool {
        self.intake_end.is_none()
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.reads_in_flight + self.bulk_sends + self.urgent_sends > 0
    }

    /// Returns the call that may start, with at most `at_once` bulk calls in flight.
    pub(super) fn next_call(&mut self, at_once: usize) -> Option<QueuedCall> {
        let is_urgent = self.queued_calls.front().is_some_and(|call| call.is_urgent);
        if !is_urgent && self.bulk_sends >= at_once {
            return None;
        }
        if is_urgent {
            return self.queued_calls.pop_front();
        }
        self.refused_parts.pop_front().or_else(|| self.queued_calls.pop_front())
    }

    /// Puts the stock levels of queued calls back to the backlog, to be planned again.
    pub(super) fn requeue_calls(&mut self) {
        for call in self.queued_calls.drain(..).rev() {
            call.stock_levels.iter().for_each(|level| drop(self.reserved_levels.take(level)));
            self.backlog.put_back(call.stock_levels.into_iter().map(|level| (level, call.is_urgent)));
        }
    }
}
