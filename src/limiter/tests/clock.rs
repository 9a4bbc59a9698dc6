//! Test clock on Tokio's (paused) time.

use crate::model::time::whole_millis;
use crate::model::{Clock, Moment, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::time::Instant;

/// Moments and timestamps that advance with `tokio::time`, with calendar steps and suspends.
pub(crate) struct TestClock {
    start: Instant,
    calendar: AtomicI64,
    suspended: AtomicI64,
}

impl TestClock {
    /// Creates a clock of a machine that booted 1,000 s ago. Must be called inside a runtime.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            calendar: AtomicI64::new(1_700_000_000_000),
            suspended: AtomicI64::new(0),
        })
    }

    /// Sets the calendar ahead or back. Moments are unaffected.
    pub(crate) fn step_calendar(&self, by_ms: i64) {
        self.calendar.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Suspends the machine: both clocks advance, Tokio's timers do not.
    pub(crate) fn suspend(&self, for_ms: i64) {
        self.suspended.fetch_add(for_ms, Ordering::Relaxed);
    }

    fn since_start(&self) -> i64 {
        whole_millis(self.start.elapsed()) + self.suspended.load(Ordering::Relaxed)
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.calendar.load(Ordering::Relaxed) + self.since_start())
    }

    fn moment(&self) -> Moment {
        Moment(1_000_000 + self.since_start())
    }
}
