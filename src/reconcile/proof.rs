//! Proof: what an answer of the platform proves, and what it does not.
//!
//! A wish is the only record that goods moved, so it is refused for good only on proof. What is not proved waits or is
//! held, and goes on by itself when the platform is well again. The alternative, to believe each single answer, refused
//! movements after eight seconds of empty answers.

use crate::model::{Moment, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Two answers that lack the same record prove its absence only this far apart: a failing platform recovers in less.
pub const LOOKS_APART: Duration = Duration::from_secs(120);

/// An answer to a call for more SKUs than this may have been cut without a word, and proves no absence.
pub const TRUSTED_PAGE: usize = 25;

/// The time of a look: by the calendar, and since boot. Both must say that two looks lie apart, because a calendar that
/// is set makes minutes of seconds, and the time since boot begins anew with each boot and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Time at which its request was sent.
    pub at: Timestamp,
    /// The same since boot.
    pub moment: Moment,
}

impl Look {
    /// The look from which the time is measured: `earlier`, unless a clock went back behind it.
    pub fn first(self, earlier: Option<Look>) -> Look {
        earlier.filter(|earlier| earlier.at <= self.at && earlier.moment <= self.moment).unwrap_or(self)
    }

    /// True if this look proves a record absent that `first` lacked too; see [`is_absent`].
    pub fn proves_absent(self, first: Option<Look>, others_came: bool) -> bool {
        let is_late = first.is_some_and(|first| self.moment.since(first.moment) >= LOOKS_APART);
        is_late && is_absent(first.map(|first| first.at), self.at, others_came)
    }
}

/// The state of the integration key, as far as answers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// A well-formed 200 of an operation that needs it.
    Works,
    /// A 401 or 403 where it can mean nothing else.
    Refused,
    /// Anything else: no answer, 5xx, 404, 429, a body of another form.
    NotKnown,
}

/// True if a record is proved absent: an earlier answer lacked it too, at least [`LOOKS_APART`] before `look`, and this
/// answer held other records that were asked for. An unreadable record is not absent, and the caller does not ask.
pub fn is_absent(first: Option<Timestamp>, look: Timestamp, others_came: bool) -> bool {
    others_came && first.is_some_and(|first| look.since(first) >= LOOKS_APART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_takes_two_looks_minutes_apart_with_the_others_there() {
        let look = Timestamp(1_000_000);
        assert!(!is_absent(None, look, true), "one look proves nothing");
        assert!(!is_absent(Some(Timestamp(880_001)), look, true), "too soon after the first");
        assert!(is_absent(Some(Timestamp(880_000)), look, true));
        assert!(!is_absent(Some(Timestamp(0)), look, false), "an empty answer vouches for nothing");
    }

    #[test]
    fn both_clocks_must_say_that_two_looks_lie_apart() {
        let look = |at: i64, moment: i64| Look { at: Timestamp(at), moment: Moment(moment) };
        let second = look(1_000_000, 500_000);
        for (name, first, expected) in [
            ("both", look(880_000, 380_000), true),
            ("the calendar was set ahead", look(0, 499_000), false),
            ("the host was booted between them", look(880_000, 900_000), false),
            ("the calendar was set back", look(2_000_000, 380_000), false),
        ] {
            assert_eq!(second.proves_absent(Some(first), true), expected, "{name}");
        }
        assert_eq!(second.first(Some(look(880_000, 380_000))), look(880_000, 380_000));
        assert_eq!(second.first(Some(look(2_000_000, 380_000))), second, "the calendar was set back");
        assert_eq!(second.first(Some(look(880_000, 900_000))), second, "another boot");
    }
}
