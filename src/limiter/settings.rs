//! The limiter's settings: the keys of `[limits]` as plain values.
//!
//! The configuration checks the ranges and reports errors. Here every value is safe: a senseless one slows
//! the program down instead of ending it.

use super::window::QUOTA_WINDOW;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct LimiterSettings {
    /// Calls that the account allows in any 60 s.
    pub calls_per_minute: u32,
    /// Fraction of those calls that tallyd may use, above 0 and at most 1.
    pub share: f64,
    pub concurrent_calls_per_operation: u32,
    /// Answers of 400 in 24 h from which on the platform refuses all calls.
    pub bad_requests_per_day: u32,
    /// Reservations that bulk calls leave free for operators' calls.
    pub reserved_calls: u32,
    /// Time in which the platform may still count a call that was given up.
    pub quiet_time: Duration,
}

impl Default for LimiterSettings {
    fn default() -> Self {
        Self {
            calls_per_minute: 120,
            share: 1.0,
            concurrent_calls_per_operation: 3,
            bad_requests_per_day: 500,
            reserved_calls: 2,
            quiet_time: Duration::from_mins(1),
        }
    }
}

impl LimiterSettings {
    /// Returns the most calls of the account while one reservation lasts: that of a call which is given up after half a
    /// quiet time and counts for a window after its quiet time.
    pub(crate) fn calls_in_longest_reservation(&self) -> u32 {
        let longest = self.quiet_time.saturating_mul(3) / 2;
        let minutes = 1 + longest.as_secs().div_ceil(QUOTA_WINDOW.as_secs());
        self.calls_per_minute.saturating_mul(u32::try_from(minutes).unwrap_or(u32::MAX))
    }

    /// Returns the calls a minute that tallyd may use: `calls_per_minute × share`, rounded down, at least 1.
    pub(crate) fn own_limit(&self) -> u32 {
        // 100 × 0.29 is slightly below 29 in binary, and must give 29.
        let calls = f64::from(self.calls_per_minute) * self.share.clamp(0.0, 1.0) + 1e-9;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the product lies between 0 and calls_per_minute, rounding down is meant, and NaN becomes 0"
        )]
        let whole = calls as u32;
        whole.max(1)
    }

    /// Returns the reservations of `limit` up to which bulk calls are granted. At least 1, so
    /// that a tiny quota syncs too.
    pub(super) fn bulk_limit(&self, limit: u32) -> u32 {
        limit.saturating_sub(self.reserved_calls).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_calls_are_the_configured_share_rounded_down_and_at_least_one() {
        let cases = [
            (120, 1.0, 120),
            (120, 0.5, 60),
            (100, 0.29, 29),
            (100, 0.999, 99),
            (1, 0.1, 1),
            (120, 0.0, 1),
            (0, 1.0, 1),
            (120, 7.0, 120),
            (120, f64::NAN, 1),
        ];
        for (calls_per_minute, share, limit) in cases {
            let settings = LimiterSettings { calls_per_minute, share, ..LimiterSettings::default() };
            assert_eq!(settings.own_limit(), limit, "{calls_per_minute} × {share}");
        }
    }

    #[test]
    fn the_reserve_never_takes_the_last_reservation_from_bulk_calls() {
        let settings = LimiterSettings::default();
        let bulk = [120, 3, 2, 1].map(|limit| settings.bulk_limit(limit));
        assert_eq!(bulk, [118, 1, 1, 1]);
    }
}
