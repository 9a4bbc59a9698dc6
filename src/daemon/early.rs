//! The early reads as the daemon's loop has them: one at a time, a look a minute, whatever schedules are configured.
//!
//! They are no job: no schedule names them, nothing is retried, and a stop does not wait for more than the call that is
//! on its way.

use crate::job::{self, Context, EARLY_LOOK, Finished};
use crate::store::StoreError;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// When to look next, and the look that is under way.
#[derive(Debug)]
pub(super) struct Early {
    at: Instant,
    reading: JoinSet<Result<Option<Finished>, StoreError>>,
}

impl Early {
    /// The first look is due at once: what moved lately may have moved while nobody looked.
    pub(super) fn new() -> Self {
        Self { at: Instant::now(), reading: JoinSet::new() }
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

    /// The look that ended, with what it read if it read anything; none while there is none.
    pub(super) async fn ended(&mut self) -> Option<Result<Option<Finished>, StoreError>> {
        match self.reading.join_next().await? {
            Ok(ended) => Some(ended),
            Err(error) if error.is_cancelled() => Some(Ok(None)),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Gives up what is not answered yet; nothing waits for it.
    pub(super) async fn shutdown(&mut self) {
        self.reading.shutdown().await;
    }
}
