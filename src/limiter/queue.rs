//! Queue of the waiting calls: lanes by priority, first come first served within a lane. Pure.
//!
//! A lane is a priority class. A strict order would let a busy lane starve the lanes behind it, so each lane
//! has a guaranteed part. Bulk calls get one turn in [`BULK_TURN`] from the operator's lane, polls one in
//! [`POLL_TURN`] from the pushes. A lane that cannot use its turn, because its operations are stopped or the
//! lane is held, does not delay the others.

use super::PacePayment;
use crate::model::{Lane, Operation};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// Number of turns of which one is a bulk call's while operators' calls wait too. An operator does not notice
/// a tenth, and a poll that waits for hours brings stale facts.
const BULK_TURN: u32 = 10;
/// Number of bulk turns of which one is a poll's while pushes wait too, so that facts stay minutes old.
const POLL_TURN: u32 = 5;

/// Id of a waiting call. Later calls have larger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TicketId(u64);

#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) ticket_id: TicketId,
    pub(super) operation: Operation,
    pub(super) lane: Lane,
    pub(super) pace: PacePayment,
    /// Notified when the call should check again.
    pub(super) notify: Arc<Notify>,
}

/// A lane that may take the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneTurn {
    pub(super) lane: Lane,
    /// True if the next turn is an operator's that bulk calls may take.
    is_owed: bool,
}

impl LaneTurn {
    /// Returns true for a bulk call in a turn of its own: it leaves the reserve free and is paced. A bulk
    /// call in an operator's turn does neither. Otherwise operators' calls that use up the minute in a rush
    /// would leave bulk calls one turn a minute.
    pub(super) fn follows_bulk_rules(self) -> bool {
        !self.is_owed && matches!(self.lane, Lane::Push | Lane::Poll)
    }
}

#[derive(Debug, Default)]
pub(super) struct CallQueue {
    lanes: [VecDeque<Waiter>; 4],
    last_ticket: u64,
    /// Operators' calls granted in a row while bulk calls waited.
    operators_in_a_row: u32,
    /// Pushes granted in a row while polls waited.
    pushes_in_a_row: u32,
}

impl CallQueue {
    /// Adds a call to the end of its lane, or before unpaid calls if its read has paid the pace. A write
    /// behind a backlog would make its freshness read worthless.
    pub(super) fn add_call(&mut self, operation: Operation, lane: Lane, pace: PacePayment) -> Waiter {
        self.last_ticket += 1;
        let ticket_id = TicketId(self.last_ticket);
        let waiter = Waiter { ticket_id, operation, lane, pace, notify: Arc::default() };
        let calls = &mut self.lanes[lane as usize];
        let paid = calls.iter().take_while(|before| before.pace == PacePayment::Paid).count();
        calls.insert(if pace == PacePayment::Paid { paid } else { calls.len() }, waiter.clone());
        waiter
    }

    /// Removes a call from its lane, if it still waits there.
    pub(super) fn remove_call(&mut self, ticket: TicketId) -> Option<Waiter> {
        self.lanes.iter_mut().find_map(|calls| {
            let index = calls.iter().position(|waiting| waiting.ticket_id == ticket)?;
            calls.remove(index)
        })
    }

    /// Removes a granted call and counts its turn.
    pub(super) fn grant_turn(&mut self, ticket: TicketId) -> Option<Waiter> {
        let waiting = self.remove_call(ticket)?;
        let polls_wait = self.waiting_count(Lane::Poll) > 0;
        let bulk_waits = polls_wait || self.waiting_count(Lane::Push) > 0;
        match waiting.lane {
            Lane::Probe => {}
            Lane::Operator => self.operators_in_a_row = count_in_a_row(self.operators_in_a_row, bulk_waits),
            Lane::Push => {
                self.operators_in_a_row = 0;
                self.pushes_in_a_row = count_in_a_row(self.pushes_in_a_row, polls_wait);
            }
            Lane::Poll => (self.operators_in_a_row, self.pushes_in_a_row) = (0, 0),
        }
        Some(waiting)
    }

