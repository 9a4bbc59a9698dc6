//! Lockout of the account: 429 without `Retry-After` on several operations in a row. Pure.
//!
//! Slots in use concern one operation. If calls of two operations are refused in a row and none is admitted
//! between, the account itself is refused. Each further call may extend the lockout, so all calls wait, each
//! wait is twice the last, and then one call goes alone. A 403 without explanation is a refused key, which
//! has its own hold and probe ([`super::holds`]).

use crate::model::Operation;
use std::collections::BTreeSet;
use std::time::Duration;

/// Consecutive refusals, and distinct operations among them, that make a lockout.
const REFUSALS_MIN: u32 = 3;
const OPERATIONS_MIN: usize = 2;
/// First and longest wait. A lockout of hours then costs twelve calls an hour.
const LOCKOUT_WAIT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5 * 60));

/// Refusals since the last admitted call.
#[derive(Debug, Default)]
pub(super) struct Lockout {
    refusals: u32,
    operations: BTreeSet<Operation>,
    waits: u32,
}

impl Lockout {
    /// Records a refusal without an explanation. Returns the wait for the account if it makes a lockout.
    pub(super) fn record_refusal(&mut self, operation: Operation) -> Option<Duration> {
        self.refusals = self.refusals.saturating_add(1);
        self.operations.insert(operation);
        if self.refusals < REFUSALS_MIN || self.operations.len() < OPERATIONS_MIN {
            return None;
        }
        let wait = LOCKOUT_WAIT.0.saturating_mul(1 << self.waits.min(8)).min(LOCKOUT_WAIT.1);
        self.waits += 1;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: Operation = Operation::UpdateQuantityOnHand;
    const READ: Operation = Operation::GetProductBalances;

    #[test]
    fn one_operation_refused_again_and_again_is_no_block() {
        let mut lockout = Lockout::default();
        assert!((0..50).all(|_| lockout.record_refusal(PUSH).is_none()));
    }

    #[test]
    fn two_operations_in_a_row_are_one_and_each_silence_is_twice_the_last() {
        let mut lockout = Lockout::default();
        let seconds: Vec<_> = [PUSH, READ, PUSH, PUSH, READ, PUSH, PUSH, PUSH, PUSH, PUSH]
            .map(|operation| lockout.record_refusal(operation).map_or(0, |wait| wait.as_secs()))
            .into();
        assert_eq!(seconds, [0, 0, 5, 10, 20, 40, 80, 160, 300, 300]);
        lockout = Lockout::default();
        assert_eq!(lockout.record_refusal(PUSH), None);
    }
}
