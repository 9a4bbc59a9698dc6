//! Pacer: spreads bulk calls over the minute. The only file that names `governor`.
//!
//! A bucket with a burst of 1 at the rate of the limit: bulk calls start at least `60 s / limit` apart. The
//! pacer does not keep the quota; the [window](super::window) does. A larger burst has no use, because the
//! largest number of calls in a minute is rate + burst − 1.
//!
//! `governor` only decides. Its waiting is not fair and does not use Tokio's timer, and its clock ignores
//! suspends. The clock is therefore set before each question, and the limiter does the waiting.

use crate::model::Moment;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use std::cell::Cell;
use std::time::Duration;

/// Time since boot, set before each question.
#[derive(Debug)]
struct ManualClock(Cell<Duration>);

impl Clock for ManualClock {
    type Instant = Duration;
    fn now(&self) -> Duration {
        self.0.get()
    }
}

type TokenBucket = RateLimiter<NotKeyed, InMemoryState, ManualClock, NoOpMiddleware<Duration>>;

#[derive(Debug)]
pub(super) struct Pacer {
    bucket: TokenBucket,
    calls_per_minute: u32,
    last_pass: Option<Moment>,
    /// A pass given back unused. It is valid until the bucket has a new pass anyway.
    has_returned_pass: bool,
}

impl Pacer {
    /// Creates a pacer that passes the first call at once. The rate is at least 1 a minute.
    pub(super) fn new(calls_per_minute: u32) -> Self {
        let bucket = new_bucket(calls_per_minute, Moment(0));
        Self { bucket, calls_per_minute, last_pass: None, has_returned_pass: false }
    }

    pub(super) fn try_pass(&mut self, now: Moment) -> Result<(), Moment> {
        self.bucket.clock().0.set(since_boot(now));
        match self.bucket.check() {
            Ok(()) => {
                self.has_returned_pass = false;
                self.last_pass = Some(now);
                Ok(())
            }
            Err(_) if std::mem::take(&mut self.has_returned_pass) => Ok(()),
            Err(not_until) => Err(moment_after(not_until.earliest_possible())),
        }
    }

    pub(super) fn return_pass(&mut self) {
        self.has_returned_pass = true;
    }

    /// Sets another rate. The new bucket starts at the last pass, so that a change
    /// of rate gives no extra call.
    pub(super) fn set_rate(&mut self, calls_per_minute: u32) {
        if calls_per_minute == self.calls_per_minute {
            return;
        }
        self.calls_per_minute = calls_per_minute;
        self.bucket = new_bucket(calls_per_minute, self.last_pass.unwrap_or(Moment(0)));
        if self.last_pass.is_some() {
            let first = self.bucket.check();
            debug_assert!(first.is_ok(), "a fresh bucket has one pass");
        }
    }
}

fn new_bucket(calls_per_minute: u32, start: Moment) -> TokenBucket {
    let period = Duration::from_secs(60) / calls_per_minute.max(1);
    // `Quota::with_period` refuses only a period of zero.
    let quota = Quota::with_period(period).expect("60 s divided by a u32 is at least 13 ns");
    RateLimiter::direct_with_clock(quota, ManualClock(Cell::new(since_boot(start))))
}

fn since_boot(moment: Moment) -> Duration {
    moment.duration_since(Moment(0))
}

/// Returns the first whole millisecond that is not before `instant`.
fn moment_after(instant: Duration) -> Moment {
    Moment(0).plus(instant + Duration::from_nanos(999_999))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times of the next `count` passes of a caller that asks at each announced moment.
    fn passes(pacer: &mut Pacer, mut now: Moment, count: usize) -> Vec<i64> {
        let mut taken = Vec::new();
        while taken.len() < count {
            match pacer.try_pass(now) {
                Ok(()) => taken.push(now.0),
                Err(when) => {
                    assert!(when > now, "a refusal names a later moment");
                    now = when;
                }
            }
        }
        taken
    }

    #[test]
    fn bulk_calls_start_a_minute_by_the_limit_apart() {
        assert_eq!(passes(&mut Pacer::new(120), Moment(7_000), 4), [7_000, 7_500, 8_000, 8_500]);
        assert_eq!(passes(&mut Pacer::new(7), Moment(0), 3), [0, 8_572, 17_144]);
        assert_eq!(passes(&mut Pacer::new(0), Moment(0), 2), [0, 60_000]);
    }

    #[test]
    fn an_hour_of_silence_saves_up_no_burst() {
        let mut pacer = Pacer::new(120);
        passes(&mut pacer, Moment(0), 2);
        assert_eq!(passes(&mut pacer, Moment(3_600_000), 2), [3_600_000, 3_600_500]);
    }

    #[test]
    fn a_change_of_rate_gives_no_extra_call() {
        let mut pacer = Pacer::new(120);
        assert_eq!(pacer.try_pass(Moment(10_000)), Ok(()));
        pacer.set_rate(60);
        assert_eq!(pacer.try_pass(Moment(10_500)), Err(Moment(11_000)));
        pacer.set_rate(120);
        assert_eq!(pacer.try_pass(Moment(10_500)), Ok(()));
    }

    #[test]
    fn a_pass_given_back_is_used_once_and_never_saved_up() {
        let mut pacer = Pacer::new(120);
        assert_eq!(pacer.try_pass(Moment(0)), Ok(()));
        pacer.return_pass();
        assert_eq!(pacer.try_pass(Moment(100)), Ok(()));
        assert_eq!(pacer.try_pass(Moment(200)), Err(Moment(500)));

        pacer.return_pass();
        assert_eq!(passes(&mut pacer, Moment(9_000), 2), [9_000, 9_500], "the bucket was full anyway");
    }
}
