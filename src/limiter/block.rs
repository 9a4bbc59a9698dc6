//! A block the service does not explain: 429 without `Retry-After` on one operation after the other. Pure.
//!
//! Taken slots are a matter of one operation; when calls of two operations are refused in a row and none is admitted
//! between, it is the account that is refused. Then every call may lengthen the block, so all of them wait, each wait
//! twice the last, and after it one goes alone. A 403 without explanation is a refused key, which has a silence and a
//! probe of its own ([`super::holds`]).

use crate::model::Operation;
use std::collections::BTreeSet;
use std::time::Duration;

/// So many refusals in a row, of at least so many operations, are a block.
const REFUSALS: u32 = 3;
const OPERATIONS: usize = 2;
/// The first silence and the longest: a block that lasts hours costs twelve calls an hour.
const SILENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5 * 60));

/// Refusals without an explanation, in a row.
#[derive(Debug, Default)]
pub(super) struct Block {
    refusals: u32,
    operations: BTreeSet<Operation>,
    silences: u32,
}

impl Block {
    /// A call was refused without an explanation: how long the account is silent, if that makes it a block.
    pub(super) fn refused(&mut self, operation: Operation) -> Option<Duration> {
        self.refusals = self.refusals.saturating_add(1);
        self.operations.insert(operation);
        if self.refusals < REFUSALS || self.operations.len() < OPERATIONS {
            return None;
        }
        let silence = SILENCE.0.saturating_mul(1 << self.silences.min(8)).min(SILENCE.1);
        self.silences += 1;
        Some(silence)
    }

    /// A call was admitted: there is no block.
    pub(super) fn admitted(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: Operation = Operation::UpdateQuantityOnHand;
    const READ: Operation = Operation::GetProductBalances;

    #[test]
    fn one_operation_refused_again_and_again_is_no_block() {
        let mut block = Block::default();
        assert!((0..50).all(|_| block.refused(PUSH).is_none()));
    }

    #[test]
    fn two_operations_in_a_row_are_one_and_each_silence_is_twice_the_last() {
        let mut block = Block::default();
        let seconds: Vec<_> = [PUSH, READ, PUSH, PUSH, READ, PUSH, PUSH, PUSH, PUSH, PUSH]
            .map(|operation| block.refused(operation).map_or(0, |silence| silence.as_secs()))
            .into();
        assert_eq!(seconds, [0, 0, 5, 10, 20, 40, 80, 160, 300, 300]);
        block.admitted();
        assert_eq!(block.refused(PUSH), None);
    }
}
