//! Whether a read of a cell is a fact (rules.md 5, 6), and which accepted writes are looked for.
//!
//! A read that overlaps a write of ours may show either side of it, and a late replica may show the old value
//! after it. Either, taken for a fact, would undo our write with the next adjust. Positions decide what was
//! before what; clock times never do. The clock only measures how long apart two looks are.
//!
//! What this cannot tell: somebody who puts the cell back to the very value it had, before the first read, looks like
//! a service that dropped our write. So a contradiction is a conflict only where the write was looked for within
//! seconds ([`is_looked_for`]); elsewhere it is taken for what others did.

use crate::model::{ExchangeId, Position, Quantity, Timestamp};
use std::time::Duration;

/// How far apart two looks must be for the second to confirm the first, and the first from the write's answer.
pub const LOOKS_APART: Duration = Duration::from_secs(5);

/// Of the writes that nothing else singles out, one in so many is looked for: a shop that writes 1,000 cells a day has
/// its service proved 20 times a day, for far less than a call each.
const SAMPLE_ONE_IN: i64 = 50;

/// A read of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// When its exchange began, in the journal's order.
    pub began: Position,
    /// When its request was sent.
    pub sent_at: Timestamp,
    /// What it showed; none: the product without this warehouse.
    pub quantity: Option<Quantity>,
}

/// The last write of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// When it was concluded; none while it is in flight or in doubt.
    pub concluded: Option<Position>,
    /// The fact used; none where the warehouse was not linked.
    pub before: Option<Quantity>,
    /// What was written.
    pub target: Quantity,
    /// Whether it was accepted, and no read since was taken for a fact.
    pub is_unseen: bool,
    /// When the first read after it was sent that did not show it.
    pub doubted_at: Option<Timestamp>,
}

/// What a read is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The cell's fact.
    Fact,
    /// The cell's fact: two looks agree that the service does not show what it accepted.
    Contradiction,
    /// Not a fact: only evidence for settling the write it overlaps.
    Evidence,
    /// Perhaps a late replica: nothing is decided on it before a second read agrees.
    LookAgain {
        /// When the second may be sent.
        not_before: Timestamp,
    },
}

/// Judges a read of a cell by the cell's last write.
pub fn admit(read: &Read, write: &LastWrite) -> Admission {
    if write.concluded.is_none_or(|concluded| read.began <= concluded) {
        return Admission::Evidence;
    }
    if !write.is_unseen || !write.is_contradicted_by(read.quantity) {
        return Admission::Fact;
    }
    match write.doubted_at {
        Some(first) if read.sent_at.since(first) >= LOOKS_APART => Admission::Contradiction,
        // A calendar that was set back, or that of another host, begins the five seconds anew.
        Some(first) => Admission::LookAgain { not_before: first.min(read.sent_at).plus(LOOKS_APART) },
        None => Admission::LookAgain { not_before: read.sent_at.plus(LOOKS_APART) },
    }
}

impl LastWrite {
    /// Anything but the value before may be what others did since; nobody sells from a cell that is empty.
    fn is_contradicted_by(&self, shown: Option<Quantity>) -> bool {
        let sells_nothing = self.target == Quantity(0) && shown > Some(Quantity(0));
        shown != Some(self.target) && (shown == self.before || sells_nothing)
    }
}

/// An accepted write of a cell, as far as looking for it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedWrite {
    /// The exchange that carried it.
    pub exchange: ExchangeId,
    /// The warehouse.
    pub warehouse_id: i64,
    /// The fact used.
    pub before: Option<Quantity>,
    /// What was written.
    pub target: Quantity,
    /// Whether a write of the cell showed at the service before.
    pub is_proven: bool,
}

/// Whether an accepted write is looked for at the service: every zero, every cell of which none was ever seen to
/// take effect (the first, and a kit nobody knows to be one), and a sample of the rest. The same after a replay: the
/// sample is drawn from what the journal tells.
pub fn is_looked_for(write: &AcceptedWrite) -> bool {
    if write.before == Some(write.target) {
        return false;
    }
    let drawn = write.exchange.0.wrapping_mul(31) ^ write.target.0.wrapping_mul(17) ^ write.warehouse_id;
    write.target == Quantity(0) || !write.is_proven || drawn.rem_euclid(SAMPLE_ONE_IN) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use Admission::{Contradiction, Evidence, Fact, LookAgain};

    /// 50 → 47, concluded at position 10.
    const WRITE: LastWrite = LastWrite {
        concluded: Some(Position(10)),
        before: Some(Quantity(50)),
        target: Quantity(47),
        is_unseen: true,
        doubted_at: None,
    };

    #[test]
    fn a_read_is_a_fact_unless_it_overlaps_a_write_or_may_come_from_a_late_replica() {
        let doubted = |second: i64| LastWrite { doubted_at: Some(Timestamp(second * 1000)), ..WRITE };
        let again = |second: i64| LookAgain { not_before: Timestamp(second * 1000) };
        let in_flight = LastWrite { concluded: None, ..WRITE };
        let seen = LastWrite { is_unseen: false, ..WRITE };
        let unlinked = LastWrite { before: None, ..WRITE };
        let same = LastWrite { target: Quantity(50), ..WRITE };
        let zero = LastWrite { target: Quantity(0), ..WRITE };
        let zero_doubted = LastWrite { doubted_at: Some(Timestamp(100_000)), ..zero };
        // (write, position and second of the read, what it shows; -1 for the product without this warehouse)
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
            let read = Read { began: Position(position), sent_at: Timestamp(second * 1000), quantity };
            assert_eq!(admit(&read, &write), expected, "{name}");
        }
    }

    const ACCEPTED: AcceptedWrite = AcceptedWrite {
        exchange: ExchangeId(1),
        warehouse_id: 1,
        before: Some(Quantity(50)),
        target: Quantity(47),
        is_proven: true,
    };

    #[test]
    fn zeros_and_cells_never_seen_to_follow_are_looked_for() {
        assert!(!is_looked_for(&ACCEPTED));
        assert!(is_looked_for(&AcceptedWrite { target: Quantity(0), ..ACCEPTED }));
        assert!(is_looked_for(&AcceptedWrite { is_proven: false, ..ACCEPTED }));
        let nothing = AcceptedWrite { before: Some(Quantity(0)), target: Quantity(0), ..ACCEPTED };
        assert!(!is_looked_for(&nothing), "what changes nothing proves nothing");
    }

    #[test]
    fn of_the_rest_about_one_in_fifty_is_looked_for_and_always_the_same() {
        let writes = (1..=200).flat_map(|exchange| {
            let write = move |target| AcceptedWrite {
                exchange: ExchangeId(exchange),
                target: Quantity(target),
                ..ACCEPTED
            };
            (1..=25).map(write)
        });
        let drawn = writes.filter(is_looked_for).count();
        assert!((60..=140).contains(&drawn), "{drawn} of 5000");
    }
}
