//! Proof: what an answer of the platform proves, and what it does not.
//!
//! A wish is the only record that goods moved, so it is refused for good only on proof. What is not proved waits or is
//! held, and goes on by itself when the platform is well again. The alternative, to believe each single answer, refused
//! movements after eight seconds of empty answers.

use crate::model::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Two answers that lack the same record prove its absence only this far apart: a failing platform recovers in less.
pub const LOOKS_APART: Duration = Duration::from_secs(120);

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

/// True if a refusal proves that the change itself is wrong: the key works, and the answer names the entry by its index
/// or came to a call that held nothing else.
pub fn is_wrong(key: Key, is_named: bool, is_alone: bool) -> bool {
    key == Key::Works && (is_named || is_alone)
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
    fn a_change_is_wrong_only_if_the_key_works_and_the_refusal_can_mean_nothing_else() {
        assert!(is_wrong(Key::Works, true, false));
        assert!(is_wrong(Key::Works, false, true));
        assert!(!is_wrong(Key::Works, false, false));
        for key in [Key::Refused, Key::NotKnown] {
            assert!(!is_wrong(key, true, true), "{key:?}");
        }
    }
}
