//! Instant on both clocks, with the conversion between them.
//!
//! The limiter measures with moments, which calendar steps do not affect. Stored state uses timestamps,
//! because moments of another boot are meaningless.

use crate::model::{Clock, Moment, Timestamp};

/// An instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct DualInstant {
    pub(super) moment: Moment,
    timestamp: Timestamp,
}

impl DualInstant {
    pub(super) fn from_clock(clock: &dyn Clock) -> Self {
        Self { moment: clock.moment(), timestamp: clock.now() }
    }

    /// Returns the calendar time of a moment, past or future.
    pub(super) fn to_timestamp(self, moment: Moment) -> Timestamp {
        let ahead = moment.0.saturating_sub(self.moment.0);
        Timestamp(self.timestamp.0.saturating_add(ahead))
    }

    /// Returns the moment of a past timestamp, which may lie before the boot.
    ///
    /// A timestamp in the future, after a calendar step back, becomes now. A hold of an hour then ends at
    /// most an hour from now.
    pub(super) fn past_moment(self, timestamp: Timestamp) -> Moment {
        let ago = self.timestamp.0.saturating_sub(timestamp.0).max(0);
        Moment(self.moment.0.saturating_sub(ago))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_written_down_is_found_again_unless_the_calendar_was_set_back() {
        let now = DualInstant { moment: Moment(500), timestamp: Timestamp(10_000) };
        assert_eq!(now.to_timestamp(Moment(400)), Timestamp(9_900));
        assert_eq!(now.to_timestamp(Moment(600)), Timestamp(10_100));
        assert_eq!(now.past_moment(Timestamp(9_900)), Moment(400));
        assert_eq!(now.past_moment(Timestamp(9_000)), Moment(-500), "before the boot");
        assert_eq!(now.past_moment(Timestamp(99_000)), Moment(500), "set back");
    }
}
