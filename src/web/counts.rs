//! The counts of the mirror, which read every row of some tables.
//!
//! With a million SKUs that takes longer than a page may. Counts that took long are therefore counted again in the
//! background, during a tenth of the time at most, and a page shows the last ones.

use super::access::locked;
use crate::model::{Clock, Moment};
use crate::present::ViewError;
use crate::store::{MirrorCounts, Store, StoreError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest time of a count for which a page waits.
const WAIT_MAX: Duration = Duration::from_millis(15);

pub(super) struct SlowCounter {
    store: Store,
    clock: Arc<dyn Clock>,
    last: Mutex<Option<LastCounts>>,
}

#[derive(Clone, Copy)]
struct LastCounts {
    counts: MirrorCounts,
    at: Moment,
    took: Duration,
}

impl LastCounts {
    /// Returns true if a page shows these counts, and does not wait for new ones.
    fn is_shown(&self) -> bool {
        self.took > WAIT_MAX
    }

    fn is_due(&self, now: Moment) -> bool {
        now.duration_since(self.at) > self.took * 10
    }
}

impl SlowCounter {
    pub(super) fn new(store: Store, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { store, clock, last: Mutex::default() })
    }

    pub(super) async fn counts(self: &Arc<Self>) -> Result<MirrorCounts, ViewError> {
        let last = locked(&self.last).filter(LastCounts::is_shown);
        let Some(last) = last else { return Ok(self.count().await?) };
        let now = self.clock.moment();
        if last.is_due(now) {
            // Until the new counts are there, they are not due again.
            *locked(&self.last) = Some(LastCounts { at: now, ..last });
            let counter = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = counter.count().await {
                    tracing::debug!("cannot count the rows: {error}");
                }
            });
        }
        Ok(last.counts)
    }

    async fn count(&self) -> Result<MirrorCounts, StoreError> {
        let begun = self.clock.moment();
        let counts = self.store.mirror_counts().await?;
        let at = self.clock.moment();
        *locked(&self.last) = Some(LastCounts { counts, at, took: at.duration_since(begun) });
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_took_long_are_shown_and_repeated_for_a_tenth_of_the_time() {
        let counts = MirrorCounts::default();
        let last = |took_ms| LastCounts { counts, at: Moment(1000), took: Duration::from_millis(took_ms) };
        assert!(!last(15).is_shown(), "a quick count is made anew for each page");
        assert!(last(300).is_shown());
        assert!(!last(300).is_due(Moment(4000)) && last(300).is_due(Moment(4001)));
    }
}
