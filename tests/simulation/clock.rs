//! The one clock of a world: of the daemon, the platform and the warehouse.
//!
//! It stands still until the world advances it. It wakes one sleeper at a time, in the order of their times,
//! so that a seed has one order of events. Tokio's paused time is not used, because it advances to the next
//! timer as soon as the runtime is idle. The runtime is idle while SQLite works in its own thread, and the
//! next timer would be a time-out of a connection.
//!
//! Each host is a machine of its own, with a boot and a handle of the clock ([`SimClock::other_host`]). Its
//! calendar may be wrong ([`SimClock::set_calendar`]). It may be suspended ([`SimClock::suspend`]): its timers
//! then stand still, as those of the kernel's monotonic clock do, while the rest of the world goes on. Only a
//! host's sleepers use [`Clock::sleep`]; all others wait by [`SimClock::elsewhere`].

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tallyd::model::time::{SleepFuture, whole_millis};
use tallyd::model::{Clock, Moment, Timestamp};
use tokio::task;

/// Default begin of a world: Monday, 2 March 2026, 08:00 UTC.
pub const START_MS: i64 = 1_772_438_400_000;
/// Time since the first host's boot when the world begins.
const UPTIME_MS: i64 = 1_000_000;

/// A clock that is advanced by hand; clones are handles of one host to one clock.
#[derive(Clone)]
pub struct SimClock {
    state: Arc<Mutex<State>>,
    host: usize,
}

#[derive(Default)]
struct State {
    now_ms: i64,
    hosts: Vec<Host>,
    naps: u64,
    /// Sleepers, in the order in which they fell asleep.
    asleep: BTreeMap<u64, Sleeper>,
}

/// Clocks of a host.
struct Host {
    /// Time since its boot when the clock shows [`START_MS`].
    uptime_ms: i64,
    /// Offset of its calendar from the world's time.
    ahead_ms: i64,
    /// Time that it was suspended, without a suspend that still lasts.
    slept_ms: i64,
    suspended_since: Option<i64>,
}

struct Sleeper {
    /// Due time; on a host, it excludes the time suspended.
    due_ms: i64,
    /// Host of the sleeper; `None`: elsewhere.
    host: Option<usize>,
    task: Option<task::Id>,
    waker: Option<Waker>,
}

impl Host {
    fn booted(uptime_ms: i64) -> Self {
        Self { uptime_ms, ahead_ms: 0, slept_ms: 0, suspended_since: None }
    }

    /// Returns the world's time at which a due time comes; `None` while the host is suspended.
    fn comes_at(&self, due_ms: i64) -> Option<i64> {
        self.suspended_since.is_none().then_some(due_ms + self.slept_ms)
    }
}

impl State {
    /// Returns the next sleeper and the time at which it wakes.
    fn next(&self) -> Option<(i64, u64)> {
        let due = |(nap, sleeper): (&u64, &Sleeper)| {
            let at = match sleeper.host {
                Some(host) => self.hosts[host].comes_at(sleeper.due_ms)?,
                None => sleeper.due_ms,
            };
            Some((at, *nap))
        };
        let next = self.asleep.iter().filter_map(due).min();
        next.map(|(at, nap)| (at.max(self.now_ms), nap))
    }
}

