//! The daemon's timer for prefetching: SKUs once a minute, named orders at once.
//!
//! Prefetching is not a job. It has no schedule and no retry, and shutdown waits only for the call in flight.
//! The next pass over the orders reads each order that prefetching could not read.

use crate::exec::{Context, Finished};
use crate::store::StoreError;
use crate::sync;
use crate::sync::EARLY_LOOK;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The time of the next prefetch, and the prefetches in progress.
#[derive(Debug)]
pub(super) struct Early {
    at: Instant,
    reading: JoinSet<Result<Option<Finished>, StoreError>>,
    orders: JoinSet<Result<Option<Finished>, StoreError>>,
    /// True if orders were named while others were being read.
    more_orders: bool,
}

impl Early {
    /// Creates the timer with a prefetch due at once, because stock may have moved while no daemon ran.
    pub(super) fn new() -> Self {
        Self { at: Instant::now(), reading: JoinSet::new(), orders: JoinSet::new(), more_orders: false }
    }

    /// Returns the time of the next prefetch.
    pub(super) fn due(&self) -> Instant {
        self.at
    }

    /// Starts a due prefetch, unless the last one still runs or `is_busy` is set.
    ///
    /// `is_busy` is true if the job itself runs or has a retry planned.
    pub(super) fn look(&mut self, context: &Context, now: Instant, is_busy: bool) {
        if now < self.at {
            return;
        }
        self.at = now + EARLY_LOOK;
        if !is_busy && self.reading.is_empty() {
            let context = context.clone();
            self.reading.spawn(async move { sync::read_early(&context).await });
        }
    }

    /// Starts a read of the named orders. If one is in progress, notes that another must follow.
    pub(super) fn read_orders(&mut self, context: &Context) {
        self.more_orders = !self.orders.is_empty();
        if !self.more_orders {
            let context = context.clone();
            self.orders.spawn(async move { sync::read_asked(&context).await });
        }
    }

    /// Returns true once if orders were named during a read that has ended.
    pub(super) fn has_more_orders(&mut self) -> bool {
        self.orders.is_empty() && std::mem::take(&mut self.more_orders)
    }

    /// Waits for the next prefetch to end; `None` if none is in progress.
    ///
    /// The inner `None` means that it read nothing or was cancelled.
    pub(super) async fn ended(&mut self) -> Option<Result<Option<Finished>, StoreError>> {
        let ended = tokio::select! {
            Some(ended) = self.reading.join_next() => ended,
            Some(ended) = self.orders.join_next() => ended,
            else => return None,
        };
        match ended {
            Ok(ended) => Some(ended),
            Err(error) if error.is_cancelled() => Some(Ok(None)),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Cancels the prefetches in progress.
    pub(super) async fn shutdown(&mut self) {
        self.reading.shutdown().await;
        self.orders.shutdown().await;
    }
}
