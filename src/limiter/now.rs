//! The two clocks read at one instant, and the way from one to the other.
//!
//! Inside, everything is measured with moments, which know no clock steps. What outlives the process is written with
//! timestamps, because moments of another boot mean nothing.

use crate::model::{Clock, Moment, Timestamp};

/// One instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) moment: Moment,
    timestamp: Timestamp,
}

impl Now {
    pub(super) fn of(clock: &dyn Clock) -> Self {
        Self { moment: clock.moment(), timestamp: clock.now() }
    }

    /// When `moment` was, or will be, on the calendar.
    pub(super) fn timestamp(self, moment: Moment) -> Timestamp {
        let ahead = moment.0.saturating_sub(self.moment.0);
        Timestamp(self.timestamp.0.saturating_add(ahead))
    }

    /// The moment of a past instant, which may lie before the boot. One that seems to lie ahead (the calendar was
    /// set back) is now: what was set for an hour then ends an hour from now at the latest.
    pub(super) fn past(self, timestamp: Timestamp) -> Moment {
        let ago = self.timestamp.0.saturating_sub(timestamp.0).max(0);
        Moment(self.moment.0.saturating_sub(ago))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_written_down_is_found_again_unless_the_calendar_was_set_back() {
        let now = Now { moment: Moment(500), timestamp: Timestamp(10_000) };
        assert_eq!(now.timestamp(Moment(400)), Timestamp(9_900));
        assert_eq!(now.timestamp(Moment(600)), Timestamp(10_100));
        assert_eq!(now.past(Timestamp(9_900)), Moment(400));
        assert_eq!(now.past(Timestamp(9_000)), Moment(-500), "before the boot");
        assert_eq!(now.past(Timestamp(99_000)), Moment(500), "set back");
    }
}
