//! The platform's three limits per company account (docs/interface.md, *Limits*).
//!
//! - rate: a sliding window of 60 s over the arrived calls. A call refused for the rate does not count, so
//!   that a caller that waits as requested is accepted. A call refused for concurrency counts.
//! - concurrency: running calls of an operation. A [`PlatformSlot`] is held until the answer is ready.
//! - bad requests: answers of 400 in a sliding window of 24 h. Above the limit all calls are refused until
//!   enough answers have left the window.
//!
//! The counts are kept in memory: a restart clears them. A limit of 0 is disabled, and nothing is counted for
//! it.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use axum::http::{StatusCode, header};

use crate::sandbox::clock::DAY_MS;
use crate::sandbox::http::answer::SandboxRefusal;
use crate::sandbox::lock_mutex;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlatformLimits {
    pub(crate) calls_per_minute: usize,
    pub(crate) concurrency: usize,
    pub(crate) bad_requests_per_day: usize,
}

#[derive(Debug)]
pub(crate) struct PlatformThrottle {
    limits: PlatformLimits,
    accounts: Mutex<HashMap<i64, AccountUsage>>,
}

#[derive(Debug, Default)]
struct AccountUsage {
    /// Arrival of each call of the last minute, oldest first.
    calls: VecDeque<i64>,
    /// Time of each answer of 400 of the last day, oldest first.
    bad_requests: VecDeque<i64>,
    running: HashMap<&'static str, usize>,
}

#[derive(Debug)]
pub(crate) struct PlatformSlot<'a> {
    throttle: &'a PlatformThrottle,
    company_id: i64,
    operation: &'static str,
}

impl PlatformThrottle {
    pub(crate) fn new(limits: PlatformLimits) -> Self {
        Self { limits, accounts: Mutex::default() }
    }

    /// Admits a call, or returns the refusal with the longest wait. The bad-request limit comes first,
    /// then the rate, then the concurrency.
    pub(crate) fn admit_call(
        &self,
        company_id: i64,
        operation: &'static str,
        now_ms: i64,
    ) -> Result<PlatformSlot<'_>, SandboxRefusal> {
        let limits = self.limits;
        let too_many = |message: &str| SandboxRefusal::new(StatusCode::TOO_MANY_REQUESTS, message);
        let mut accounts = lock_mutex(&self.accounts);
        let usage = accounts.entry(company_id).or_default();
        if let Some(wait) = wait_seconds(&mut usage.bad_requests, limits.bad_requests_per_day, DAY_MS, now_ms)
        {
            let message = "Too many bad requests: calls of this account are refused until they have aged.";
            return Err(
                SandboxRefusal::forbidden(message).with_header(header::RETRY_AFTER, &wait.to_string())
            );
        }
        if let Some(wait) = wait_seconds(&mut usage.calls, limits.calls_per_minute, 60_000, now_ms) {
            let message = format!("Rate limit is exceeded. Try again in {wait} seconds.");
            return Err(too_many(&message).with_header(header::RETRY_AFTER, &wait.to_string()));
        }
        if limits.calls_per_minute > 0 {
            usage.calls.push_back(now_ms);
        }
        let running = usage.running.entry(operation).or_default();
        if limits.concurrency > 0 && *running >= limits.concurrency {
            return Err(too_many(
                "Too many simultaneous calls of this operation. Try again when one has completed.",
            ));
        }
        *running += 1;
        Ok(PlatformSlot { throttle: self, company_id, operation })
    }

    pub(crate) fn count_bad_request(&self, company_id: i64, now_ms: i64) {
        if self.limits.bad_requests_per_day > 0 {
            lock_mutex(&self.accounts).entry(company_id).or_default().bad_requests.push_back(now_ms);
        }
    }
}

impl Drop for PlatformSlot<'_> {
    fn drop(&mut self) {
        let mut accounts = lock_mutex(&self.throttle.accounts);
        let usage = accounts.get_mut(&self.company_id);
        if let Some(running) = usage.and_then(|usage| usage.running.get_mut(self.operation)) {
            *running = running.saturating_sub(1);
        }
    }
}

