//! Commit retry for results that must not be lost (docs/rules.md 20), and the claim gate.
//!
//! If the commit of an answer fails with a transient error, the answer stays in memory and the commit is
//! retried. Such errors are a foreign lock or a full disk. Losing the answer would leave its changes in doubt
//! although their outcome is known. Nothing is claimed meanwhile, nor while free disk space is low. At a stop
//! the daemon gives up uncommitted answers after the drain time, and the next start finds their changes in
//! doubt.
//!
//! Results that can be read or planned again are not retried here; their next run does that.

use super::{JobContext, JobError};
use crate::model::{Clock, RetryDelays};
use crate::store::StoreError;
use crate::telemetry::event;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

/// Claim gate, closed while an answer waits for its commit: the number of answers that wait. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimGate(watch::Sender<usize>);

struct GateGuard<'a>(&'a ClaimGate);

impl JobContext {
    /// Repeats the attempts at a commit until one succeeds or fails for good; `action` completes "cannot …".
    pub(crate) async fn retry_commit<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        action: &'static str,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let (clock, patience) = (&*self.clock, self.commit_patience);
        self.claim_gate.repeat_commit(clock, patience, action, StoreError::is_transient, attempt).await
    }

    /// Repeats like [`JobContext::retry_commit`], and also after a commit of which the reply was lost. The
    /// attempt must have no further effect if that commit was made.
    pub(crate) async fn retry_conclusion<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        action: &'static str,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let (clock, patience) = (&*self.clock, self.commit_patience);
        let may_repeat = |error: &StoreError| error.is_transient() || error.is_commit_unknown();
        self.claim_gate.repeat_commit(clock, patience, action, may_repeat, attempt).await
    }

    /// Waits until changes may be claimed: no answer waits for its commit, and free disk space is above the
    /// floor. Low disk space is logged once.
    pub(crate) async fn wait_until_claimable(&self) -> Result<(), JobError> {
        tokio::select! {
            () = self.claim_gate.wait_until_open() => {}
            () = self.wait_for_stop() => return Err(JobError::Stopped),
        }
        let floor_bytes = self.settings().free_floor_bytes;
        let room = self.store.check_free_space(floor_bytes);
        let was_low = self.is_disk_low.swap(room.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (&room, was_low) {
            tracing::error!(event = event::DISK_LOW, floor_bytes, "{error}");
        }
        Ok(room?)
    }
}

impl ClaimGate {
    fn close_gate(&self) -> GateGuard<'_> {
        self.0.send_modify(|uncommitted| *uncommitted += 1);
        GateGuard(self)
    }

    /// Repeats the attempts at a commit for a time while `may_repeat` allows it. `action` completes "cannot …". The
    /// gate is closed from the first failure to the result.
    async fn repeat_commit<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        clock: &dyn Clock,
        patience: Duration,
        action: &'static str,
        may_repeat: fn(&StoreError) -> bool,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let until = clock.moment().plus(patience);
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

    /// Returns true if no answer waits for its commit.
    pub(crate) fn is_open(&self) -> bool {
        *self.0.borrow() == 0
    }

    async fn wait_until_open(&self) {
        // The sender lives in `self`, so the wait ends only with an open gate.
        drop(self.0.subscribe().wait_for(|uncommitted| *uncommitted == 0).await);
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|uncommitted| *uncommitted -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Moment;
    use crate::model::time::{SleepFuture, Timestamp};
    use std::cell::Cell;
    use std::path::PathBuf;
    use std::sync::Mutex;

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
        gate.repeat_commit(clock, Duration::MAX, "write", StoreError::is_transient, attempt).await
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
            assert_eq!(*gate.0.borrow(), attempts.get().min(2));
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
