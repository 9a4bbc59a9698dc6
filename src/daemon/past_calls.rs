//! Reservations in the quota of the calls that earlier runs made, on this host or on another one.
//!
//! A call counts until 60 s after its answer (docs/rules.md 19). Moments of this boot show when that was. No clock of
//! another host decides: its calls were answered before the look at which this host, standing by, first saw their
//! answers in the journal. Differences of moments of one boot are durations and hold on every host. A call whose answer
//! came 20 s before that of a call which was seen was therefore answered at least 20 s before that look.

use super::standby::Looks;
use crate::limiter::PastReservation;
use crate::model::Moment;
use crate::store::UsedReservation;
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub(super) fn past_reservations(
    calls: &[UsedReservation],
    boot_id: &str,
    looks: Option<&Looks>,
    now: Moment,
) -> Vec<PastReservation> {
    let mut newest_first: Vec<&UsedReservation> = calls.iter().collect();
    newest_first.sort_by_key(|call| Reverse(call.answered_moment));
    // Milliseconds by which moments here are at most ahead of those of another boot. A host that was suspended as a
    // whole falls behind, so only calls that were answered later bound those before.
    let mut ahead_ms: BTreeMap<&str, i64> = BTreeMap::new();
    let reservations = newest_first.into_iter().map(|call| {
        let boot = call.boot_id.as_deref();
        let is_same_boot = boot == Some(boot_id);
        if !is_same_boot && looks.is_none() {
            return PastReservation::Answered(now);
        }
        let Some(answered) = call.answered_moment else {
            return PastReservation::GivenUp(call.operation, now);
        };
        if is_same_boot {
            return ended_call(call, answered);
        }
        let seen =
            looks.zip(call.ended).and_then(|(looks, ended)| looks.answered_before(ended)).unwrap_or(now);
        let Some(boot) = boot else { return ended_call(call, seen) };
        let ahead = seen.0.saturating_sub(answered.0);
        let least = ahead_ms.entry(boot).and_modify(|least| *least = ahead.min(*least)).or_insert(ahead);
        ended_call(call, Moment(answered.0.saturating_add(*least)))
    });
    reservations.collect()
}

fn ended_call(call: &UsedReservation, at: Moment) -> PastReservation {
    if call.is_given_up {
        PastReservation::GivenUp(call.operation, at)
    } else {
        PastReservation::Answered(at)
    }
}

#[cfg(test)]
mod tests {
    use super::PastReservation::{Answered, GivenUp};
    use super::*;
    use crate::model::{Operation, Position};

    const READ: Operation = Operation::GetProductBalances;
    const NOW: Moment = Moment(1_100_000);

    /// Returns a call of a boot, answered at a moment of that boot and at a position; 0: not answered.
    fn call(boot: &str, answered: i64, ended: i64) -> UsedReservation {
        UsedReservation {
            operation: READ,
            answered_moment: (ended > 0).then_some(Moment(answered)),
            is_given_up: false,
            boot_id: Some(boot.into()),
            ended: (ended > 0).then_some(Position(ended)),
        }
    }

    fn looks(seen: &[(i64, i64)]) -> Looks {
        let mut looks = Looks::default();
        seen.iter().for_each(|(at, position)| looks.note(Moment(*at), Position(*position)));
        looks
    }

    fn reservations(calls: &[UsedReservation], looks: Option<&Looks>) -> Vec<PastReservation> {
        past_reservations(calls, "ours", looks, NOW)
    }

    #[test]
    fn calls_of_this_boot_count_by_their_own_moments() {
        let calls = [call("ours", 0, 0), call("ours", 1_090_000, 9)];
        assert_eq!(reservations(&calls, None), [Answered(Moment(1_090_000)), GivenUp(READ, NOW)]);
    }

    #[test]
    fn without_looks_a_call_of_another_boot_was_answered_just_now() {
        let calls = [call("theirs", 0, 0), call("theirs", 70, 9)];
        assert_eq!(reservations(&calls, None), [Answered(NOW); 2]);
    }

    #[test]
    fn a_call_of_another_host_counts_from_the_look_that_showed_it_or_from_a_later_call_of_that_host() {
        // By its own clock the other host was answered at 70, 72, 100 and 102 s.
        let calls = [(102_000, 14), (100_000, 12), (72_000, 4), (70_000, 3)];
        let calls = calls.map(|(answered, ended)| call("theirs", answered, ended));
        let looks = looks(&[(1_097_000, 11), (1_099_000, 13)]);
        // The last one was seen by no look; the third and the fourth came 28 and 30 s before the second.
        let expected = [NOW.0, 1_098_000, 1_070_000, 1_068_000].map(|at| Answered(Moment(at)));
        assert_eq!(reservations(&calls, Some(&looks)), expected);
    }

    #[test]
    fn a_later_call_gives_no_bound_of_a_call_after_it() {
        // The other host was suspended for 5 s between its two calls, which its clock does not show.
        let calls = [call("theirs", 51_000, 20), call("theirs", 50_000, 10)];
        let looks = looks(&[(1_090_000, 10), (1_096_000, 20)]);
        let expected = [1_096_000, 1_090_000].map(|at| Answered(Moment(at)));
        assert_eq!(reservations(&calls, Some(&looks)), expected);
    }

    #[test]
    fn each_host_has_its_own_clock() {
        let calls = [call("theirs", 900_000_000, 12), call("third", 40_000, 10)];
        let looks = looks(&[(1_080_000, 10), (1_090_000, 12)]);
        let expected = [1_090_000, 1_080_000].map(|at| Answered(Moment(at)));
        assert_eq!(reservations(&calls, Some(&looks)), expected);
    }

    #[test]
    fn a_call_that_a_takeover_ended_keeps_its_slot_and_counts_from_the_look_that_showed_it() {
        let ended_by_another = UsedReservation { boot_id: None, is_given_up: true, ..call("", 5, 12) };
        let looks = looks(&[(1_080_000, 10), (1_090_000, 12)]);
        let calls = [ended_by_another, call("theirs", 0, 0)];
        assert_eq!(
            reservations(&calls, Some(&looks)),
            [GivenUp(READ, Moment(1_090_000)), GivenUp(READ, NOW)]
        );
    }
}
