//! Spreads the bulk calls over the minute. The only file that names `governor`.
//!
//! A bucket of burst 1 at the limit's rate: bulk calls start at least `60 s / limit` apart. It makes no promise about
//! the quota, the [account](super::account) does; it is there so that a backlog is not sent in one rush and then
//! silent for most of a minute, with everything urgent waiting behind it. A larger burst would buy nothing, since the
//! largest number of calls in a minute is rate + burst − 1.
//!
//! `governor` only decides. Its own waiting is neither fair nor driven by Tokio's timer, and its clock would not count
//! a suspend, so both stay outside: the moment is set by hand before each question. A restart gives one call for free,
//! which the account counts like any other.

use crate::model::Moment;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use std::cell::Cell;
use std::time::Duration;

/// Time since boot, as it was set last.
#[derive(Debug)]
struct SetByHand(Cell<Duration>);

impl Clock for SetByHand {
    type Instant = Duration;
    fn now(&self) -> Duration {
        self.0.get()
    }
}

type Bucket = RateLimiter<NotKeyed, InMemoryState, SetByHand, NoOpMiddleware<Duration>>;

/// The bulk lanes' pace.
#[derive(Debug)]
pub(super) struct Pacer {
    bucket: Bucket,
    calls_per_minute: u32,
    last_pass: Option<Moment>,
    /// A pass that was given back unused; it counts until the bucket has a fresh one anyway.
    returned: bool,
}

impl Pacer {
    /// A pacer whose first call may go at once. No rate below 1 a minute.
    pub(super) fn new(calls_per_minute: u32) -> Self {
        let bucket = bucket(calls_per_minute, Moment(0));
        Self { bucket, calls_per_minute, last_pass: None, returned: false }
    }

    /// Takes a pass, or says when the next one is there.
    pub(super) fn try_pass(&mut self, now: Moment) -> Result<(), Moment> {
        self.bucket.clock().0.set(since_boot(now));
        match self.bucket.check() {
            Ok(()) => {
                self.returned = false;
                self.last_pass = Some(now);
                Ok(())
            }
            Err(_) if std::mem::take(&mut self.returned) => Ok(()),
            Err(not_until) => Err(moment_after(not_until.earliest_possible())),
        }
    }

    /// Gives the last pass back: its call was never begun.
    pub(super) fn give_back(&mut self) {
        self.returned = true;
    }

    /// Sets another rate. The last pass is told to the new bucket, so that a change is no way round the pace.
    pub(super) fn set_rate(&mut self, calls_per_minute: u32) {
        if calls_per_minute == self.calls_per_minute {
            return;
        }
        self.calls_per_minute = calls_per_minute;
        self.bucket = bucket(calls_per_minute, self.last_pass.unwrap_or(Moment(0)));
        if self.last_pass.is_some() {
            let first = self.bucket.check();
            debug_assert!(first.is_ok(), "a fresh bucket has one pass");
        }
    }
}

fn bucket(calls_per_minute: u32, start: Moment) -> Bucket {
    let period = Duration::from_secs(60) / calls_per_minute.max(1);
    // `Quota::with_period` refuses only a period of zero, and 60 s divided by a u32 has some nanoseconds.
    let quota = Quota::with_period(period).expect("60 s divided by a u32 is at least 13 ns");
    RateLimiter::direct_with_clock(quota, SetByHand(Cell::new(since_boot(start))))
}

fn since_boot(moment: Moment) -> Duration {
    moment.since(Moment(0))
}

/// The first whole millisecond that is not before `instant`.
fn moment_after(instant: Duration) -> Moment {
    Moment(0).plus(instant + Duration::from_nanos(999_999))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the next `count` passes are taken by somebody who asks as often as told.
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
        pacer.give_back();
        assert_eq!(pacer.try_pass(Moment(100)), Ok(()));
        assert_eq!(pacer.try_pass(Moment(200)), Err(Moment(500)));

        pacer.give_back();
        assert_eq!(passes(&mut pacer, Moment(9_000), 2), [9_000, 9_500], "the bucket was full anyway");
    }
}
