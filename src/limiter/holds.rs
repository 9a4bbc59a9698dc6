//! The holds in force and the end of each. Pure.
//!
//! | set by | stops | ends |
//! | --- | --- | --- |
//! | 429 with `Retry-After` | the account | after that time |
//! | 403 with `Retry-After` | the account | after that time; then [`super::bad_requests`] applies |
//! | 429 without it | the operation | when one of its calls completes; with none in flight after 1 to 30 s |
//! | several operations refused so | the account | after 5 s, doubling to 5 min ([`super::lockout`]) |
//! | a refused key | all but the probe lane | when a probe has shown that the key works |
//!
//! A later answer may set a hold that ends later. It never extends the hold in force, which keeps its own
//! end, also over a restart.

use super::hold::{Hold, HoldReason, HoldScope};
use super::instant::{AdmissionWait, DualInstant};
use crate::model::time::DAY;
use crate::model::{Lane, Moment, Operation};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest and longest wait that the platform can order (docs/rules.md 19); `client/verdict.rs` keeps the
/// same limits.
const ORDERED_WAIT: (Duration, Duration) = (Duration::from_secs(1), DAY);
/// First and longest wait while another program has the slots (docs/rules.md 19).
const SHARED_SLOTS_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

#[derive(Debug, Default)]
pub(super) struct ActiveHolds {
    holds: BTreeMap<HoldScope, ActiveHold>,
    /// The platform does not accept the key: only calls of the probe lane go. Not stored, because the journal has the
    /// answer that refused it.
    pub(super) is_key_refused: bool,
}

#[derive(Clone, Debug)]
struct ActiveHold {
    reason: HoldReason,
    since: Moment,
    /// `None`: the hold ends by an event; that of slots when one of our calls completes.
    wait: Option<Duration>,
    /// Consecutive waits for slots without own calls in flight.
    waits: u32,
}

impl ActiveHold {
    fn new(reason: HoldReason, since: Moment, wait: Option<Duration>) -> Self {
        Self { reason, since, wait, waits: 0 }
    }

    fn end_moment(&self) -> Option<Moment> {
        self.wait.map(|wait| self.since.plus(wait))
    }
}

impl ActiveHolds {
    /// Sets a wait for the whole account. Returns false if a hold that ends later is in force already.
    pub(super) fn hold_account(&mut self, reason: HoldReason, wait: Duration, now: Moment) -> bool {
        let ordered = ActiveHold::new(reason, now, Some(wait.clamp(ORDERED_WAIT.0, ORDERED_WAIT.1)));
        let before = self.holds.get(&HoldScope::Account);
        let longer = before.is_none_or(|before| before.end_moment() < ordered.end_moment());
        if longer {
            self.holds.insert(HoldScope::Account, ordered);
        }
        longer
    }

    /// Records a 429 without `Retry-After` for a call granted at `granted`, with `others` of our
    /// calls still in flight. Returns true if this set a hold. Calls in flight together are refused
    /// together and set the hold once.
    pub(super) fn hold_shared_operation(
        &mut self,
        operation: Operation,
        others: u32,
        granted: Moment,
        now: Moment,
    ) -> bool {
        let before = self.holds.get(&HoldScope::Slots(operation));
        let is_known = before.is_some_and(|held| match held.wait {
            Some(_) => granted <= held.since,
            None => others > 0,
        });
        if is_known {
            return false;
        }
        let mut next = ActiveHold::new(HoldReason::Concurrency, now, None);
        next.waits = before.map_or(0, |held| held.waits);
        if others == 0 {
            let wait = SHARED_SLOTS_WAIT.0.saturating_mul(1 << next.waits.min(5)).min(SHARED_SLOTS_WAIT.1);
            (next.waits, next.wait) = (next.waits + 1, Some(wait));
        }
        self.holds.insert(HoldScope::Slots(operation), next);
        true
    }

    /// Records the end of a call. `admitted`: the platform had a slot for the
    /// call, so the doubling starts anew.
    pub(super) fn record_completion(&mut self, operation: Operation, admitted: bool) {
        let target = HoldScope::Slots(operation);
        if admitted || self.holds.get(&target).is_some_and(|held| held.wait.is_none()) {
            self.holds.remove(&target);
        }
    }

    /// Ends the account's wait by an operator's decision. Returns the reason if a wait was in force.
    pub(super) fn lift_order(&mut self, now: Moment) -> Option<HoldReason> {
        let lifted = self.holds.remove(&HoldScope::Account)?;
        (lifted.end_moment() > Some(now)).then_some(lifted.reason)
    }

