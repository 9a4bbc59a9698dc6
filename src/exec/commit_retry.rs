//! Commit retry for results that must not be lost (docs/rules.md 35).
//!
//! If the commit of an answer fails with a transient error, the answer stays in memory and the commit is
//! retried. Such errors are a foreign lock or a full disk. Losing the answer would leave its changes in doubt
//! although their outcome is known. Nothing is claimed meanwhile, nor while free disk space is low. At a stop
//! the daemon gives up uncommitted answers after the drain time, and the next start finds their changes in
//! doubt.
//!
//! Results that can be read or planned again are not retried here; their next run does that.

use super::{Context, JobError};
use crate::model::Clock;
use crate::outbox::Delays;
use crate::store::StoreError;
use crate::telemetry::event;
use std::sync::Arc;
use tokio::sync::watch;

/// Claim gate, closed while an answer waits for its commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Answers that wait for their commit.
    waiting: usize,
    is_disk_low: bool,
}

/// Guard that keeps the claim gate closed.
struct Shut<'a>(&'a Gate);

impl Gate {
    fn shut(&self) -> Shut<'_> {
        self.0.send_modify(|state| state.waiting += 1);
        Shut(self)
    }

    /// Returns true if no answer waits for its commit.
    pub(crate) fn is_open(&self) -> bool {
        self.0.borrow().waiting == 0
    }

    async fn opened(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives in `self`, so the wait ends only with an open gate.
        drop(changes.wait_for(|state| state.waiting == 0).await);
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.waiting -= 1);
    }
}

/// Retry state of one commit.
pub(crate) struct Insist<'a> {
    gate: &'a Gate,
    clock: &'a dyn Clock,
    doing: &'static str,
    delays: Delays,
    shut: Option<Shut<'a>>,
}

impl Insist<'_> {
    /// Returns the result of an attempt; `None`, after a pause, if the error is transient.
    ///
    /// The claim gate opens with the final result, even if this value lives on. A run that waits for a lock
    /// at its begin would otherwise block itself.
    pub(crate) async fn on<T>(&mut self, attempt: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        let error = match attempt {
            Err(error) if error.may_pass() => error,
            result => {
                self.shut = None;
                return result.map(Some);
            }
        };
        if self.shut.is_none() {
            self.shut = Some(self.gate.shut());
            tracing::error!(
                event = event::DATABASE_STUCK,
                "cannot {} yet; it is kept and tried again, and no wish is sent meanwhile: {error}",
                self.doing
            );
        }
        self.clock.sleep(self.delays.next().unwrap_or_default()).await;
        Ok(None)
    }
}

impl Context {
    /// Starts the retry of a commit; `doing` completes "cannot …". The caller repeats attempts until
    /// [`Insist::on`] returns their result.
    pub(crate) fn insist(&self, doing: &'static str) -> Insist<'_> {
        Insist { gate: &self.gate, clock: &*self.clock, doing, delays: Delays::page_retry(), shut: None }
    }

    /// Waits until changes may be claimed: no answer waits for its commit, and free disk space is above the
    /// floor.
    pub(crate) async fn may_claim(&self) -> Result<(), JobError> {
        tokio::select! {
            () = self.gate.opened() => {}
            () = self.stopped() => return Err(JobError::Stopped),
        }
        let room = self.store.room(self.settings().free_floor_bytes);
        let was_low = self.gate.0.borrow().is_disk_low;
        if was_low != room.is_err() {
            self.gate.0.send_modify(|state| state.is_disk_low = room.is_err());
        }
        if let (Err(error), false) = (&room, was_low) {
            let floor_bytes = self.settings().free_floor_bytes;
            tracing::error!(event = event::DISK_LOW, floor_bytes, "{error}");
        }
        Ok(room?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{Moment, Sleep, Timestamp};
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::time::Duration;

    fn full() -> StoreError {
        StoreError::NoRoom { path: PathBuf::from("t.db"), free_mib: 0, floor_mib: 32 }
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

        fn sleep(&self, duration: Duration) -> Sleep {
            self.0.lock().unwrap().push(duration);
            Box::pin(std::future::ready(()))
        }
    }

    fn insist<'a>(gate: &'a Gate, clock: &'a NoWait) -> Insist<'a> {
        Insist { gate, clock, doing: "write down an answer", delays: Delays::page_retry(), shut: None }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_between_attempts_pass_by_the_injected_clock() {
        let (gate, clock) = (Gate::default(), NoWait::default());
        let (mut insist, begun) = (insist(&gate, &clock), tokio::time::Instant::now());
        for _ in 0..3 {
            assert!(insist.on::<()>(Err(full())).await.unwrap().is_none());
        }
        assert_eq!(*clock.0.lock().unwrap(), [200, 400, 800].map(Duration::from_millis));
        assert_eq!(begun.elapsed(), Duration::ZERO, "the host's timer was waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_is_shut_from_the_first_failure_until_it_commits() {
        let (gate, clock) = (Gate::default(), NoWait::default());
        let (mut one, mut two) = (insist(&gate, &clock), insist(&gate, &clock));
        assert!(one.on::<()>(Err(full())).await.unwrap().is_none());
        assert!(two.on::<()>(Err(full())).await.unwrap().is_none());
        assert_eq!(one.on(Ok(7)).await.unwrap(), Some(7));
        assert!(!gate.is_open(), "another answer still waits");
        let waiting = tokio::time::timeout(Duration::from_secs(60), gate.opened());
        assert!(waiting.await.is_err());
        assert_eq!(two.on(Ok(8)).await.unwrap(), Some(8));
        assert!(
            gate.is_open(),
            "a run that waited to begin waits for the gate while its first commit is in scope"
        );
        gate.opened().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_not_repeated() {
        let (gate, clock) = (Gate::default(), NoWait::default());
        let damaged = StoreError::Missing { path: PathBuf::from("t.db") };
        assert!(insist(&gate, &clock).on::<()>(Err(damaged)).await.is_err());
        assert!(gate.is_open());
    }
}
