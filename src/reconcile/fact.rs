//! Whether a read of a cell is a fact (rules.md 5, 6).
//!
//! A read that overlaps a write of ours may show either side of it, and a late replica may show the old value
//! after it. Either, taken for a fact, would undo our write with the next adjust. Positions decide what was
//! before what; clock times never do. The clock only measures how long apart two looks are.

use crate::model::{Position, Quantity, Timestamp};
use std::time::Duration;

/// How far apart two looks must be for the second to confirm the first.
pub const LOOKS_APART: Duration = Duration::from_secs(5);

/// A read of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// When its exchange began, in the journal's order.
    pub began: Position,
    /// When its request was sent.
    pub sent_at: Timestamp,
    /// What it showed.
    pub quantity: Quantity,
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
    /// Whether a read after it was taken for a fact already.
    pub confirmed: bool,
    /// When the first read after it was sent that showed the value before, if one did.
    pub old_seen_at: Option<Timestamp>,
}

/// What a read is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The cell's fact.
    Fact,
    /// Not a fact: only evidence for settling the write it overlaps.
    Evidence,
    /// Perhaps a late replica: nothing is decided on it before a second read agrees.
    LookAgain {
        /// When the second may be sent.
        not_before: Timestamp,
    },
}

/// Judges a read of a cell by the cell's last write.
pub fn admit(read: &Read, write: Option<&LastWrite>) -> Admission {
    let Some(write) = write else { return Admission::Fact };
    if write.concluded.is_none_or(|concluded| read.began <= concluded) {
        return Admission::Evidence;
    }
    let shows_old = write.before == Some(read.quantity) && read.quantity != write.target;
    if write.confirmed || !shows_old {
        return Admission::Fact;
    }
    match write.old_seen_at {
        Some(first) if read.sent_at.since(first) >= LOOKS_APART => Admission::Fact,
        Some(first) => Admission::LookAgain { not_before: first.plus(LOOKS_APART) },
        None => Admission::LookAgain { not_before: read.sent_at.plus(LOOKS_APART) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Admission::{Evidence, Fact, LookAgain};

    /// 50 → 47, concluded at position 10.
    const WRITE: LastWrite = LastWrite {
        concluded: Some(Position(10)),
        before: Some(Quantity(50)),
        target: Quantity(47),
        confirmed: false,
        old_seen_at: None,
    };

    #[test]
    fn a_read_is_a_fact_unless_it_overlaps_a_write_or_may_come_from_a_late_replica() {
        let seen_at = |second: i64| LastWrite { old_seen_at: Some(Timestamp(second * 1000)), ..WRITE };
        let again = |second: i64| LookAgain { not_before: Timestamp(second * 1000) };
        let in_flight = LastWrite { concluded: None, ..WRITE };
        let confirmed = LastWrite { confirmed: true, ..WRITE };
        let unlinked = LastWrite { before: None, ..WRITE };
        let agreed = LastWrite { target: Quantity(50), ..WRITE };
        // (write, position and second of the read, what it shows)
        let cases = [
            ("never written", None, 1, 100, 50, Fact),
            ("the write is in flight or in doubt", Some(in_flight), 11, 100, 47, Evidence),
            ("begun before the write was answered", Some(WRITE), 9, 100, 47, Evidence),
            ("begun after it, shows it", Some(WRITE), 11, 100, 47, Fact),
            ("shows a sale after it", Some(WRITE), 11, 100, 46, Fact),
            ("shows the value before", Some(WRITE), 11, 100, 50, again(105)),
            ("again, too soon", Some(seen_at(100)), 12, 104, 50, again(105)),
            ("again, with the clock set back", Some(seen_at(100)), 12, 40, 50, again(105)),
            ("again, five seconds later", Some(seen_at(100)), 12, 105, 50, Fact),
            ("the replica caught up", Some(seen_at(100)), 12, 101, 47, Fact),
            ("later, back by a return", Some(confirmed), 20, 900, 50, Fact),
            ("was not linked before", Some(unlinked), 11, 100, 47, Fact),
            ("wrote what was there", Some(agreed), 11, 100, 50, Fact),
        ];
        for (name, write, position, second, quantity, expected) in cases {
            let read = Read {
                began: Position(position),
                sent_at: Timestamp(second * 1000),
                quantity: Quantity(quantity),
            };
            assert_eq!(admit(&read, write.as_ref()), expected, "{name}");
        }
    }
}
