//! Delays between attempts: the only file that uses the `backoff` crate.
//!
//! The crate is unmaintained. Its retry loops retry decode errors for 15 minutes and 429s without end.
//! Only its sequence of delays is used: no loop, no jitter and no time limit. Jitter is unnecessary,
//! because no other client starts at the same instant. A time limit would read the clock. The caller
//! limits the attempts, for example `RetryDelays::page_retry().take(5)`.
//!
//! Other waits have rules of their own: waits that the platform orders (`limiter/holds.rs`), checks of changes
//! in doubt (`reconcile/in_doubt.rs`), and what no answer showed (`reconcile/unshown.rs`).

use ::backoff::backoff::Backoff;
use ::backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use std::time::Duration;

/// An endless sequence of growing delays.
#[derive(Clone, Debug)]
pub struct RetryDelays(ExponentialBackoff);

impl RetryDelays {
    /// Returns delays between attempts at a page within a run: 0.2 s, growing to 5 s.
    pub(crate) fn page_retry() -> Self {
        Self::doubling_from(Duration::from_millis(200), Duration::from_secs(5))
    }

    /// Least time between probes of a refused key. With the call that was refused, the first minute costs two calls.
    pub(crate) const KEY_PROBES_APART: Duration = Duration::from_secs(60);

    /// Returns delays between failed runs of all jobs but `push`: 30 s, growing to 15 min.
    pub fn slow_retry() -> Self {
        Self::doubling_from(Duration::from_secs(30), Duration::from_secs(15 * 60))
    }

    /// Returns delays between failed runs of `push`: 1 s, growing to 30 s. They equal the waits of
    /// `limiter/holds.rs` after a 429 without `Retry-After` and without calls in flight (docs/rules.md 19).
    pub fn push_retry() -> Self {
        Self::doubling_from(Duration::from_secs(1), Duration::from_secs(30))
    }

    /// Returns delays between probes of the key: 1 s, growing to 5 min.
    ///
    /// Each refused call costs a bad request of the day, and so does a probe that is answered 400.
    pub(crate) fn key_probe() -> Self {
        Self::doubling_from(Duration::from_secs(1), Duration::from_secs(5 * 60))
    }

    /// Returns delays between isolated attempts at a failing entry: 1 min, growing to 30 min.
    ///
    /// The longest delay limits an entry to few calls an hour.
    pub(crate) fn quarantine_retry() -> Self {
        Self::doubling_from(Duration::from_secs(60), Duration::from_secs(30 * 60))
    }

    fn doubling_from(first: Duration, longest: Duration) -> Self {
        let mut builder = ExponentialBackoffBuilder::new();
        builder.with_initial_interval(first).with_max_interval(longest).with_multiplier(2.0);
        builder.with_randomization_factor(0.0).with_max_elapsed_time(None);
        Self(builder.build())
    }
}

impl Iterator for RetryDelays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next_backoff()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(delays: RetryDelays, count: usize) -> Vec<f64> {
        delays.take(count).map(|delay| delay.as_secs_f64()).collect()
    }

    #[test]
    fn delays_double_up_to_their_longest_and_never_end() {
        assert_eq!(seconds(RetryDelays::page_retry(), 7), [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]);
        assert_eq!(seconds(RetryDelays::push_retry(), 7), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(seconds(RetryDelays::slow_retry(), 7), [30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 900.0]);
        assert_eq!(RetryDelays::push_retry().nth(10_000), Some(Duration::from_secs(30)));
    }
}
