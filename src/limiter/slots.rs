//! At most so many calls of one operation in flight (service-interface.md, *Limits*: concurrency). Pure.
//!
//! A slot is the service's to free, and we see only our end of it: when a call times out here, the service may still
//! be at work on it there. Such a call keeps its slot for a grace time.

use super::wait::Wait;
use crate::model::{Moment, Operation};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a call without an answer keeps its slot after we gave it up. The time-out has already been far longer
/// than the service's usual answer; a few seconds more cover what is under way, and the price of being wrong is one
/// 429 without `Retry-After`.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The slots of all operations.
#[derive(Debug, Default)]
pub(super) struct Slots {
    operations: BTreeMap<Operation, Busy>,
}

#[derive(Debug, Default)]
struct Busy {
    in_flight: u32,
    /// When the slots of calls given up are free; oldest first.
    lingering: Vec<Moment>,
}

impl Slots {
    /// Takes a slot.
    pub(super) fn take(&mut self, operation: Operation) {
        self.operations.entry(operation).or_default().in_flight += 1;
    }

    /// The call has concluded: its slot is free.
    pub(super) fn release(&mut self, operation: Operation) {
        if let Some(busy) = self.operations.get_mut(&operation) {
            busy.in_flight = busy.in_flight.saturating_sub(1);
        }
    }

    /// The call has been given up without an answer: its slot lingers.
    pub(super) fn release_late(&mut self, operation: Operation, now: Moment) {
        self.release(operation);
        self.linger(operation, now);
    }

    /// A call of an earlier run of the program that may still be at work.
    pub(super) fn linger(&mut self, operation: Operation, now: Moment) {
        self.operations.entry(operation).or_default().lingering.push(now.plus(GRACE));
    }

    /// Calls of this operation whose conclusion is to come; those given up are not among them.
    pub(super) fn in_flight(&self, operation: Operation) -> u32 {
        self.operations.get(&operation).map_or(0, |busy| busy.in_flight)
    }

    /// The operations with calls in flight, once for each call.
    pub(super) fn calls(&self) -> impl Iterator<Item = Operation> {
        self.operations.iter().flat_map(|(operation, busy)| (0..busy.in_flight).map(|_| *operation))
    }

    /// Forgets the calls given up whose grace is over.
    pub(super) fn sweep(&mut self, now: Moment) {
        for busy in self.operations.values_mut() {
            busy.lingering.retain(|until| *until > now);
        }
    }

    /// Whether one of `limit` slots is free; if not, when the next one that lingers is.
    pub(super) fn go(&self, operation: Operation, limit: u32) -> Result<(), Wait> {
        let Some(busy) = self.operations.get(&operation) else { return Ok(()) };
        let lingering = u32::try_from(busy.lingering.len()).unwrap_or(u32::MAX);
        if busy.in_flight.saturating_add(lingering) < limit {
            return Ok(());
        }
        Err(busy.lingering.first().map_or(Wait::Event, |until| Wait::Until(*until)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: Operation = Operation::UpdateQuantityOnHand;

    #[test]
    fn the_fourth_call_of_an_operation_waits_for_one_of_the_three_and_for_no_other_operation() {
        let mut slots = Slots::default();
        for _ in 0..3 {
            assert_eq!(slots.go(PUSH, 3), Ok(()));
            slots.take(PUSH);
        }
        assert_eq!(slots.go(PUSH, 3), Err(Wait::Event));
        assert_eq!(slots.go(Operation::GetProducts, 3), Ok(()));
        slots.release(PUSH);
        assert_eq!(slots.go(PUSH, 3), Ok(()));
        assert_eq!(slots.calls().collect::<Vec<_>>(), [PUSH, PUSH]);
    }

    #[test]
    fn a_call_given_up_keeps_its_slot_for_the_grace_time() {
        let mut slots = Slots::default();
        slots.take(PUSH);
        slots.release_late(PUSH, Moment(1_000));
        assert_eq!(slots.in_flight(PUSH), 0);
        slots.sweep(Moment(5_999));
        assert_eq!(slots.go(PUSH, 1), Err(Wait::Until(Moment(6_000))));
        slots.sweep(Moment(6_000));
        assert_eq!(slots.go(PUSH, 1), Ok(()));
    }
}
