//! The reads before their turn as the daemon's loop has them: SKUs, one look a minute whatever schedules are configured,
//! and orders that somebody named, at once.
//!
//! They are no job: no schedule names them, nothing is retried, and a stop does not wait for more than the call that is
//! on its way. An order that could not be read is left to the next pass over the orders.

use crate::job::{self, Context, EARLY_LOOK, Finished};
use crate::store::StoreError;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// When to look next, and the look that is under way.
#[derive(Debug)]
pub(super) struct Early {
    at: Instant,
    reading: JoinSet<Result<Option<Finished>, StoreError>>,
    orders: JoinSet<Result<Option<Finished>, StoreError>>,
    /// Orders were named while others were read.
    more_orders: bool,
}

impl Early {
    /// The first look is due at once: what moved lately may have moved while nobody looked.
    pub(super) fn new() -> Self {
        Self { at: Instant::now(), reading: JoinSet::new(), orders: JoinSet::new(), more_orders: false }
    }

    /// When to look next.
    pub(super) fn due(&self) -> Instant {
        self.at
    }

    /// Begins a look that is due, unless the last one is still under way or the job itself is at it.
    pub(super) fn look(&mut self, context: &Context, now: Instant, is_busy: bool) {
        if now < self.at {
            return;
        }
        self.at = now + EARLY_LOOK;
        if !is_busy && self.reading.is_empty() {
            let context = context.clone();
            self.reading.spawn(async move { job::read_early(&context).await });
        }
    }

    /// Begins to read the orders that somebody named; where that is under way, again behind it.
    pub(super) fn read_orders(&mut self, context: &Context) {
        self.more_orders = !self.orders.is_empty();
        if !self.more_orders {
            let context = context.clone();
            self.orders.spawn(async move { job::read_asked(&context).await });
        }
    }

    /// True once if orders were named while others were read, which are over.
    pub(super) fn has_more_orders(&mut self) -> bool {
        self.orders.is_empty() && std::mem::take(&mut self.more_orders)
    }

    /// The look that ended, with what it read if it read anything; none while there is none.
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

    /// Gives up what is not answered yet; nothing waits for it.
    pub(super) async fn shutdown(&mut self) {
        self.reading.shutdown().await;
        self.orders.shutdown().await;
    }
}
