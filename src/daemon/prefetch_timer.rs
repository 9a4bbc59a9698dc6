//! The daemon's timer for prefetching: SKUs once a minute, named orders at once.
//!
//! Prefetching is not a job. It has no schedule and no retry, and shutdown waits only for the call in flight.
//! The next pass over the orders reads each order that prefetching could not read.

use crate::exec::{FinishedRun, JobContext};
use crate::store::StoreError;
use crate::sync;
use crate::sync::PREFETCH_INTERVAL;
use tokio::task::JoinSet;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct PrefetchTimer {
    next_at: Instant,
    prefetches: JoinSet<Result<Option<FinishedRun>, StoreError>>,
    orders: JoinSet<Result<Option<FinishedRun>, StoreError>>,
    /// True if orders were named while others were being read.
    more_orders: bool,
}

impl PrefetchTimer {
    /// Creates the timer with a prefetch due at once, because stock may have moved while no daemon ran.
    pub(super) fn new() -> Self {
        Self {
            next_at: Instant::now(),
            prefetches: JoinSet::new(),
            orders: JoinSet::new(),
            more_orders: false,
        }
    }

    pub(super) fn due_at(&self) -> Instant {
        self.next_at
    }

    /// Starts a due prefetch, unless the last one still runs or `is_busy` is set.
    ///
    /// `is_busy` is true if the job itself runs or has a retry planned.
    pub(super) fn start_due(&mut self, context: &JobContext, now: Instant, is_busy: bool) {
        if now < self.next_at {
            return;
        }
        self.next_at = now + PREFETCH_INTERVAL;
        if !is_busy && self.prefetches.is_empty() {
            let context = context.clone();
            self.prefetches.spawn(async move { sync::prefetch_balances(&context).await });
        }
    }

    /// Starts a read of the named orders. If one is in progress, notes that another must follow.
    pub(super) fn read_orders(&mut self, context: &JobContext) {
        self.more_orders = !self.orders.is_empty();
        if !self.more_orders {
            let context = context.clone();
            self.orders.spawn(async move { sync::read_named_orders(&context).await });
        }
    }

    /// Returns true once if orders were named during a read that has ended.
    pub(super) fn has_more_orders(&mut self) -> bool {
        self.orders.is_empty() && std::mem::take(&mut self.more_orders)
    }

    /// Waits for the next prefetch to end; `None` if none is in progress.
    ///
    /// The inner `None` means that it read nothing or was cancelled.
    pub(super) async fn next_ended(&mut self) -> Option<Result<Option<FinishedRun>, StoreError>> {
        let ended = tokio::select! {
            Some(ended) = self.prefetches.join_next() => ended,
            Some(ended) = self.orders.join_next() => ended,
            else => return None,
        };
        Some(super::join_result(ended).unwrap_or(Ok(None)))
    }

    pub(super) async fn shutdown(&mut self) {
        self.prefetches.shutdown().await;
        self.orders.shutdown().await;
    }
}
