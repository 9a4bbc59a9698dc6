//! Tests of the whole limiter on paused time. Each guard has its own tests in its file.

mod clock;
mod endurance;
mod foreign;
mod lanes;
mod outcomes;
mod simulation;
mod waiting;

pub use clock::TestClock;

use super::*;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const PUSH: Operation = Operation::UpdateQuantityOnHand;
const READ: Operation = Operation::GetProductBalances;
const ONE_MINUTE: Duration = Duration::from_secs(60);

fn limiter(settings: LimiterSettings) -> Limiter {
    Limiter::new(settings, TestClock::new(), PersistedState::default())
}

fn small_limits(calls_per_minute: u32, reserved_calls: u32) -> LimiterSettings {
    let concurrent_calls_per_operation = 1000;
    LimiterSettings {
        calls_per_minute,
        reserved_calls,
        concurrent_calls_per_operation,
        ..LimiterSettings::default()
    }
}

/// Returns the permit if it is granted without waiting.
async fn at_once(limiter: &Limiter, operation: Operation, lane: Lane) -> Option<Permit> {
    let acquired = timeout(Duration::ZERO, limiter.acquire(operation, lane, PacePayment::Paid)).await;
    acquired.ok().map(|permit| permit.unwrap())
}

/// Returns an operator's permit, which must be granted without waiting.
async fn urgent(limiter: &Limiter, operation: Operation) -> Permit {
    at_once(limiter, operation, Lane::Operator).await.unwrap()
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
