//! Adaptive limit: the part of the quota left to us while other software uses the account. Pure.
//!
//! A rate 429 while we hold fewer reservations than configured shows that other software uses the account. The limit
//! then falls at once by a fixed factor and rises slowly and evenly, so that two such programs end up sharing the
//! account. Every return to a limit that is too high costs one 429.
//!
//! If the next call is refused too, the account has far less for us than configured, and the limit becomes the calls
//! admitted in the last minute. Falling by a quarter each time would take eight refused calls from 120 to the floor.
//!
//! An unexpected 429 also adds a second to the window for a day. A platform that counts whole seconds may
//! count a call a second later than it came.

use super::window::QUOTA_WINDOW;
use crate::model::Moment;
use crate::model::time::DAY;
use std::time::Duration;

const WHOLE_PERMILLE: u32 = 1000;
/// Factor by which one 429 lowers the limit: three quarters. A smaller one would starve us after one stray
/// 429. A larger one would cause several 429s beside a busy program, and each counts as a call.
const REDUCTION_FACTOR: (u32, u32) = (3, 4);
/// The lowest limit. Below it nothing would sync, and recovery would take hours.
const FLOOR_PERMILLE: u32 = 100;
/// Rise of the limit a minute: a reduction by a quarter is regained in about half an hour. Other software
/// that stays then costs two or three 429s an hour.
const RECOVERY_PERMILLE: u32 = 10;
/// Time added to the window by an unexpected 429, for a day: it costs 1.6 % of the calls, too much for ever.
const GUARD_MARGIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AdaptiveLimit {
    /// The last reduction: the limit after it in thousandths, and its time.
    pub(super) last_reduction: Option<(u32, Moment)>,
    pub(super) guarded_since: Option<Moment>,
}

impl AdaptiveLimit {
    pub(super) fn permille(&self, now: Moment) -> u32 {
        let Some((left, since)) = self.last_reduction else { return WHOLE_PERMILLE };
        left.saturating_add(RECOVERY_PERMILLE.saturating_mul(recovery_steps(since, now))).min(WHOLE_PERMILLE)
    }

    pub(super) fn allowed_calls(&self, own: u32, now: Moment) -> u32 {
        let calls = u64::from(own) * u64::from(self.permille(now)) / u64::from(WHOLE_PERMILLE);
        u32::try_from(calls).unwrap_or(own).max(1)
    }

    pub(super) fn next_rise_at(&self, now: Moment) -> Option<Moment> {
        let (_, since) = self.last_reduction?;
        (self.permille(now) < WHOLE_PERMILLE)
            .then(|| since.plus(QUOTA_WINDOW * (recovery_steps(since, now) + 1)))
    }

    pub(super) fn window_margin(&self, now: Moment) -> Duration {
        let is_guarded = self.guarded_since.is_some_and(|since| now.duration_since(since) < DAY);
        if is_guarded { GUARD_MARGIN } else { Duration::ZERO }
    }

    /// Records a rate 429 of a call granted at `granted`, with `held` of our `own` reservations in use.
    /// `is_again`: no call was admitted since the last refusal. Returns true if the limit fell. Calls in flight together
    /// are refused together and lower it once.
    pub(super) fn record_throttle(
        &mut self,
        (held, own): (u32, u32),
        (granted, now): (Moment, Moment),
        is_again: bool,
    ) -> bool {
        self.guarded_since = Some(now);
        let is_known = self.last_reduction.is_some_and(|(_, since)| granted <= since);
        if held >= own || is_known {
            return false;
        }
        let mut left = self.permille(now) * REDUCTION_FACTOR.0 / REDUCTION_FACTOR.1;
        if self.last_reduction.is_some() && is_again {
            left = left.min(permille_of(held.saturating_sub(1), own));
        }
        self.last_reduction = Some((left.max(FLOOR_PERMILLE), now));
        true
    }

    /// Returns true once, after the limit has returned to the configured part.
    pub(super) fn take_recovered(&mut self, now: Moment) -> bool {
        self.permille(now) == WHOLE_PERMILLE && self.last_reduction.take().is_some()
    }
}

fn permille_of(calls: u32, own: u32) -> u32 {
    let part = u64::from(calls) * u64::from(WHOLE_PERMILLE) / u64::from(own.max(1));
    u32::try_from(part).unwrap_or(WHOLE_PERMILLE)
}

fn recovery_steps(since: Moment, now: Moment) -> u32 {
    u32::try_from(now.duration_since(since).as_secs() / QUOTA_WINDOW.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(n: i64) -> Moment {
        Moment(n * 60_000)
    }

    #[test]
    fn a_429_below_our_count_takes_a_quarter_and_the_minutes_bring_it_back() {
        let mut limit = AdaptiveLimit::default();
        assert!(limit.record_throttle((50, 120), (minute(9), minute(10)), false));
        let limits = [10, 11, 20, 34, 35, 90].map(|n| limit.allowed_calls(120, minute(n)));
        assert_eq!(limits, [90, 91, 102, 118, 120, 120]);
        assert_eq!(limit.next_rise_at(minute(10)), Some(minute(11)));
        assert!(!limit.take_recovered(minute(34)));
        assert!(limit.take_recovered(minute(35)));
        assert!(!limit.take_recovered(minute(35)), "reported once");
        assert_eq!(limit.next_rise_at(minute(35)), None);
    }

    #[test]
    fn a_429_at_our_full_count_is_no_sign_of_others_but_lengthens_the_window_for_a_day() {
        let mut limit = AdaptiveLimit::default();
        assert!(!limit.record_throttle((120, 120), (minute(9), minute(10)), false));
        assert_eq!(limit.permille(minute(10)), WHOLE_PERMILLE);
        assert_eq!(limit.window_margin(minute(10)), GUARD_MARGIN);
        assert_eq!(limit.window_margin(minute(10 + 24 * 60)), Duration::ZERO);
    }

    #[test]
    fn concurrent_calls_lower_the_adaptive_limit_once() {
        let mut limit = AdaptiveLimit::default();
        assert!(limit.record_throttle((50, 120), (minute(9), minute(10)), false));
        assert!(!limit.record_throttle((50, 120), (minute(10), minute(10)), false));
        assert!(limit.record_throttle((50, 120), (minute(12), minute(12)), false), "a later call is news");
        assert_eq!(limit.permille(minute(12)), 577);
    }

    #[test]
    fn a_call_refused_again_shows_what_the_account_has_for_us() {
        let mut limit = AdaptiveLimit::default();
        assert!(limit.record_throttle((31, 120), (minute(9), minute(10)), false));
        assert!(limit.record_throttle((32, 120), (minute(11), minute(11)), true), "the call after the hold");
        assert_eq!(limit.allowed_calls(120, minute(11)), 30, "258 of 1000");
        assert!(limit.record_throttle((20, 120), (minute(13), minute(13)), false));
        assert_eq!(limit.allowed_calls(120, minute(13)), 24, "an answer between makes it a quarter again");
    }

    #[test]
    fn the_adaptive_limit_never_falls_below_its_floor_nor_below_one_call() {
        let mut limit = AdaptiveLimit::default();
        for n in 1..100 {
            limit.record_throttle((0, 120), (minute(n), minute(n)), n > 1);
        }
        assert_eq!(limit.permille(minute(99)), FLOOR_PERMILLE);
        assert_eq!(limit.allowed_calls(120, minute(99)), 12);
        assert_eq!(limit.allowed_calls(3, minute(99)), 1);
    }
}
