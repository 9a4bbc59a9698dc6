//! Decides if a read is a fact, and which accepted writes are checked (docs/rules.md 3).
//!
//! A read that overlaps a write may show the quantity before or after the write. A late replica may show the
//! old quantity after the write. Such a quantity, taken for a fact, would undo the write with the next
//! adjust. Positions decide the order, never clock times. The clock only measures the distance of two reads.
//!
//! Limit: another client may restore the very quantity before the write, before the first read. This looks
//! like a write that the platform dropped. Therefore a contradiction is a conflict only if the write was
//! checked within seconds ([`needs_read_back`]). Otherwise the quantity is taken for a change by others.

use crate::model::{ExchangeId, Position, Quantity, Timestamp};
use std::time::Duration;

/// Minimum distance of two reads that confirm each other, and of the first from the write's answer.
pub(crate) const READS_APART: Duration = Duration::from_secs(5);

/// Sample of the writes that no other criterion selects: one of 50 is checked.
///
/// An account with 1,000 writes a day is checked 20 times a day, with less than a call for each write.
const SAMPLE_ONE_IN: i64 = 50;

/// A read of a stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StockLevelRead {
    /// Position at which its exchange began.
    pub began: Position,
    pub sent_at: Timestamp,
    /// Shown quantity; `None` for the product without this warehouse.
    pub quantity: Option<Quantity>,
}

/// The last write of a stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastWrite {
    /// Position at which the write was completed; `None` while it is in flight or in doubt.
    pub completed: Option<Position>,
    /// Used fact; `None` if the warehouse was not linked.
    pub before: Option<Quantity>,
    pub target: Quantity,
    /// True if the write was accepted and no later read was taken for a fact.
    pub is_unconfirmed: bool,
    /// Request time of the first later read that did not show the write.
    pub first_mismatch_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAdmission {
    Fact,
    /// A fact: two reads agree that the platform does not show the accepted quantity.
    Contradiction,
    /// No fact, only evidence for the settlement of the overlapping write.
    Evidence,
    /// Possibly a late replica: no decision before a second read agrees.
    ReadAgain {
        /// Earliest time of the second read.
        not_before: Timestamp,
    },
}

/// Judges a read of a stock level by the last write.
pub(crate) fn admit_read(read: &StockLevelRead, write: &LastWrite) -> ReadAdmission {
    if write.completed.is_none_or(|completed| read.began <= completed) {
        return ReadAdmission::Evidence;
    }
    if !write.is_unconfirmed || !write.is_contradicted_by(read.quantity) {
        return ReadAdmission::Fact;
    }
    match write.first_mismatch_at {
        Some(first) if read.sent_at.duration_since(first) >= READS_APART => ReadAdmission::Contradiction,
        // A calendar that was set back, or another host's calendar, restarts the five seconds.
        Some(first) => ReadAdmission::ReadAgain { not_before: first.min(read.sent_at).plus(READS_APART) },
        None => ReadAdmission::ReadAgain { not_before: read.sent_at.plus(READS_APART) },
    }
}

impl LastWrite {
    /// Returns true if `shown` contradicts the write.
    ///
    /// A contradiction is the quantity before the write, or a positive quantity after a write of zero. Any
    /// other quantity may be a change by others. Nothing is sold from a stock level of zero.
    fn is_contradicted_by(&self, shown: Option<Quantity>) -> bool {
        let sells_nothing = self.target == Quantity(0) && shown > Some(Quantity(0));
        shown != Some(self.target) && (shown == self.before || sells_nothing)
    }
}

/// An accepted write, as the choice of checks needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedWrite {
    pub exchange_id: ExchangeId,
    pub warehouse_id: i64,
    pub before: Option<Quantity>,
    pub target: Quantity,
    /// True if an earlier write of the stock level was seen at the platform.
    pub is_proven: bool,
}

