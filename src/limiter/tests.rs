//! Tests of the whole limiter on paused time. Each guard has its own tests in its file.

mod clock;
mod endurance;
mod foreign;
mod lanes;
mod outcomes;
mod simulation;
mod waiting;
mod world;

pub(crate) use clock::TestClock;

use super::*;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

const PUSH: Operation = Operation::UpdateQuantityOnHand;
const READ: Operation = Operation::GetProductBalances;
const ONE_MINUTE: Duration = Duration::from_secs(60);

fn limiter(settings: LimiterSettings) -> Limiter {
    Limiter::new(settings, TestClock::new(), PersistedState::default())
}

fn small_limits(calls_per_minute: u32, reserved_calls: u32) -> LimiterSettings {
    let many_slots = LimiterSettings { concurrent_calls_per_operation: 1000, ..LimiterSettings::default() };
    LimiterSettings { calls_per_minute, reserved_calls, ..many_slots }
}

/// Returns the permit if it is granted without waiting.
async fn at_once(limiter: &Limiter, operation: Operation, lane: Lane) -> Option<Permit> {
    let acquired = timeout(Duration::ZERO, limiter.acquire(operation, lane, PacePayment::Paid)).await;
    acquired.ok()
}

/// Returns an operator's permit, which must be granted without waiting.
async fn urgent(limiter: &Limiter, operation: Operation) -> Permit {
    at_once(limiter, operation, Lane::Operator).await.unwrap()
}

/// Waits for a permit, gives it back, and returns the length of the wait.
async fn length_of_wait(limiter: &Limiter, operation: Operation, lane: Lane) -> Duration {
    let start = Instant::now();
    limiter.acquire(operation, lane, PacePayment::Paced).await.return_unused();
    start.elapsed()
}

/// Spawns a caller that waits for a permit and gives it back. Returns once it waits or has ended.
async fn spawn_caller(limiter: &Limiter, operation: Operation, lane: Lane) -> JoinHandle<()> {
    let limiter = limiter.clone();
    let caller = tokio::spawn(async move {
        limiter.acquire(operation, lane, PacePayment::Paced).await.return_unused();
    });
    run_until_idle().await;
    caller
}

async fn must_wait(limiter: &Limiter, operation: Operation, lane: Lane) -> bool {
    at_once(limiter, operation, lane).await.map(Permit::return_unused).is_none()
}

/// Lets every task run until it waits.
async fn run_until_idle() {
    sleep(Duration::from_millis(1)).await;
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Marsaglia's xorshift: sufficient for jitter, and equal on every platform.
struct LimiterRandom(u64);

impl LimiterRandom {
    fn next_below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next_below(n) == 0
    }
}
