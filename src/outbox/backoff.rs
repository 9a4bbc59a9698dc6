//! Delays between attempts: the only file that names the `backoff` crate.
//!
//! The crate is unmaintained, and its retry loops retry decode errors for a quarter of an hour and 429s for
//! ever. So only its sequence is used: no loop, no jitter (the sequences are ours alone, nobody else starts at
//! the same instant) and no time limit, which would let a clock decide. How often to try is the caller's:
//! `Delays::page_retry().take(5)`.

use ::backoff::backoff::Backoff;
use ::backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use std::time::Duration;

/// Growing delays, without end.
#[derive(Clone, Debug)]
pub struct Delays(ExponentialBackoff);

impl Delays {
    /// Between attempts at a page within a run: 0.2 s, growing to 5 s (design §7).
    pub fn page_retry() -> Self {
        Self::doubling(Duration::from_millis(200), Duration::from_secs(5))
    }

    /// Between probes of a refused key: 30 s, growing to 15 min. A probe costs a call and perhaps one of the
    /// day's bad requests, and a key is repaired by a person.
    pub fn probe() -> Self {
        Self::doubling(Duration::from_secs(30), Duration::from_secs(15 * 60))
    }

    /// After a 429 without `Retry-After` when no call of ours was in flight: 1 s, growing to 30 s (rules.md 31).
    pub fn concurrency() -> Self {
        Self::doubling(Duration::from_secs(1), Duration::from_secs(30))
    }

    /// Between probes while a refusal cannot be judged: 1 s, growing to 5 min. The next call that is refused costs one of
    /// the day's bad requests, and a probe that is answered 400 costs one too.
    pub fn judging() -> Self {
        Self::doubling(Duration::from_secs(1), Duration::from_secs(5 * 60))
    }

    /// Between attempts at an entry that fails alone: 1 min, growing to 30 min, so that it costs few calls of an hour.
    pub fn quarantine() -> Self {
        Self::doubling(Duration::from_secs(60), Duration::from_secs(30 * 60))
    }

    fn doubling(first: Duration, longest: Duration) -> Self {
        let mut builder = ExponentialBackoffBuilder::new();
        builder.with_initial_interval(first).with_max_interval(longest).with_multiplier(2.0);
        builder.with_randomization_factor(0.0).with_max_elapsed_time(None);
        Self(builder.build())
    }
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next_backoff()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(delays: Delays, count: usize) -> Vec<f64> {
        delays.take(count).map(|delay| delay.as_secs_f64()).collect()
    }

    #[test]
    fn delays_double_up_to_their_longest_and_never_end() {
        assert_eq!(seconds(Delays::page_retry(), 7), [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]);
        assert_eq!(seconds(Delays::concurrency(), 7), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(seconds(Delays::probe(), 7), [30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 900.0]);
        assert_eq!(Delays::concurrency().nth(10_000), Some(Duration::from_secs(30)));
    }
}
