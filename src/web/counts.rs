//! The counts of the mirror and of tracked entries, which read every row of some tables.
//!
//! With a million SKUs that takes longer than a page may. Counts that took long are therefore counted again in the
//! background, during a tenth of the time at most, and a page shows the last ones.

use crate::model::{Clock, Moment};
use crate::present::ViewError;
use crate::present::call_demand::EntriesToRead;
use crate::store::{MirrorCounts, Store, StoreError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest time of a count for which a page waits.
const WAIT_MAX: Duration = Duration::from_millis(15);

/// The counts of pages.
#[derive(Clone, Copy)]
pub(super) struct SlowCounts {
    pub(super) mirror: MirrorCounts,
    pub(super) to_read: EntriesToRead,
}

/// The last counts.
pub(super) struct SlowCounter {
    store: Store,
    clock: Arc<dyn Clock>,
    last: Mutex<Option<LastCounts>>,
}

#[derive(Clone, Copy)]
struct LastCounts {
    counts: SlowCounts,
    at: Moment,
    took: Duration,
    is_counting: bool,
}

impl LastCounts {
    /// Returns true if a page shows these counts, and does not wait for new ones.
    fn is_shown(&self) -> bool {
        self.took > WAIT_MAX
    }

    fn is_due(&self, now: Moment) -> bool {
        !self.is_counting && now.duration_since(self.at) > self.took * 10
    }
}

impl SlowCounter {
    pub(super) fn new(store: Store, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { store, clock, last: Mutex::default() })
    }

    /// Returns the counts, new ones where that is quick.
    pub(super) async fn counts(self: &Arc<Self>) -> Result<SlowCounts, ViewError> {
        let last = self.update(|last| {
            let shown = last.filter(LastCounts::is_shown);
            let is_due = shown.is_some_and(|shown| shown.is_due(self.clock.moment()));
            last.iter_mut().filter(|_| is_due).for_each(|last| last.is_counting = true);
            shown.map(|shown| (shown.counts, is_due))
        });
        let Some((counts, is_due)) = last else { return Ok(self.count().await?) };
        if is_due {
            let counter = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = counter.count().await {
                    tracing::debug!("cannot count the rows: {error}");
                    counter.update(|last| last.iter_mut().for_each(|last| last.is_counting = false));
                }
            });
        }
        Ok(counts)
    }

    async fn count(&self) -> Result<SlowCounts, StoreError> {
        let begun = self.clock.moment();
        let counts = SlowCounts {
            mirror: self.store.mirror_counts().await?,
            to_read: EntriesToRead::count(&self.store, self.clock.now()).await?,
        };
        let at = self.clock.moment();
        let took = at.duration_since(begun);
        self.update(|last| *last = Some(LastCounts { counts, at, took, is_counting: false }));
        Ok(counts)
    }

    fn update<T>(&self, change: impl FnOnce(&mut Option<LastCounts>) -> T) -> T {
        change(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_took_long_are_shown_and_repeated_for_a_tenth_of_the_time() {
        let to_read = EntriesToRead { skus: 0, orders: 0, shipments: 0, storefronts: 0, kits: 0 };
        let counts = SlowCounts { mirror: MirrorCounts::default(), to_read };
        let last = |took_ms, is_counting| LastCounts {
            counts,
            at: Moment(1000),
            took: Duration::from_millis(took_ms),
            is_counting,
        };
        assert!(!last(15, false).is_shown(), "a quick count is made anew for each page");
        assert!(last(300, false).is_shown());
        assert!(!last(300, false).is_due(Moment(4000)) && last(300, false).is_due(Moment(4001)));
        assert!(!last(300, true).is_due(Moment(9000)), "one count at a time");
    }
}