    pub(super) fn check_lane(&self, lane: Lane, now: Moment) -> Result<(), AdmissionWait> {
        if self.is_key_refused && lane != Lane::Probe {
            return Err(AdmissionWait::Event);
        }
        match self.holds.get(&HoldScope::Account).and_then(ActiveHold::end_moment) {
            Some(end) if end > now => Err(AdmissionWait::Until(end)),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn check_operation(
        &self,
        operation: Operation,
        in_flight: u32,
        now: Moment,
    ) -> Result<(), AdmissionWait> {
        let Some(held) = self.holds.get(&HoldScope::Slots(operation)) else { return Ok(()) };
        match held.end_moment() {
            Some(end) if end > now => Err(AdmissionWait::Until(end)),
            // Without a call in flight no completion would ever end the wait.
            None if in_flight > 0 => Err(AdmissionWait::Event),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the holds in force: the account first, then operations.
    pub(super) fn active_holds(&self, now: DualInstant) -> Vec<Hold> {
        let active =
            self.holds.iter().filter(|(_, hold)| hold.end_moment().is_none_or(|end| end > now.moment));
        let shown = active.map(|(scope, hold)| Hold {
            scope: *scope,
            reason: hold.reason,
            since: now.to_timestamp(hold.since),
            duration_ms: hold.wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        });
        shown.collect()
    }

    /// Restores the waits of an earlier run, each with its original end. What ends by an event began in that run.
    pub(super) fn from_persisted(stored: &[Hold], now: DualInstant) -> Self {
        let waits = stored.iter().filter_map(|hold| {
            let wait = Duration::from_millis(hold.duration_ms?);
            let active = ActiveHold::new(hold.reason, now.past_moment(hold.since), Some(wait));
            Some((hold.scope, active))
        });
        Self { holds: waits.collect(), is_key_refused: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;

    const PUSH: Operation = Operation::UpdateQuantityOnHand;
    const READ: Operation = Operation::GetProductBalances;

    fn now(ms: i64) -> DualInstant {
        DualInstant { moment: Moment(ms), timestamp: Timestamp(1_000_000 + ms) }
    }

    fn second(n: i64) -> Moment {
        Moment(n * 1000)
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn an_ordered_wait_stops_every_lane_and_is_a_second_at_least_and_a_day_at_most() {
        let cases = [(0, 1), (7, 7), (86_400, 86_400), (999_999, 86_400)];
        for (asked, waited) in cases {
            let mut holds = ActiveHolds::default();
            assert!(holds.hold_account(HoldReason::Rate, seconds(asked), second(0)));
            let until = Err(AdmissionWait::Until(second(waited)));
            for lane in Lane::ALL.iter().copied() {
                assert_eq!(holds.check_lane(lane, second(0)), until, "{asked} s");
                assert_eq!(holds.check_lane(lane, second(waited)), Ok(()), "{asked} s");
            }
        }
    }

    #[test]
    fn of_two_ordered_waits_the_one_that_ends_later_stands() {
        let mut holds = ActiveHolds::default();
        assert!(holds.hold_account(HoldReason::BadRequests, seconds(60), second(0)));
        assert!(!holds.hold_account(HoldReason::Rate, seconds(5), second(10)));
        assert_eq!(holds.check_lane(Lane::Poll, second(20)), Err(AdmissionWait::Until(second(60))));
        assert!(holds.hold_account(HoldReason::Rate, seconds(60), second(10)));
        assert_eq!(holds.check_lane(Lane::Poll, second(60)), Err(AdmissionWait::Until(second(70))));
    }

    #[test]
    fn an_ordered_wait_ends_by_a_decision_and_the_next_one_holds() {
        let mut holds = ActiveHolds::default();
        assert!(holds.hold_account(HoldReason::Rate, seconds(86_400), second(0)));
        assert_eq!(holds.lift_order(second(5)), Some(HoldReason::Rate));
        assert_eq!(holds.check_lane(Lane::Poll, second(5)), Ok(()));
        assert_eq!(holds.lift_order(second(5)), None, "none is left");
        assert!(holds.hold_account(HoldReason::Rate, seconds(60), second(6)));
        assert_eq!(holds.check_lane(Lane::Poll, second(6)), Err(AdmissionWait::Until(second(66))));
        assert_eq!(holds.lift_order(second(66)), None, "it is over");
    }

    #[test]
    fn taken_slots_stop_one_operation_until_one_of_its_calls_completes() {
        let mut holds = ActiveHolds::default();
        assert!(holds.hold_shared_operation(PUSH, 1, second(0), second(1)));
        assert_eq!(holds.check_operation(PUSH, 1, second(1)), Err(AdmissionWait::Event));
        assert_eq!(holds.check_operation(READ, 1, second(1)), Ok(()));
        assert_eq!(holds.check_operation(PUSH, 0, second(1)), Ok(()), "nothing is left that could complete");
        holds.record_completion(PUSH, false);
        assert_eq!(holds.check_operation(PUSH, 1, second(1)), Ok(()));
    }

    #[test]
    fn with_none_of_ours_in_flight_the_wait_doubles_up_to_half_a_minute_and_an_admitted_call_ends_that() {
        let mut holds = ActiveHolds::default();
        let mut at = 0;
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            assert!(holds.hold_shared_operation(PUSH, 0, second(at), second(at)));
            let until = Err(AdmissionWait::Until(second(at + wait)));
            assert_eq!(holds.check_operation(PUSH, 0, second(at)), until);
            at += wait;
        }
        holds.record_completion(PUSH, true);
        assert!(holds.hold_shared_operation(PUSH, 0, second(at), second(at)));
        assert_eq!(holds.check_operation(PUSH, 0, second(at)), Err(AdmissionWait::Until(second(at + 1))));
    }

    #[test]
    fn calls_refused_together_double_the_wait_once() {
        let mut holds = ActiveHolds::default();
        assert!(holds.hold_shared_operation(PUSH, 2, second(0), second(1)));
        assert!(!holds.hold_shared_operation(PUSH, 1, second(0), second(1)), "still waits for the last one");
        assert!(holds.hold_shared_operation(PUSH, 0, second(0), second(1)), "only time can end it now");
        assert!(!holds.hold_shared_operation(PUSH, 0, second(1), second(1)));
        assert_eq!(holds.check_operation(PUSH, 0, second(1)), Err(AdmissionWait::Until(second(2))));
    }

    #[test]
    fn a_refused_key_lets_only_the_probe_through_until_it_is_lifted() {
        let mut holds = ActiveHolds { is_key_refused: true, ..ActiveHolds::default() };
        for lane in Lane::ALL.iter().copied() {
            let is_probe = lane == Lane::Probe;
            assert_eq!(holds.check_lane(lane, second(9_999)).is_ok(), is_probe, "{lane}");
        }
        holds.is_key_refused = false;
        assert_eq!(holds.check_lane(Lane::Poll, second(9_999)), Ok(()));
    }

    #[test]
    fn after_a_restart_every_wait_keeps_its_own_end_and_nothing_waits_for_an_event_of_before() {
        let mut holds = ActiveHolds::default();
        holds.hold_account(HoldReason::BadRequests, seconds(600), second(0));
        holds.is_key_refused = true;
        holds.hold_shared_operation(PUSH, 1, second(2), second(2));
        holds.hold_shared_operation(READ, 0, second(3), second(3));
        let stored = holds.active_holds(now(3_000));
        let scopes: Vec<_> = stored.iter().map(|hold| hold.scope).collect();
        assert_eq!(scopes, [HoldScope::Account, HoldScope::Slots(PUSH), HoldScope::Slots(READ)]);

        let restored = ActiveHolds::from_persisted(&stored, now(300_000));
        assert_eq!(restored.active_holds(now(3_000)), [stored[0].clone(), stored[2].clone()]);
        assert_eq!(restored.check_lane(Lane::Probe, second(300)), Err(AdmissionWait::Until(second(600))));
        assert_eq!(restored.check_lane(Lane::Poll, second(600)), Ok(()));
        assert_eq!(restored.check_operation(PUSH, 1, second(300)), Ok(()));
        assert_eq!(restored.active_holds(now(600_000)), [], "what is over is not shown");
    }

    #[test]
    fn a_hold_that_seems_to_lie_ahead_lasts_no_longer_than_it_was_set_for() {
        let mut holds = ActiveHolds::default();
        holds.hold_account(HoldReason::Rate, seconds(60), second(0));
        let mut stored = holds.active_holds(now(0));
        stored[0].since = Timestamp(i64::MAX / 2);
        let restored = ActiveHolds::from_persisted(&stored, now(5_000));
        assert_eq!(restored.check_lane(Lane::Poll, second(5)), Err(AdmissionWait::Until(second(65))));
    }
}
