//! Claim gate, and the attempts at a commit during which it is closed ([`super::commit_retry`]).

use crate::model::{Clock, RetryDelays};
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

    pub(super) fn retry<'a>(
        &'a self,
        clock: &'a dyn Clock,
        action: &'static str,
        may_repeat: fn(&StoreError) -> bool,
    ) -> CommitRetry<'a> {
        CommitRetry { gate: self, clock, action, may_repeat, delays: RetryDelays::page_retry(), guard: None }
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

pub(super) struct CommitRetry<'a> {
    gate: &'a ClaimGate,
    clock: &'a dyn Clock,
    action: &'static str,
    may_repeat: fn(&StoreError) -> bool,
    delays: RetryDelays,
    guard: Option<GateGuard<'a>>,
}

impl CommitRetry<'_> {
    /// Returns the result of an attempt; `None`, after a pause, if it may be repeated.
    ///
    /// The claim gate opens with the final result, even if this value lives on. A run that waits for a lock
    /// at its begin would otherwise block itself.
    pub(super) async fn check_attempt<T>(
        &mut self,
        attempt: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let error = match attempt {
            Err(error) if (self.may_repeat)(&error) => error,
            result => {
                self.guard = None;
                return result.map(Some);
            }
        };
        if self.guard.is_none() {
            self.guard = Some(self.gate.close_gate());
            tracing::error!(
                event = event::DATABASE_WRITE_FAILED,
                "cannot {} yet; it is tried again, and no change is sent until it succeeds: {error}",
                self.action
            );
        }
        self.clock.sleep(self.delays.next().unwrap_or_default()).await;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{Moment, SleepFuture, Timestamp};
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

    #[tokio::test(start_paused = true)]
    async fn the_pauses_between_attempts_pass_by_the_injected_clock() {
        let (gate, clock) = (ClaimGate::default(), NoWait::default());
        let (mut retry, begun) =
            (gate.retry(&clock, "write", StoreError::is_transient), tokio::time::Instant::now());
        for _ in 0..3 {
            assert!(retry.check_attempt::<()>(Err(full())).await.unwrap().is_none());
        }
        assert_eq!(*clock.0.lock().unwrap(), [200, 400, 800].map(Duration::from_millis));
        assert_eq!(begun.elapsed(), Duration::ZERO, "the host's timer was waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_is_shut_from_the_first_failure_until_it_commits() {
        let (gate, clock) = (ClaimGate::default(), NoWait::default());
        let (mut one, mut two) = (
            gate.retry(&clock, "write", StoreError::is_transient),
            gate.retry(&clock, "write", StoreError::is_transient),
        );
        assert!(one.check_attempt::<()>(Err(full())).await.unwrap().is_none());
        assert!(two.check_attempt::<()>(Err(full())).await.unwrap().is_none());
        assert_eq!(one.check_attempt(Ok(7)).await.unwrap(), Some(7));
        assert!(!gate.is_open(), "another answer still waits");
        let waiting = tokio::time::timeout(Duration::from_secs(60), gate.wait_until_open());
        assert!(waiting.await.is_err());
        assert_eq!(two.check_attempt(Ok(8)).await.unwrap(), Some(8));
        assert!(
            gate.is_open(),
            "a run that waited to begin waits for the gate while its first commit is in scope"
        );
        gate.wait_until_open().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_not_repeated() {
        let (gate, clock) = (ClaimGate::default(), NoWait::default());
        let damaged = StoreError::Missing { database: PathBuf::from("t.db").into() };
        assert!(
            gate.retry(&clock, "write", StoreError::is_transient)
                .check_attempt::<()>(Err(damaged))
                .await
                .is_err()
        );
        assert!(gate.is_open());
    }
}
