//! The one clock of a world: the daemon's, the service's and the warehouse's.
//!
//! It stands still until the world moves it, and wakes one sleeper at a time, in the order of their times, so that a
//! seed has one order of events. Tokio's paused time is not used: it runs ahead to the next timer as soon as the
//! runtime is idle, and it *is* idle while SQLite works in its own thread; the timer would be that of a connection's
//! own time-out.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tallyd::model::time::Sleep;
use tallyd::model::{Clock, Moment, Timestamp};

/// When every world begins: Monday, 2 March 2026, 08:00 UTC.
pub const START_MS: i64 = 1_772_438_400_000;

/// A clock that is moved by hand; clones are handles to the same one.
#[derive(Clone)]
pub struct SimClock(Arc<Mutex<State>>);

struct State {
    now_ms: i64,
    naps: u64,
    /// By due time, then in the order of falling asleep.
    asleep: BTreeMap<(i64, u64), Option<Waker>>,
}

impl SimClock {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State { now_ms: START_MS, naps: 0, asleep: BTreeMap::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn now_ms(&self) -> i64 {
        self.state().now_ms
    }

    /// When the next sleeper wakes.
    pub fn next_ms(&self) -> Option<i64> {
        self.state().asleep.keys().next().map(|(due, _)| *due)
    }

    /// Goes on to a time that is not past.
    pub fn advance_to(&self, ms: i64) {
        let mut state = self.state();
        assert!(ms >= state.now_ms, "time only goes forward");
        state.now_ms = ms;
    }

    /// Goes on to the next sleeper's time and wakes that one alone.
    pub fn wake_next(&self) {
        let ((due, _), waker) = self.state().asleep.pop_first().expect("somebody sleeps");
        self.advance_to(due);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms())
    }

    fn moment(&self) -> Moment {
        Moment(self.now_ms() - START_MS + 1_000_000)
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let mut state = self.state();
        state.naps += 1;
        let key = (state.now_ms + i64::try_from(duration.as_millis()).unwrap(), state.naps);
        state.asleep.insert(key, None);
        Box::pin(Nap { clock: self.clone(), key })
    }
}

struct Nap {
    clock: SimClock,
    key: (i64, u64),
}

impl Future for Nap {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.clock.state().asleep.get_mut(&self.key) {
            Some(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        self.clock.state().asleep.remove(&self.key);
    }
}
