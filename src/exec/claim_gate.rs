//! Claim gate, and the attempts at a commit during which it is closed ([`super::commit_retry`]).

use crate::model::{Clock, Moment, RetryDelays};
use crate::store::StoreError;
use crate::telemetry::event;
use std::sync::Arc;
use tokio::sync::watch;

/// Claim gate, closed while an answer waits for its commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimGate(Arc<watch::Sender<GateState>>);

#[derive(Clone, Copy, Debug, Default)]
struct GateState {
    uncommitted: usize,
    is_disk_low: bool,
}

struct GateGuard<'a>(&'a ClaimGate);

impl ClaimGate {
    fn close_gate(&self) -> GateGuard<'_> {
        self.0.send_modify(|state| state.uncommitted += 1);
        GateGuard(self)
    }

    /// Repeats the attempts at a commit while `may_repeat` allows it, until a moment. `action` completes
    /// "cannot …". The gate is closed from the first failure to the result.
    pub(super) async fn repeat_commit<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        clock: &dyn Clock,
        until: Moment,
        action: &'static str,
        may_repeat: fn(&StoreError) -> bool,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let (mut delays, mut guard) = (RetryDelays::page_retry(), None);
        loop {
            let error = match attempt().await {
                Err(error) if may_repeat(&error) && clock.moment() < until => error,
                result => return result,
            };
            guard.get_or_insert_with(|| {
                tracing::error!(
                    event = event::DATABASE_WRITE_FAILED,
                    "cannot {action} yet; it is tried again, and no change is sent until it succeeds: {error}"
                );
                self.close_gate()
            });
            clock.sleep(delays.next().unwrap_or_default()).await;
        }
    }

    /// Notes if free disk space is low. Returns true if it was low before.
    pub(super) fn note_disk(&self, is_low: bool) -> bool {
        let was_low = self.0.borrow().is_disk_low;
        if was_low != is_low {
            self.0.send_modify(|state| state.is_disk_low = is_low);
        }
        was_low
    }

    /// Returns true if no answer waits for its commit.
    pub(crate) fn is_open(&self) -> bool {
        self.0.borrow().uncommitted == 0
    }

    pub(super) async fn wait_until_open(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives in `self`, so the wait ends only with an open gate.
        drop(changes.wait_for(|state| state.uncommitted == 0).await);
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.uncommitted -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{SleepFuture, Timestamp};
    use std::cell::Cell;
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::time::Duration;

    fn full() -> StoreError {
        StoreError::LowDiskSpace { path: PathBuf::from("t.db"), free_mib: 0, floor_mib: 32 }
    }

    /// Clock that records waits and does not wait.
    #[derive(Default)]
    struct NoWait(Mutex<Vec<Duration>>);

    impl Clock for NoWait {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn moment(&self) -> Moment {
            Moment(0)
        }

        fn sleep(&self, duration: Duration) -> SleepFuture {
            self.0.lock().unwrap().push(duration);
            Box::pin(std::future::ready(()))
        }
    }

    async fn repeat<T, F: Future<Output = Result<T, StoreError>>>(
        gate: &ClaimGate,
        clock: &NoWait,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        gate.repeat_commit(clock, Moment(1), "write", StoreError::is_transient, attempt).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_between_attempts_pass_by_the_injected_clock() {
        let (gate, clock, attempts) = (ClaimGate::default(), NoWait::default(), Cell::new(0));
        let begun = tokio::time::Instant::now();
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 4 { Err(full()) } else { Ok(()) }
        };
        repeat(&gate, &clock, attempt).await.unwrap();
        assert_eq!(*clock.0.lock().unwrap(), [200, 400, 800].map(Duration::from_millis));
        assert_eq!(begun.elapsed(), Duration::ZERO, "the host's timer was waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_is_shut_from_the_first_failure_until_it_commits() {
        let (gate, clock, attempts) = (ClaimGate::default(), NoWait::default(), Cell::new(0));
        let other = gate.close_gate();
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            assert_eq!(gate.0.borrow().uncommitted, attempts.get().min(2));
            if attempts.get() < 3 { Err(full()) } else { Ok(7) }
        };
        assert_eq!(repeat(&gate, &clock, attempt).await.unwrap(), 7);
        assert!(!gate.is_open(), "another answer still waits");
        let waiting = tokio::time::timeout(Duration::from_secs(60), gate.wait_until_open());
        assert!(waiting.await.is_err());
        drop(other);
        assert!(gate.is_open(), "a run that waited to begin waits for the gate that it shut itself");
        gate.wait_until_open().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_not_repeated() {
        let (gate, clock) = (ClaimGate::default(), NoWait::default());
        let damaged = || StoreError::Missing { database: PathBuf::from("t.db").into() };
        assert!(repeat(&gate, &clock, async || Err::<(), _>(damaged())).await.is_err());
        assert!(gate.is_open() && clock.0.lock().unwrap().is_empty());
    }
}