/// Removes times that left the window and returns the wait until another call fits. The wait is in whole
/// seconds, at least 1. `None` means that the next call fits now.
fn wait_seconds(times: &mut VecDeque<i64>, limit: usize, window_ms: i64, now_ms: i64) -> Option<i64> {
    while times.front().is_some_and(|at| *at <= now_ms - window_ms) {
        times.pop_front();
    }
    if limit == 0 || times.len() < limit {
        return None;
    }
    let leaves_ms = times[times.len() - limit] + window_ms;
    Some((leaves_ms - now_ms + 999) / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PlatformLimits =
        PlatformLimits { calls_per_minute: 3, concurrency: 2, bad_requests_per_day: 2 };

    fn status_and_wait(refused: &SandboxRefusal) -> (u16, Option<&str>) {
        (refused.status.as_u16(), refused.header.as_ref().and_then(|(_, value)| value.to_str().ok()))
    }

    #[test]
    fn a_call_is_admitted_exactly_after_the_wait_of_the_refusal() {
        let throttle = PlatformThrottle::new(LIMITS);
        for at in [0, 400, 800] {
            drop(throttle.admit_call(1, "a", at).expect("within the minute's three"));
        }
        let refused = throttle.admit_call(1, "a", 1_000).expect_err("the fourth");
        assert_eq!(status_and_wait(&refused), (429, Some("59")));
        assert!(throttle.admit_call(1, "a", 59_999).is_err());
        assert!(throttle.admit_call(1, "a", 60_000).is_ok());
        assert!(throttle.admit_call(1, "a", 60_000).is_err(), "only the oldest has left the window");
    }

    #[test]
    fn a_refused_call_does_not_count_in_the_minute() {
        let throttle = PlatformThrottle::new(LIMITS);
        (0..3).for_each(|at| drop(throttle.admit_call(1, "a", at)));
        (10..1_000).for_each(|at| assert!(throttle.admit_call(1, "a", at).is_err()));
        assert!(throttle.admit_call(1, "a", 60_002).is_ok());
    }

    #[test]
    fn slots_are_counted_per_company_and_operation_and_given_back() {
        let throttle = PlatformThrottle::new(PlatformLimits { calls_per_minute: 0, ..LIMITS });
        let held = [throttle.admit_call(1, "a", 0), throttle.admit_call(1, "a", 0)];
        let refused = throttle.admit_call(1, "a", 0).expect_err("the third at once");
        assert_eq!(status_and_wait(&refused), (429, None));
        assert!(throttle.admit_call(1, "b", 0).is_ok());
        assert!(throttle.admit_call(2, "a", 0).is_ok());
        drop(held);
        assert!(throttle.admit_call(1, "a", 0).is_ok());
    }

    #[test]
    fn a_disabled_limit_counts_nothing() {
        let throttle = PlatformThrottle::new(PlatformLimits::default());
        for at in 0..1_000 {
            drop(throttle.admit_call(1, "a", at).expect("no limit"));
            throttle.count_bad_request(1, at);
        }
        let accounts = lock_mutex(&throttle.accounts);
        assert!(accounts[&1].calls.is_empty() && accounts[&1].bad_requests.is_empty());
    }

    #[test]
    fn bad_requests_block_everything_until_the_day_has_passed() {
        let throttle = PlatformThrottle::new(LIMITS);
        throttle.count_bad_request(1, 0);
        assert!(throttle.admit_call(1, "a", 10).is_ok());
        throttle.count_bad_request(1, 5_000);
        let refused = throttle.admit_call(1, "b", 6_000).expect_err("two in a day");
        assert_eq!(status_and_wait(&refused), (403, Some("86394")));
        assert!(throttle.admit_call(2, "a", 6_000).is_ok());
        assert!(throttle.admit_call(1, "a", DAY_MS).is_ok());
    }
}
