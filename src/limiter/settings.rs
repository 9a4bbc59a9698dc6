//! What the account allows and how much of it is ours: the keys of `[limits]` as plain values.
//!
//! The configuration checks the ranges and says what is wrong with them; here every value means something safe, so
//! that a senseless one slows the program down instead of ending it.

/// The figures of service-interface.md, *Limits*, as the configuration gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Calls the account allows in any 60 s.
    pub calls_per_minute: u32,
    /// The part of them that is ours, above 0 and at most 1.
    pub share: f64,
    /// Calls of one operation that may be in flight at a time.
    pub concurrent_calls_per_operation: u32,
    /// Answers of 400 in 24 h at which the service begins to refuse everything.
    pub bad_requests_per_day: u32,
    /// Places that bulk calls leave free for an operator's.
    pub reserved_calls: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            calls_per_minute: 120,
            share: 1.0,
            concurrent_calls_per_operation: 3,
            bad_requests_per_day: 500,
            reserved_calls: 2,
        }
    }
}

impl Settings {
    /// Places of the account that are ours: `calls_per_minute × share`, rounded down, at least 1.
    pub fn limit(&self) -> u32 {
        // 100 × 0.29 is a hair below 29 in binary; the hair must not cost a call.
        let calls = f64::from(self.calls_per_minute) * self.share.clamp(0.0, 1.0) + 1e-9;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the product lies between 0 and calls_per_minute, rounding down is meant, and NaN becomes 0"
        )]
        let whole = calls as u32;
        whole.max(1)
    }

    /// How many of `limit` places may be held when a bulk call is granted. At least 1: a tiny account must sync too.
    pub(super) fn bulk_limit(&self, limit: u32) -> u32 {
        limit.saturating_sub(self.reserved_calls).max(1)
    }

    /// Slots per operation. At least 1, for the same reason.
    pub(super) fn slots(&self) -> u32 {
        self.concurrent_calls_per_operation.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_places_are_the_share_rounded_down_and_at_least_one() {
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
            let settings = Settings { calls_per_minute, share, ..Settings::default() };
            assert_eq!(settings.limit(), limit, "{calls_per_minute} × {share}");
        }
    }

    #[test]
    fn the_reserve_never_takes_the_last_place_from_bulk_calls() {
        let settings = Settings::default();
        let bulk = [120, 3, 2, 1].map(|limit| settings.bulk_limit(limit));
        assert_eq!(bulk, [118, 1, 1, 1]);
    }
}
