//! Repeating until it commits (rules.md 35).
//!
//! An answer that cannot be written down is the worst thing to lose: its wishes would be in doubt although the service
//! told us. So it is kept and its commit repeated while the database's trouble may pass: a foreign lock, a full disk.
//! Meanwhile nothing new is claimed, and nothing is claimed either while the disk has little room left. At a stop the
//! daemon gives up what is not committed after its time to drain; the next start finds those wishes in doubt.
//!
//! Not for what can be read or planned again: that fails, and its next run does it.

use super::{Context, JobError};
use crate::model::Clock;
use crate::outbox::Delays;
use crate::store::StoreError;
use crate::telemetry::event;
use std::sync::Arc;
use tokio::sync::watch;

/// Shut while an answer cannot be written down.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Answers that wait to be written down.
    waiting: usize,
    is_disk_low: bool,
}

/// Keeps the gate shut as long as it lives.
struct Shut<'a>(&'a Gate);

impl Gate {
    fn shut(&self) -> Shut<'_> {
        self.0.send_modify(|state| state.waiting += 1);
        Shut(self)
    }

    /// Whether nothing waits to be written down.
    pub(super) fn is_open(&self) -> bool {
        self.0.borrow().waiting == 0
    }

    async fn opened(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives in `self`, so the wait ends only with the gate open.
        drop(changes.wait_for(|state| state.waiting == 0).await);
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.waiting -= 1);
    }
}

/// Something that must be committed.
pub(super) struct Insist<'a> {
    gate: &'a Gate,
    clock: &'a dyn Clock,
    doing: &'static str,
    delays: Delays,
    shut: Option<Shut<'a>>,
}

impl Insist<'_> {
    /// Result of the attempt; none, after a pause, if it failed and may succeed later. A success keeps nobody from
    /// claiming, however long this lives on: a run that waited for a lock to begin would wait for itself.
    pub(super) async fn on<T>(&mut self, attempt: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
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
    /// For something that must be committed, as in "cannot …": attempts follow each other until [`Insist::on`] has
    /// what came of it.
    pub(super) fn insist(&self, doing: &'static str) -> Insist<'_> {
        Insist { gate: &self.gate, clock: &*self.clock, doing, delays: Delays::page_retry(), shut: None }
    }

    /// Waits until wishes may be claimed: no answer waits to be written down, and the disk has room for the next.
    pub(super) async fn may_claim(&self) -> Result<(), JobError> {
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

    /// A clock whose waits are over at once, and written down.
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
