//! Settling: what became of a request whose answer is lost (rules.md 7, 8).
//!
//! *Landed* may be decided at once. *Not landed* is decided only after two looks, both after a quiet time from
//! the send: a request that timed out may still be carried out, and a second one would then ship a second parcel.

use super::fact::LOOKS_APART;
use super::proof;
use crate::model::{Quantity, Timestamp};
use crate::outbox::Reason;
use std::time::Duration;

/// Quiet time of creates: a second parcel costs more than ten minutes.
pub const QUIET_CREATE: Duration = Duration::from_secs(600);

/// Least quiet time of quantities.
const QUIET_QUANTITY_MIN: Duration = Duration::from_secs(5);

/// How many other entries must have landed to speak for the whole call.
const WITNESSES_MIN: usize = 3;

/// Quiet time of quantity writes sent with `timeout`.
pub fn quiet_quantity(timeout: Duration) -> Duration {
    timeout.saturating_mul(2).max(QUIET_QUANTITY_MIN)
}

/// What became of a wish in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement<T> {
    /// It was done.
    Landed(T),
    /// It was not, and will not be.
    NotLanded,
    /// Not yet known.
    LookAgain {
        /// When the next look may be sent.
        not_before: Timestamp,
    },
    /// Looking further tells nothing.
    Undecided {
        /// [`Reason::LandedOrAnother`]: it stays in doubt. Any other: it is held.
        reason: Reason,
        /// The evidence.
        detail: String,
    },
}

impl<T> Settlement<T> {
    /// The same judgement with another word on what landed.
    pub fn map<U>(self, landed: impl FnOnce(T) -> U) -> Settlement<U> {
        match self {
            Settlement::Landed(what) => Settlement::Landed(landed(what)),
            Settlement::NotLanded => Settlement::NotLanded,
            Settlement::LookAgain { not_before } => Settlement::LookAgain { not_before },
            Settlement::Undecided { reason, detail } => Settlement::Undecided { reason, detail },
        }
    }
}

/// Judges a request sent at `sent_at` of which the latest looks, sent at `absent_at` (oldest first), all showed
/// nothing. Two of them must lie `apart`: [`LOOKS_APART`] where the record came and shows nothing new, and
/// [`proof::LOOKS_APART`](super::proof::LOOKS_APART) where no record came at all.
pub(super) fn absent<T>(
    absent_at: &[Timestamp],
    sent_at: Timestamp,
    quiet: Duration,
    apart: Duration,
) -> Settlement<T> {
    let quiet_until = sent_at.plus(quiet);
    let mut looks = absent_at.iter().filter(|at| **at >= quiet_until);
    match (looks.next(), looks.next_back()) {
        (Some(first), Some(last)) if last.since(*first) >= apart => Settlement::NotLanded,
        (Some(first), _) => Settlement::LookAgain { not_before: first.plus(apart) },
        (None, _) => Settlement::LookAgain { not_before: quiet_until },
    }
}

/// A quantity write in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteInDoubt {
    /// The fact used; none where the warehouse was not linked.
    pub before: Option<Quantity>,
    /// What was written.
    pub target: Quantity,
    /// When the request was sent.
    pub sent_at: Timestamp,
    /// See [`quiet_quantity`].
    pub quiet: Duration,
}

/// A look at its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When the request was sent.
    pub sent_at: Timestamp,
    /// What it showed.
    pub shown: Shown,
}

/// What a look showed of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The product with the cell's quantity; none: still not linked.
    Cell(Option<Quantity>),
    /// No product of this SKU.
    NotReturned,
}

/// Another entry of the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The fact used.
    pub before: Option<Quantity>,
    /// What was written.
    pub target: Quantity,
    /// What its cell shows now, if it was looked at.
    pub now: Option<Quantity>,
}

/// Judges a quantity write by the looks at its cell, oldest first. *Landed* carries what it adds to O.
pub fn settle_write(write: &WriteInDoubt, looks: &[Look], witnesses: &[Witness]) -> Settlement<i64> {
    let landed = Settlement::Landed(write.target.0.saturating_sub(write.before.map_or(0, |before| before.0)));
    let Some(last) = looks.last() else { return Settlement::LookAgain { not_before: write.sent_at } };
    if looks.iter().any(|look| look.shown == Shown::Cell(Some(write.target))) {
        return landed;
    }
    let same = looks.iter().rev().take_while(|look| look.shown == last.shown);
    let mut same_at: Vec<Timestamp> = same.map(|look| look.sent_at).collect();
    same_at.reverse();
    if last.shown == Shown::Cell(write.before) {
        return absent(&same_at, write.sent_at, write.quiet, LOOKS_APART);
    }
    if testify(witnesses) {
        return landed;
    }
    let undecided = |detail| Settlement::Undecided { reason: Reason::Undecided, detail };
    match last.shown {
        // One answer may lack a product or a link that is there. Looking on would cost calls for ever.
        Shown::NotReturned | Shown::Cell(None) => {
            match absent(&same_at, write.sent_at, write.quiet, proof::LOOKS_APART) {
                Settlement::NotLanded => undecided(unseen(write)),
                other => other,
            }
        }
        Shown::Cell(quantity) => {
            let quiet_until = write.sent_at.plus(write.quiet);
            if last.sent_at < quiet_until {
                return Settlement::LookAgain { not_before: quiet_until };
            }
            undecided(numbers(write, quantity))
        }
    }
}

/// Whether the call as a whole was carried out: enough of its entries changed something, and all show it.
fn testify(witnesses: &[Witness]) -> bool {
    let mut telling = witnesses.iter().filter(|witness| witness.before != Some(witness.target));
    let count = telling.clone().count();
    count >= WITNESSES_MIN && telling.all(|witness| witness.now == Some(witness.target))
}

fn numbers(write: &WriteInDoubt, now: Option<Quantity>) -> String {
    let (before, target, now) = (told(write.before), write.target, told(now));
    format!(
        "{before} was to become {target} and is {now}, so others moved the cell meanwhile; count it again"
    )
}

fn unseen(write: &WriteInDoubt) -> String {
    let (before, target) = (told(write.before), write.target);
    format!(
        "{before} was to become {target}, and the service does not show this cell any more (renamed, or taken out?); \
         count it again under the SKU it has"
    )
}

fn told(quantity: Option<Quantity>) -> String {
    quantity.map_or("nothing".into(), |quantity| quantity.to_string())
}

#[cfg(test)]
mod tests;