    /// Returns the lanes in the order in which they may take the next turn.
    pub(super) fn next_turns(&self) -> [LaneTurn; 4] {
        let is_owed = self.operators_in_a_row >= BULK_TURN - 1;
        let polls_first = self.pushes_in_a_row >= POLL_TURN - 1;
        let [first, second] = if polls_first { [Lane::Poll, Lane::Push] } else { [Lane::Push, Lane::Poll] };
        let lanes = if is_owed {
            [Lane::Probe, first, second, Lane::Operator]
        } else {
            [Lane::Probe, Lane::Operator, first, second]
        };
        lanes.map(|lane| LaneTurn { lane, is_owed })
    }

    /// Returns the calls of one lane, the next one first.
    pub(super) fn lane_calls(&self, lane: Lane) -> &VecDeque<Waiter> {
        &self.lanes[lane as usize]
    }

    pub(super) fn waiting_count(&self, lane: Lane) -> usize {
        self.lane_calls(lane).len()
    }

    pub(super) fn oldest_waiter(&self) -> Option<&Waiter> {
        self.lanes.iter().flatten().min_by_key(|waiting| waiting.ticket_id)
    }
}

fn count_in_a_row(before: u32, others_wait: bool) -> u32 {
    if others_wait { before.saturating_add(1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Operation = Operation::WorkQueue;

    /// Grants `count` turns to lanes that always have a waiter. Returns the lanes in the order of their
    /// turns.
    fn granted_turns(lanes: &[Lane], count: usize) -> Vec<Lane> {
        let mut queue = CallQueue::default();
        for lane in lanes {
            (0..count).for_each(|_| drop(queue.add_call(CALL, *lane, PacePayment::Paced)));
        }
        let mut next = || {
            let number = queue
                .next_turns()
                .into_iter()
                .find_map(|turn| Some(queue.lane_calls(turn.lane).front()?.ticket_id));
            queue.grant_turn(number.unwrap()).unwrap().lane
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn the_more_urgent_lane_goes_first_and_each_lane_behind_it_has_its_floor() {
        let share = |lanes: &[Lane], lane| granted_turns(lanes, 100).iter().filter(|it| **it == lane).count();
        assert_eq!(share(Lane::ALL, Lane::Probe), 100, "probes are single calls, never a stream");
        let lanes = [Lane::Operator, Lane::Push, Lane::Poll];
        assert_eq!(lanes.map(|lane| share(&lanes, lane)), [90, 8, 2]);
        assert_eq!([Lane::Push, Lane::Poll].map(|lane| share(&lanes[1..], lane)), [80, 20]);
        let bulk_turns = [Lane::Push, Lane::Push, Lane::Push, Lane::Push, Lane::Poll, Lane::Push];
        assert_eq!(granted_turns(&lanes[1..], 6), bulk_turns);
    }

    #[test]
    fn a_turn_granted_while_no_other_call_waits_is_not_owed() {
        let mut queue = CallQueue::default();
        for _ in 0..50 {
            let number = queue.add_call(CALL, Lane::Operator, PacePayment::Paced).ticket_id;
            queue.grant_turn(number);
        }
        queue.add_call(CALL, Lane::Push, PacePayment::Paced);
        assert_eq!(queue.next_turns()[1], LaneTurn { lane: Lane::Operator, is_owed: false });
    }

    #[test]
    fn within_a_lane_the_first_come_goes_first_but_what_has_paid_goes_before_what_has_not() {
        let mut queue = CallQueue::default();
        let mut join = |pace| queue.add_call(CALL, Lane::Push, pace).ticket_id;
        let (one, two) = (join(PacePayment::Paced), join(PacePayment::Paced));
        let (paid, paid_later) = (join(PacePayment::Paid), join(PacePayment::Paid));
        let line: Vec<_> = queue.lane_calls(Lane::Push).iter().map(|waiting| waiting.ticket_id).collect();
        assert_eq!(line, [paid, paid_later, one, two]);
        assert_eq!(queue.oldest_waiter().map(|waiting| waiting.ticket_id), Some(one));
    }

    #[test]
    fn a_removed_call_is_gone() {
        let mut queue = CallQueue::default();
        let number = queue.add_call(CALL, Lane::Poll, PacePayment::Paced).ticket_id;
        assert!(queue.remove_call(number).is_some());
        assert!(queue.remove_call(number).is_none());
        assert!(queue.oldest_waiter().is_none());
    }
}
