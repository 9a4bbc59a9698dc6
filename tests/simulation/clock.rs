//! The one clock of a world: of the daemon, the platform and the warehouse.
//!
//! It stands still until the world advances it. It wakes one sleeper at a time, in the order of their times,
//! so that a seed has one order of events. Tokio's paused time is not used, because it advances to the next
//! timer as soon as the runtime is idle. The runtime is idle while SQLite works in its own thread, and the
//! next timer would be a time-out of a connection.
//!
//! The host is a machine of its own. Its calendar may be wrong ([`SimClock::set_calendar`]). It may be
//! suspended ([`SimClock::suspend`]): its timers then stand still, as those of the kernel's monotonic clock
//! do, while the rest of the world goes on. Only the host's sleepers use [`Clock::sleep`]; all others wait by
//! [`SimClock::elsewhere`].

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tallyd::model::time::{SleepFuture, whole_millis};
use tallyd::model::{Clock, Moment, Timestamp};

/// Default begin of a world: Monday, 2 March 2026, 08:00 UTC.
pub const START_MS: i64 = 1_772_438_400_000;
/// Time since the host's boot when the world begins.
const UPTIME_MS: i64 = 1_000_000;

/// A clock that is advanced by hand; clones are handles to one clock.
#[derive(Clone)]
pub struct SimClock(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now_ms: i64,
    /// Offset of the host's calendar from the world's time.
    ahead_ms: i64,
    /// Time that the host was suspended, without a suspend that still lasts.
    slept_ms: i64,
    suspended_since: Option<i64>,
    naps: u64,
    /// Sleepers, in the order in which they fell asleep.
    asleep: BTreeMap<u64, Sleeper>,
}

struct Sleeper {
    /// Due time; on the host, it excludes the time suspended.
    due_ms: i64,
    is_host: bool,
    waker: Option<Waker>,
}

impl State {
    /// Returns the host's monotonic time.
    fn host_ms(&self) -> i64 {
        self.suspended_since.unwrap_or(self.now_ms) - self.slept_ms
    }

    /// Returns the next sleeper and its time.
    fn next(&self) -> Option<(i64, u64)> {
        let due = |(nap, sleeper): (&u64, &Sleeper)| match (sleeper.is_host, self.suspended_since) {
            (false, _) => Some((sleeper.due_ms, *nap)),
            (true, None) => Some((sleeper.due_ms + self.slept_ms, *nap)),
            (true, Some(_)) => None,
        };
        self.asleep.iter().filter_map(due).min()
    }
}

impl SimClock {
    pub fn new(now_ms: i64) -> Self {
        Self(Arc::new(Mutex::new(State { now_ms, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn now_ms(&self) -> i64 {
        self.state().now_ms
    }

    /// Returns the time at which the next sleeper wakes.
    pub fn next_ms(&self) -> Option<i64> {
        self.state().next().map(|(due, _)| due)
    }

    /// Advances to a time that is not past.
    pub fn advance_to(&self, ms: i64) {
        let mut state = self.state();
        assert!(ms >= state.now_ms, "time only goes forward");
        state.now_ms = ms;
    }

    /// Advances to the next sleeper's time and wakes that sleeper alone.
    pub fn wake_next(&self) {
        let (due, nap) = self.state().next().expect("somebody sleeps");
        self.advance_to(due);
        let sleeper = self.state().asleep.remove(&nap);
        if let Some(waker) = sleeper.and_then(|sleeper| sleeper.waker) {
            waker.wake();
        }
    }

    /// Sets the offset of the host's calendar from the world's time (below zero: behind).
    pub fn set_calendar(&self, ahead_ms: i64) {
        self.state().ahead_ms = ahead_ms;
    }

    /// Returns the offset of the host's calendar from the world's time.
    pub fn ahead_ms(&self) -> i64 {
        self.state().ahead_ms
    }

    /// Stops the host's timers until [`SimClock::resume`].
    pub fn suspend(&self) {
        let mut state = self.state();
        assert!(state.suspended_since.is_none(), "it sleeps already");
        state.suspended_since = Some(state.now_ms);
    }

    /// Restarts the host's timers.
    pub fn resume(&self) {
        let mut state = self.state();
        let since = state.suspended_since.take().expect("it sleeps");
        state.slept_ms += state.now_ms - since;
    }

    pub fn is_suspended(&self) -> bool {
        self.state().suspended_since.is_some()
    }

    /// Waits off the host, so that a suspend of the host does not stop the wait.
    pub fn elsewhere(&self, duration: Duration) -> SleepFuture {
        let from = self.now_ms();
        self.nap(from + whole_millis(duration), false)
    }

    fn nap(&self, due_ms: i64, is_host: bool) -> SleepFuture {
        let mut state = self.state();
        state.naps += 1;
        let nap = state.naps;
        state.asleep.insert(nap, Sleeper { due_ms, is_host, waker: None });
        Box::pin(Nap { clock: self.clone(), nap })
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let state = self.state();
        Timestamp(state.now_ms + state.ahead_ms)
    }

    fn moment(&self) -> Moment {
        Moment(self.now_ms() - START_MS + UPTIME_MS)
    }

    fn sleep(&self, duration: Duration) -> SleepFuture {
        let from = self.state().host_ms();
        self.nap(from + whole_millis(duration), true)
    }
}

struct Nap {
    clock: SimClock,
    nap: u64,
}

impl Future for Nap {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.clock.state().asleep.get_mut(&self.nap) {
            Some(sleeper) => {
                sleeper.waker = Some(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        self.clock.state().asleep.remove(&self.nap);
    }
}

#[test]
fn a_suspend_puts_off_the_host_alone() {
    let clock = SimClock::new(START_MS);
    let (host, other) = (clock.sleep(Duration::from_secs(10)), clock.elsewhere(Duration::from_secs(20)));
    clock.suspend();
    assert_eq!(clock.next_ms(), Some(START_MS + 20_000), "the host's timer stands still");
    clock.advance_to(START_MS + 3_600_000);
    clock.resume();
    drop(other);
    assert_eq!(clock.next_ms(), Some(START_MS + 3_610_000));
    drop(host);
    clock.set_calendar(-1_000);
    assert_eq!((clock.now().0, clock.now_ms()), (START_MS + 3_599_000, START_MS + 3_600_000));
}
