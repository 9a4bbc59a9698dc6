//! The daemon's timer for prefetching: SKUs once a minute, named orders at once. Pure.
//!
//! Prefetching is not a job. It has no schedule and no retry, and shutdown waits only for the call in flight.
//! The next pass over the orders reads each order that prefetching could not read.

use crate::sync::PREFETCH_INTERVAL;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct PrefetchTimer {
    pub(super) next_at: Instant,
    pub(super) is_prefetching: bool,
    is_reading_orders: bool,
    /// True if orders were named while others were being read.
    more_orders: bool,
}

impl PrefetchTimer {
    /// Creates the timer with a prefetch due at once, because stock may have moved while no daemon ran.
    pub(super) fn new() -> Self {
        let next_at = Instant::now();
        Self { next_at, is_prefetching: false, is_reading_orders: false, more_orders: false }
    }

    /// Returns true if a prefetch is to start now. `is_busy`: the job itself runs or has a retry planned.
    pub(super) fn start_prefetch(&mut self, now: Instant, is_busy: bool) -> bool {
        if now < self.next_at {
            return false;
        }
        self.next_at = now + PREFETCH_INTERVAL;
        !is_busy && !std::mem::replace(&mut self.is_prefetching, true)
    }

    /// Returns true if a read of the named orders is to start now. During a read, another is to follow.
    pub(super) fn start_orders(&mut self) -> bool {
        self.more_orders = std::mem::replace(&mut self.is_reading_orders, true);
        !self.more_orders
    }

    /// Returns true if another read of the named orders is to follow.
    pub(super) fn end_orders(&mut self) -> bool {
        self.is_reading_orders = false;
        std::mem::take(&mut self.more_orders)
    }
}
