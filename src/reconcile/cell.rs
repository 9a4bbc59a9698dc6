//! What a decision about one cell looks at, and what it says.
//!
//! Nothing here knows rows or JSON: the store fills these in, the push carries the plan out.

use crate::model::{Cell, Quantity, Sku, Timestamp, WishId};
use crate::outbox::Reason;

/// A cell's fact and our share in it (rules.md 1). `quantity − ours` moves only when others move the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// R: what the service last said.
    pub quantity: Quantity,
    /// O: the sum, over our settled writes, of value written − fact used.
    pub ours: i64,
}

impl Pair {
    /// Units that others added since `base`; negative if they took (sold) some.
    pub fn drift_since(self, base: Pair) -> i64 {
        self.others().saturating_sub(base.others())
    }

    fn others(self) -> i64 {
        self.quantity.0.saturating_sub(self.ours)
    }
}

/// What is known of a cell, as far as a write depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellFact {
    /// Not read, or too long ago: it is read before anything is decided (rules.md 4).
    Unread,
    /// A fresh fact.
    Known(Pair),
    /// A fresh fact that is not what the service accepted last: two looks agreed (rules.md 11).
    Disputed(Pair),
    /// The product is there, without a link to this warehouse (rules.md 11).
    Unlinked,
    /// The service returns no such SKU.
    UnknownSku,
    /// Several SKUs fold to the wish's, none is spelled like it (rules.md 12).
    AmbiguousSku(Vec<Sku>),
    /// The list of warehouses as it was last read lacks this one: nothing is decided before it is read again.
    Unlisted,
    /// The service lists no such warehouse, and that is proved.
    UnknownWarehouse,
    /// A kit: its quantity follows from its components. The service said so after the wishes were inserted.
    Kit,
    /// It may be a kit; the service is asked before anything is decided.
    PerhapsKit,
}

/// Who wins when a cell moved since it was counted (`quantities.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Both: sales since the count still count.
    Merge,
    /// The count.
    Local,
    /// The service.
    Remote,
    /// A person says.
    Ask,
}

/// The fact a count is measured against (rules.md 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Fixed, once and for all.
    Known(Pair),
    /// The next read decides.
    Awaited,
    /// No fact is near enough to the count.
    Missed,
    /// The host's calendar was set back after the count, or over it: nobody knows what came before it.
    Unsure,
}

/// When a count was made, for telling what it already includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountMark {
    /// The count's wish; the order of ids is the order of insertion.
    pub id: WishId,
    /// When it was inserted.
    pub created_at: Timestamp,
    /// When it was made, if the caller said so.
    pub counted_at: Option<Timestamp>,
}

impl CountMark {
    /// Whether this count was made before `other`. Insertion decides; clocks only where a caller named a time.
    pub fn is_before(&self, other: &CountMark) -> bool {
        match (self.counted_at, other.counted_at) {
            (None, None) => self.id < other.id,
            (Some(_), _) | (_, Some(_)) => (self.moment(), self.id) < (other.moment(), other.id),
        }
    }

    /// Whether goods moved by an adjust, inserted as `id` at `created_at`, moved after this count. An adjust is
    /// inserted when the goods moved or later.
    pub fn precedes_adjust(&self, id: WishId, created_at: Timestamp) -> bool {
        id > self.id || self.counted_at.is_some_and(|counted_at| created_at > counted_at)
    }

    /// When it was made. A count made in the future is one made now.
    pub fn moment(&self) -> Timestamp {
        self.counted_at.unwrap_or(self.created_at).min(self.created_at)
    }
}

/// A person's word on one count, which stands above the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `resolve --use mine`: the count as it is.
    Mine,
    /// `resolve --use N`: this many, at the fact of that moment; sales since still count.
    Exactly {
        /// N.
        quantity: Quantity,
        /// The cell when the person spoke.
        base: Pair,
    },
}

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Q: how many there are.
    pub quantity: Quantity,
    /// When it was made, if the caller said so.
    pub counted_at: Option<Timestamp>,
    /// What it is measured against.
    pub base: Base,
    /// The sum of the cell's adjusts that were created after the count and are applied already.
    pub applied_after: i64,
    /// A person's word, once given.
    pub word: Option<Word>,
}

/// What a wish does to its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `quantity.set`
    Set(Count),
    /// `quantity.adjust`, by so many units.
    Adjust(i64),
}

/// Whether a wish is to be decided, or only there to be superseded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// To be decided now.
    Pending,
    /// Waiting for a person; a later count still cancels it (rules.md 9).
    Held,
}

/// An open wish for the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellWish {
    /// Its row.
    pub id: WishId,
    /// When it was inserted.
    pub created_at: Timestamp,
    /// Pending or held.
    pub standing: Standing,
    /// What it wants.
    pub change: Change,
}

/// All a decision about one cell depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellInput<'a> {
    /// The cell, for the sentences.
    pub cell: &'a Cell,
    /// What is known of it.
    pub fact: CellFact,
    /// The count last applied to it.
    pub last_set: Option<CountMark>,
    /// Its open wishes, in the order of their ids.
    pub wishes: &'a [CellWish],
    /// The policy in force for its warehouse.
    pub policy: Policy,
}

/// What happens to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No wish is to be carried out.
    Nothing,
    /// It must be read first.
    Read,
    /// The service holds the wanted quantity already: the wishes are applied without a call.
    Agreed(Quantity),
    /// One entry of an update call.
    Write {
        /// The fact used, for O; none where the warehouse was not linked.
        from: Option<Quantity>,
        /// The absolute quantity sent.
        to: Quantity,
    },
}

/// What happens to one wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Settled by the step.
    Settles {
        /// How its share of the quantity was decided.
        how: String,
    },
    /// A person must say.
    Held {
        /// Why.
        reason: Reason,
        /// The numbers, and what to do.
        detail: String,
        /// What the wish would make of the cell.
        mine: Option<i64>,
        /// What the service holds.
        theirs: Option<i64>,
    },
    /// Refused for good.
    Rejected {
        /// Why.
        reason: Reason,
        /// On what, and what to do.
        detail: String,
    },
    /// A later count includes it.
    Cancelled {
        /// Why.
        reason: Reason,
        /// By which wish.
        detail: String,
    },
}

/// A wish and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The wish.
    pub id: WishId,
    /// What happens to it.
    pub outcome: Outcome,
}

/// One cell's plan. A wish that is not in it stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellPlan {
    /// What happens to the cell.
    pub step: Step,
    /// What happens to its wishes, in the order of their ids.
    pub decisions: Vec<Decision>,
}

impl CellPlan {
    /// What the cell becomes once the plan is carried out; `stock.pending_quantity`.
    pub fn becomes(&self) -> Option<Quantity> {
        match self.step {
            Step::Nothing | Step::Read => None,
            Step::Agreed(quantity) => Some(quantity),
            Step::Write { to, .. } => Some(to),
        }
    }

    /// The wishes the step settles.
    pub fn settles(&self) -> impl Iterator<Item = WishId> + '_ {
        let settles = |decision: &&Decision| matches!(decision.outcome, Outcome::Settles { .. });
        self.decisions.iter().filter(settles).map(|decision| decision.id)
    }
}

#[cfg(test)]
mod tests;
