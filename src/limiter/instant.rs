//! Instants on both clocks, and the end of a wait.

use crate::model::{Clock, Moment, Timestamp};

#[derive(Clone, Copy, Debug)]
pub(super) struct DualInstant {
    pub(super) moment: Moment,
    pub(super) timestamp: Timestamp,
}

impl DualInstant {
    pub(super) fn from_clock(clock: &dyn Clock) -> Self {
        Self { moment: clock.moment(), timestamp: clock.now() }
    }

    /// Returns the calendar time of a moment, past or future.
    pub(super) fn to_timestamp(self, moment: Moment) -> Timestamp {
        Timestamp(self.timestamp.0.saturating_add(moment.0.saturating_sub(self.moment.0)))
    }

    /// Returns the moment of a past timestamp, which may lie before the boot. A timestamp in the future,
    /// after a calendar step back, becomes now. A hold of an hour then ends at most an hour from now.
    pub(super) fn past_moment(self, timestamp: Timestamp) -> Moment {
        self.moment.minus(self.timestamp.duration_since(timestamp))
    }
}

/// Condition that a stopped call waits for. The order is that of the ends: an event is later than any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AdmissionWait {
    Until(Moment),
    /// An event, such as a completed call or a lifted hold. The cause of the event runs the admission loop.
    Event,
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
