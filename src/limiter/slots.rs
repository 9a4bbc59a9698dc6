//! Bounded number of calls in flight per operation (docs/interface.md, *Limits*: concurrency). Pure.
//!
//! The platform frees a slot, and we see only our side of it: after a timeout here the platform may still
//! work on the call. Such a call keeps its slot for a grace time.

use super::instant::AdmissionWait;
use crate::model::{Moment, Operation};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for which a call given up without an answer keeps its slot. A slot freed too early costs one 429
/// without `Retry-After`.
pub(super) const LINGER_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct OperationSlots {
    operations: BTreeMap<Operation, SlotUse>,
}

#[derive(Debug, Default)]
struct SlotUse {
    in_flight: u32,
    /// Times at which the slots of calls given up become free, oldest first.
    lingering: Vec<Moment>,
}

impl OperationSlots {
    pub(super) fn take_slot(&mut self, operation: Operation) {
        self.operations.entry(operation).or_default().in_flight += 1;
    }

    pub(super) fn release_slot(&mut self, operation: Operation) {
        if let Some(busy) = self.operations.get_mut(&operation) {
            busy.in_flight = busy.in_flight.saturating_sub(1);
        }
    }

    /// Keeps a slot of a call given up without an answer for the grace time.
    pub(super) fn add_lingering(&mut self, operation: Operation, now: Moment) {
        self.operations.entry(operation).or_default().lingering.push(now.plus(LINGER_TIME));
    }

    /// Returns the calls of this operation in flight, without those given up.
    pub(super) fn in_flight(&self, operation: Operation) -> u32 {
        self.operations.get(&operation).map_or(0, |busy| busy.in_flight)
    }

    pub(super) fn operations_in_flight(&self) -> impl Iterator<Item = Operation> {
        self.operations.iter().flat_map(|(operation, busy)| (0..busy.in_flight).map(|_| *operation))
    }

    pub(super) fn release_lingering(&mut self, now: Moment) {
        for busy in self.operations.values_mut() {
            busy.lingering.retain(|until| *until > now);
        }
    }

    /// Checks that one of `limit` slots is free. Otherwise returns the wait for the next slot given up.
    pub(super) fn check_slot(&self, operation: Operation, limit: u32) -> Result<(), AdmissionWait> {
        let Some(busy) = self.operations.get(&operation) else { return Ok(()) };
        let lingering = u32::try_from(busy.lingering.len()).unwrap_or(u32::MAX);
        if busy.in_flight.saturating_add(lingering) < limit {
            return Ok(());
        }
        Err(busy.lingering.first().map_or(AdmissionWait::Event, |until| AdmissionWait::Until(*until)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: Operation = Operation::UpdateQuantityOnHand;

    #[test]
    fn the_fourth_call_of_an_operation_waits_for_one_of_the_three_and_for_no_other_operation() {
        let mut slots = OperationSlots::default();
        for _ in 0..3 {
            assert_eq!(slots.check_slot(PUSH, 3), Ok(()));
            slots.take_slot(PUSH);
        }
        assert_eq!(slots.check_slot(PUSH, 3), Err(AdmissionWait::Event));
        assert_eq!(slots.check_slot(Operation::GetProducts, 3), Ok(()));
        slots.release_slot(PUSH);
        assert_eq!(slots.check_slot(PUSH, 3), Ok(()));
        assert_eq!(slots.operations_in_flight().collect::<Vec<_>>(), [PUSH, PUSH]);
    }

    #[test]
    fn a_call_given_up_keeps_its_slot_for_the_grace_time() {
        let mut slots = OperationSlots::default();
        slots.take_slot(PUSH);
        slots.add_lingering(PUSH, Moment(1_000));
        slots.release_slot(PUSH);
        assert_eq!(slots.in_flight(PUSH), 0);
        slots.release_lingering(Moment(5_999));
        assert_eq!(slots.check_slot(PUSH, 1), Err(AdmissionWait::Until(Moment(6_000))));
        slots.release_lingering(Moment(6_000));
        assert_eq!(slots.check_slot(PUSH, 1), Ok(()));
    }
}