impl SimClock {
    pub fn new(now_ms: i64) -> Self {
        let state = State { now_ms, hosts: vec![Host::booted(UPTIME_MS)], ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), host: 0 }
    }

    /// Returns the handle of a further host, which was booted at another time.
    pub fn other_host(&self, uptime_ms: i64) -> Self {
        let mut state = self.state();
        state.hosts.push(Host::booted(uptime_ms));
        let host = state.hosts.len() - 1;
        Self { state: Arc::clone(&self.state), host }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns a value of this handle's host.
    fn of_host<T>(&self, with: impl FnOnce(&mut Host, i64) -> T) -> T {
        let mut state = self.state();
        let now_ms = state.now_ms;
        with(&mut state.hosts[self.host], now_ms)
    }

    /// Returns true if a task waits for this clock.
    pub fn has_asleep(&self, task: task::Id) -> bool {
        self.state().asleep.values().any(|sleeper| sleeper.task == Some(task) && sleeper.waker.is_some())
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
        self.of_host(|host, _| host.ahead_ms = ahead_ms);
    }

    /// Returns the offset of the host's calendar from the world's time.
    pub fn ahead_ms(&self) -> i64 {
        self.of_host(|host, _| host.ahead_ms)
    }

    /// Returns the world's time of a moment of a boot.
    pub fn world_ms(&self, boot_id: &str, moment: i64) -> i64 {
        let host: usize =
            boot_id.rsplit(' ').next().and_then(|host| host.parse().ok()).expect("a boot of a host");
        moment + START_MS - self.state().hosts[host].uptime_ms
    }

    /// Stops the host's timers until [`SimClock::resume`].
    pub fn suspend(&self) {
        self.of_host(|host, now_ms| {
            assert!(host.suspended_since.is_none(), "it sleeps already");
            host.suspended_since = Some(now_ms);
        });
    }

    /// Restarts the host's timers.
    pub fn resume(&self) {
        self.of_host(|host, now_ms| {
            host.slept_ms += now_ms - host.suspended_since.take().expect("it sleeps");
        });
    }

    /// Ends a suspend of the host's processes alone, as SIGCONT does. All timers that ran out meanwhile are due.
    pub fn go_on(&self) {
        self.of_host(|host, _| host.suspended_since.take().expect("it sleeps"));
    }

    pub fn is_suspended(&self) -> bool {
        self.of_host(|host, _| host.suspended_since.is_some())
    }

    /// Waits off the host, so that a suspend of the host does not stop the wait.
    pub fn elsewhere(&self, duration: Duration) -> SleepFuture {
        let from = self.now_ms();
        self.nap(from + whole_millis(duration), None)
    }

    fn nap(&self, due_ms: i64, host: Option<usize>) -> SleepFuture {
        let mut state = self.state();
        state.naps += 1;
        let nap = state.naps;
        state.asleep.insert(nap, Sleeper { due_ms, host, task: task::try_id(), waker: None });
        Box::pin(Nap { clock: self.clone(), nap })
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.of_host(|host, now_ms| Timestamp(now_ms + host.ahead_ms))
    }

    fn moment(&self) -> Moment {
        self.of_host(|host, now_ms| Moment(now_ms - START_MS + host.uptime_ms))
    }

    fn boot_id(&self) -> Option<String> {
        Some(format!("boot of host {}", self.host))
    }

    fn sleep(&self, duration: Duration) -> SleepFuture {
        let due = self.of_host(|host, now_ms| {
            host.suspended_since.unwrap_or(now_ms) - host.slept_ms + whole_millis(duration)
        });
        self.nap(due, Some(self.host))
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

#[test]
fn each_host_has_its_own_boot_and_calendar_and_a_stopped_process_finds_its_timers_due() {
    let one = SimClock::new(START_MS);
    let other = one.other_host(77);
    other.set_calendar(600_000);
    assert_eq!((one.moment(), other.moment()), (Moment(UPTIME_MS), Moment(77)));
    assert_eq!((one.now().0, other.now().0), (START_MS, START_MS + 600_000));
    assert_eq!(one.world_ms(&other.boot_id().unwrap(), 78), START_MS + 1);
    let (of_one, of_other) = (one.sleep(Duration::from_secs(10)), other.sleep(Duration::from_secs(5)));
    other.suspend();
    assert_eq!(one.next_ms(), Some(START_MS + 10_000));
    one.advance_to(START_MS + 60_000);
    drop(of_one);
    other.go_on();
    assert_eq!(one.next_ms(), Some(START_MS + 60_000), "the timer ran out while the process was stopped");
    drop(of_other);
    assert_ne!(one.boot_id(), other.boot_id());
}