/// Returns true if the accepted write is checked at the platform.
///
/// A write that does not change the quantity is not checked. All writes of zero are checked, and a sample of
/// the others. All writes of a stock level are checked until one was seen to take effect, because its product
/// may be an unknown kit. The sample depends only on the journal, so that a replay gives the same.
pub(crate) fn needs_read_back(write: &AcceptedWrite) -> bool {
    if write.before == Some(write.target) {
        return false;
    }
    let drawn = write.exchange_id.0.wrapping_mul(31) ^ write.target.0.wrapping_mul(17) ^ write.warehouse_id;
    write.target == Quantity(0) || !write.is_proven || drawn.rem_euclid(SAMPLE_ONE_IN) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReadAdmission::{Contradiction, Evidence, Fact, ReadAgain};

    /// A write from 50 to 47, completed at position 10.
    const WRITE: LastWrite = LastWrite {
        completed: Some(Position(10)),
        before: Some(Quantity(50)),
        target: Quantity(47),
        is_unconfirmed: true,
        first_mismatch_at: None,
    };

    #[test]
    fn a_read_is_a_fact_unless_it_overlaps_a_write_or_may_come_from_a_late_replica() {
        let doubted = |second: i64| LastWrite { first_mismatch_at: Some(Timestamp(second * 1000)), ..WRITE };
        let again = |second: i64| ReadAgain { not_before: Timestamp(second * 1000) };
        let in_flight = LastWrite { completed: None, ..WRITE };
        let seen = LastWrite { is_unconfirmed: false, ..WRITE };
        let unlinked = LastWrite { before: None, ..WRITE };
        let same = LastWrite { target: Quantity(50), ..WRITE };
        let zero = LastWrite { target: Quantity(0), ..WRITE };
        let zero_doubted = LastWrite { first_mismatch_at: Some(Timestamp(100_000)), ..zero };
        // Columns: name, write, position and second of the read, shown quantity (-1: no link), expected use.
        let cases = [
            ("the write is in flight or in doubt", in_flight, 11, 100, 47, Evidence),
            ("begun before the write was answered", WRITE, 9, 100, 47, Evidence),
            ("begun after it, shows it", WRITE, 11, 100, 47, Fact),
            ("shows a sale after it", WRITE, 11, 100, 46, Fact),
            ("shows the value before", WRITE, 11, 100, 50, again(105)),
            ("again, too soon", doubted(100), 12, 104, 50, again(105)),
            ("again, with the clock set back", doubted(100), 12, 40, 50, again(45)),
            ("again, five seconds later", doubted(100), 12, 105, 50, Contradiction),
            ("the replica caught up", doubted(100), 12, 101, 47, Fact),
            ("something moved meanwhile", doubted(100), 12, 101, 49, Fact),
            ("later, back by a return", seen, 20, 900, 50, Fact),
            ("was not linked before and is", unlinked, 11, 100, 47, Fact),
            ("was not linked before and is not", unlinked, 11, 100, -1, again(105)),
            ("the link is gone", WRITE, 11, 100, -1, Fact),
            ("wrote what was there", same, 11, 100, 50, Fact),
            ("a zero is oversold", zero, 11, 100, -2, Fact),
            ("a zero that is none", zero, 11, 100, 3, again(105)),
            ("a zero that is none again", zero_doubted, 11, 105, 2, Contradiction),
        ];
        for (name, write, position, second, shown, expected) in cases {
            let quantity = (shown != -1).then_some(Quantity(shown));
            let read =
                StockLevelRead { began: Position(position), sent_at: Timestamp(second * 1000), quantity };
            assert_eq!(admit_read(&read, &write), expected, "{name}");
        }
    }

    const ACCEPTED: AcceptedWrite = AcceptedWrite {
        exchange_id: ExchangeId(1),
        warehouse_id: 1,
        before: Some(Quantity(50)),
        target: Quantity(47),
        is_proven: true,
    };

    #[test]
    fn zeros_and_unproved_stock_levels_are_read_back() {
        assert!(!needs_read_back(&ACCEPTED));
        assert!(needs_read_back(&AcceptedWrite { target: Quantity(0), ..ACCEPTED }));
        assert!(needs_read_back(&AcceptedWrite { is_proven: false, ..ACCEPTED }));
        let nothing = AcceptedWrite { before: Some(Quantity(0)), target: Quantity(0), ..ACCEPTED };
        assert!(!needs_read_back(&nothing), "what changes nothing proves nothing");
    }

    #[test]
    fn of_the_rest_about_one_in_fifty_is_looked_for_and_always_the_same() {
        let writes = (1..=200).flat_map(|exchange| {
            let write = move |target| AcceptedWrite {
                exchange_id: ExchangeId(exchange),
                target: Quantity(target),
                ..ACCEPTED
            };
            (1..=25).map(write)
        });
        let drawn = writes.filter(needs_read_back).count();
        assert!((60..=140).contains(&drawn), "{drawn} of 5000");
    }
}
