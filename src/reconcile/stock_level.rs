//! Input and output of a decision about one stock level.
//!
//! The types contain neither rows nor JSON: the store fills the input, the push executes the plan.

use crate::model::{ChangeId, Quantity, Sku, StockLevel, Timestamp, code_enum};
use crate::outbox::Reason;

/// A fact and our own delta in it (docs/rules.md 1).
///
/// `quantity − own_delta` changes only if others change the stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuantityState {
    /// R: quantity that the platform last showed.
    pub quantity: Quantity,
    /// O: sum of (written value − used fact) over our completed writes.
    pub own_delta: i64,
}

impl QuantityState {
    /// Returns the units that others added since `base`; negative if others took (sold) some.
    pub(crate) fn drift_since(self, base: QuantityState) -> i64 {
        self.foreign_delta().saturating_sub(base.foreign_delta())
    }

    fn foreign_delta(self) -> i64 {
        self.quantity.0.saturating_sub(self.own_delta)
    }
}

/// The knowledge of a stock level that a write depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StockLevelKnowledge {
    /// Unread, or read too long ago: a read comes before any decision (docs/rules.md 2).
    Unread,
    Known(QuantityState),
    /// A fresh fact that differs from the last accepted write; two reads agreed (docs/rules.md 7).
    Disputed(QuantityState),
    /// The product exists, without a link to this warehouse (docs/rules.md 7).
    Unlinked,
    /// Several SKUs have the case key of the change's SKU, and none has its spelling (docs/rules.md 8).
    AmbiguousSku(Vec<Sku>),
    /// A kit, by the platform's word: its quantity follows from its components.
    Kit,
}

code_enum! {
    /// The preferred side if a stock level changed since its count (`quantities.policy`).
    pub(crate) enum CountPolicy {
        /// Both: sales since the count are subtracted.
        Merge = "merge",
        Local = "local",
        /// The platform; the change is rejected.
        Remote = "remote",
        Ask = "ask",
    }
}

/// The fact that a count is measured against (docs/rules.md 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountBase {
    Known(QuantityState),
    Awaited,
    /// No fact is near enough to the count, or the order of the count and the facts around it is unknown.
    Missed,
}

/// The time of a count, which decides the adjusts that it includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountMark {
    /// Id of the count's change; ids are in the order of insertion.
    pub id: ChangeId,
    pub created_at: Timestamp,
    /// Time of the count, if the caller stated it.
    pub counted_at: Option<Timestamp>,
}

impl CountMark {
    /// Returns true if this count was made before `other`.
    ///
    /// The order of insertion decides. Clock times decide only if a caller stated one.
    pub(crate) fn is_before(&self, other: &CountMark) -> bool {
        match (self.counted_at, other.counted_at) {
            (None, None) => self.id < other.id,
            (Some(_), _) | (_, Some(_)) => (self.counted_time(), self.id) < (other.counted_time(), other.id),
        }
    }

    /// Returns true if an adjust's goods moved after this count.
    ///
    /// The adjust was inserted as `id` at `created_at`. An adjust is inserted when its goods move, or later.
    pub(crate) fn precedes_adjust(&self, id: ChangeId, created_at: Timestamp) -> bool {
        id > self.id || self.counted_at.is_some_and(|counted_at| created_at > counted_at)
    }

    /// Returns the time of the count. A time after the insertion is replaced by the insertion's.
    pub(crate) fn counted_time(&self) -> Timestamp {
        self.counted_at.unwrap_or(self.created_at).min(self.created_at)
    }
}

/// An operator's decision on a count; it overrides the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountResolution {
    /// `resolve --use mine`: the count as it is.
    Mine,
    /// `resolve --use N`: N units at the fact of that moment; sales since then are subtracted.
    Exactly {
        quantity: Quantity,
        /// Fact at the time of the decision.
        base: QuantityState,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub quantity: Quantity,
    /// Time of the count, if the caller stated it.
    pub counted_at: Option<Timestamp>,
    pub base: CountBase,
    /// Sum of the applied adjusts that were created after the count.
    pub applied_after: i64,
    pub resolution: Option<CountResolution>,
}

/// The effect of a change on its stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeEffect {
    Set(Count),
    Adjust(i64),
}

/// An open change of the stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StockLevelChange {
    pub id: ChangeId,
    pub created_at: Timestamp,
    /// False if the change is held. A later count still cancels it (docs/rules.md 5).
    pub is_pending: bool,
    pub effect: ChangeEffect,
}

/// The complete input of a decision about one stock level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StockLevelInput<'a> {
    pub stock_level: &'a StockLevel,
    pub fact: StockLevelKnowledge,
    pub last_set: Option<CountMark>,
    /// Open changes, in the order of their ids.
    pub changes: &'a [StockLevelChange],
    pub policy: CountPolicy,
}

/// The next action on a stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StockLevelStep {
    Nothing,
    /// The stock level must be read first.
    ReadFirst,
    /// The platform shows the quantity already: the changes are applied without a call.
    Agreed(Quantity),
    /// An entry of an update call.
    Write {
        /// Used fact, for O; `None` if the warehouse was not linked.
        from: Option<Quantity>,
        to: Quantity,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeDecision {
    Completes {
        explanation: String,
    },
    Held {
        reason: Reason,
        detail: String,
        /// Quantity that the change would write.
        mine: Option<i64>,
        theirs: Option<i64>,
    },
    Rejected {
        reason: Reason,
        detail: String,
    },
    /// A later count includes the change.
    Cancelled {
        reason: Reason,
        detail: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecidedChange {
    pub id: ChangeId,
    pub decision: ChangeDecision,
}

/// The plan of one stock level. A change without a decision keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StockLevelPlan {
    pub step: StockLevelStep,
    /// Decisions on its changes, in the order of their ids.
    pub decisions: Vec<DecidedChange>,
}

impl StockLevelPlan {
    /// Returns the quantity after the plan is executed.
    #[cfg(test)]
    pub(crate) fn planned_quantity(&self) -> Option<Quantity> {
        match self.step {
            StockLevelStep::Nothing | StockLevelStep::ReadFirst => None,
            StockLevelStep::Agreed(quantity) => Some(quantity),
            StockLevelStep::Write { to, .. } => Some(to),
        }
    }

    /// Returns the changes that the step completes.
    pub(crate) fn completed_changes(&self) -> impl Iterator<Item = ChangeId> + '_ {
        let settles =
            |decision: &&DecidedChange| matches!(decision.decision, ChangeDecision::Completes { .. });
        self.decisions.iter().filter(settles).map(|decision| decision.id)
    }
}

#[cfg(test)]
mod tests;
