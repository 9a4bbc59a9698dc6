//! Proof: the conditions under which an answer of the platform decides a change.
//!
//! A change is the only record that goods moved, so a change is rejected permanently only on proof. A change
//! without proof waits or is held, and continues by itself when the platform works again. Decisions on single
//! answers rejected adjusts after eight seconds of empty answers.

use crate::model::Moment;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Minimum distance of two answers that lack a record, to prove its absence.
///
/// A failing platform recovers in less time.
pub const ABSENCE_CHECKS_APART: Duration = Duration::from_secs(120);

/// The state of the integration key, as answers prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyState {
    /// Works: a well-formed 200 of an operation that needs the key.
    Works,
    /// Refused: a 401 or 403 that has no other meaning.
    Refused,
    /// Unknown: no answer, 5xx, 404, 429, a body of another form.
    NotKnown,
}

/// The meaning of a refusal that may concern the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// The content: the key worked before the call was sent and after the call was answered.
    Content,
    /// Unproved: the key works now, and nothing shows that it worked at the send. The call must be repeated.
    Unproved,
    Refused,
    NotKnown(String),
}

/// Judges the refusal of a call that was sent at `sent`. The key last worked at `worked_at`. A probe after
/// the refusal shows its state and the reason. Without `worked_at`, a key that returns between the refusal
/// and the probe would make the last call of the outage appear wrong.
pub(crate) fn judge_refusal(
    worked_at: Option<Moment>,
    sent: Moment,
    (key, why): (KeyState, String),
) -> RefusalCause {
    let worked_before =
        worked_at.is_some_and(|at| at <= sent && sent.duration_since(at) <= ABSENCE_CHECKS_APART);
    match key {
        KeyState::Works if worked_before => RefusalCause::Content,
        KeyState::Works => RefusalCause::Unproved,
        KeyState::Refused => RefusalCause::Refused,
        KeyState::NotKnown => RefusalCause::NotKnown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_means_the_content_only_if_the_key_worked_soon_before_the_call_and_after_it() {
        use RefusalCause::{Content, NotKnown, Refused, Unproved};
        let judge = |at, sent, key| judge_refusal(at, sent, (key, "HTTP 500".into()));
        let then = Moment(1_000_000);
        let (last_proof, a_moment) = (then.plus(ABSENCE_CHECKS_APART), Duration::from_millis(1));
        for (name, worked_at, sent, expected) in [
            ("nothing was probed yet", None, then, Unproved),
            ("just before", Some(then), then, Content),
            ("long before, but not too long", Some(then), last_proof, Content),
            ("too long before", Some(then), last_proof.plus(a_moment), Unproved),
            ("sent before the probe", Some(then), then.minus(a_moment), Unproved),
        ] {
            assert_eq!(judge(worked_at, sent, KeyState::Works), expected, "{name}");
        }
        assert_eq!(judge(Some(then), then, KeyState::Refused), Refused);
        assert_eq!(judge(Some(then), then, KeyState::NotKnown), NotKnown("HTTP 500".into()));
    }
}
