//! Budget of starts of a few stock levels, shared by all runs of a daemon (`push/delay.rs`).

use crate::model::Moment;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// Spacing of starts in calls of the quota. A start takes a read and two updates, which is a quarter of the
/// quota. At 120 calls a minute the spacing is 6 s; 6 adjusts a second fill a call and a half in that time.
const START_SPACING_CALLS: u32 = 12;
/// Limit of the spacing, even with a small quota.
const START_SPACING_MAX: Duration = Duration::from_secs(6);
const STARTS_SAVED: u32 = 3;

/// Starts of a few stock levels, shared by all runs of a daemon.
#[derive(Debug)]
pub(crate) struct StartBudget {
    /// Time at which all starts have accumulated again.
    full_at: Moment,
    spacing: Duration,
}

impl Default for StartBudget {
    fn default() -> Self {
        Self { full_at: Moment(0), spacing: Duration::ZERO }
    }
}

impl StartBudget {
    /// Takes a start if one is available at `now`. Returns false otherwise.
    pub(crate) fn try_take(&mut self, now: Moment, calls_per_minute: u32) -> bool {
        self.spacing = (MINUTE * START_SPACING_CALLS / calls_per_minute.max(1)).min(START_SPACING_MAX);
        let may = now >= self.next_at();
        if may {
            self.full_at = self.full_at.max(now).plus(self.spacing);
        }
        may
    }

    pub(crate) fn next_at(&self) -> Moment {
        self.full_at.minus(self.spacing * (STARTS_SAVED - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_changes_begin_at_once_and_a_stream_of_them_every_six_seconds() {
        let mut starts = StartBudget::default();
        let begun = (100_000..130_000).step_by(500).filter(|ms| starts.try_take(Moment(*ms), 120));
        let begun: Vec<i64> = begun.map(|ms| ms - 100_000).collect();
        assert_eq!(begun, [0, 500, 1_000, 6_000, 12_000, 18_000, 24_000]);
        assert!(starts.try_take(Moment(200_000), 120), "they are saved up again");
    }

    #[test]
    fn no_quota_is_so_small_that_a_change_waits_longer_and_a_large_one_makes_it_shorter() {
        for (calls_per_minute, apart) in [(0, 6_000), (2, 6_000), (120, 6_000), (240, 3_000), (6_000, 120)] {
            let mut starts = StartBudget::default();
            assert!((0..3).all(|_| starts.try_take(Moment(100_000), calls_per_minute)));
            assert!(!starts.try_take(Moment(99_999 + apart), calls_per_minute), "{calls_per_minute}");
            assert!(starts.try_take(Moment(100_000 + apart), calls_per_minute), "{calls_per_minute}");
        }
    }
}
