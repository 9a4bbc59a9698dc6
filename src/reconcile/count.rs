//! Decides one count by its situation and the policy (docs/rules.md 1, 3).
//!
//! R is the fact and O our own delta. For a count Q with the base (B, O_B), others changed the stock level by
//! D = (R − O) − (B − O_B). The match over situation and policy has no catch-all arm: each arm is one line of
//! policy.

use super::{Base, Count, Pair, Policy, Word};

/// The relation of a count to the current fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    /// No other client changed the stock level since the count.
    Unmoved,
    /// Others added this many units; negative if others took some.
    Moved(i64),
    /// The next read fixes the base.
    BaseAwaited,
    /// No base can be fixed any more.
    BaseMissed,
    /// The order of the count and the facts around it is unknown.
    BaseUnsure,
    /// The warehouse was not linked, so that no fact exists.
    NoLink,
}

/// The decision on a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// The count gives `start`, with the applied adjusts since the count and without the pending adjusts.
    Take {
        /// Quantity.
        start: i64,
        /// Explanation of the quantity.
        how: String,
    },
    /// The stock level must be read first.
    ReadFirst,
    /// The policy prefers the platform's quantity.
    TheirsWins(String),
    /// The policy asks the operator.
    Conflict(String),
    /// No fact gives the platform's quantity at the count; the text states the reason.
    NoBase(&'static str),
}

/// Decides `count` against the fact `now`; `None` if the warehouse is not linked.
pub(super) fn rule(count: &Count, now: Option<Pair>, policy: Policy) -> Ruling {
    let claim = Claim::of(count, policy);
    let situation = situation(claim.base, now);
    let quantity = claim.quantity;
    match (situation, claim.policy) {
        (Situation::Unmoved, Policy::Merge | Policy::Local | Policy::Remote | Policy::Ask) => {
            claim.take(quantity, "")
        }
        (Situation::NoLink, Policy::Merge | Policy::Local | Policy::Remote | Policy::Ask) => {
            claim.take(quantity, ", not linked to the warehouse yet")
        }
        (Situation::Moved(drift), Policy::Merge) => {
            claim.take(quantity.saturating_add(drift), &format!(", {}", moved(drift)))
        }
        (Situation::Moved(drift), Policy::Local) => {
            claim.take(quantity, &format!(", {}, taken as counted", moved(drift)))
        }
        (Situation::Moved(drift), Policy::Remote) => Ruling::TheirsWins(claim.against(drift)),
        (Situation::Moved(drift), Policy::Ask) => Ruling::Conflict(claim.against(drift)),
        (Situation::BaseAwaited | Situation::BaseMissed | Situation::BaseUnsure, Policy::Local) => {
            claim.take(quantity, ", taken as counted")
        }
        (Situation::BaseAwaited, Policy::Merge | Policy::Remote | Policy::Ask) => Ruling::ReadFirst,
        (Situation::BaseMissed, Policy::Merge | Policy::Remote | Policy::Ask) => {
            Ruling::NoBase("the cell was not read near the count")
        }
        (Situation::BaseUnsure, Policy::Merge | Policy::Remote | Policy::Ask) => {
            Ruling::NoBase("the host's clock was set back since, so its time says nothing")
        }
    }
}

fn situation(base: Base, now: Option<Pair>) -> Situation {
    match (now, base) {
        (None, Base::Known(_) | Base::Awaited | Base::Missed | Base::Unsure) => Situation::NoLink,
        (Some(now), Base::Known(base)) => match now.drift_since(base) {
            0 => Situation::Unmoved,
            drift => Situation::Moved(drift),
        },
        (Some(_), Base::Awaited) => Situation::BaseAwaited,
        (Some(_), Base::Missed) => Situation::BaseMissed,
        (Some(_), Base::Unsure) => Situation::BaseUnsure,
    }
}

/// A count after the operator's decision.
struct Claim {
    quantity: i64,
    base: Base,
    policy: Policy,
    applied_after: i64,
}

impl Claim {
    fn of(count: &Count, policy: Policy) -> Self {
        let counted =
            Self { quantity: count.quantity.0, base: count.base, policy, applied_after: count.applied_after };
        match count.word {
            None => counted,
            Some(Word::Mine) => Self { policy: Policy::Local, ..counted },
            Some(Word::Exactly { quantity, base }) => Self {
                quantity: quantity.0,
                base: Base::Known(base),
                policy: Policy::Merge,
                // The operator decided on a fact that included the adjusts.
                applied_after: 0,
            },
        }
    }

    fn take(&self, made: i64, why: &str) -> Ruling {
        let start = made.saturating_add(self.applied_after);
        let adjusted = match self.applied_after {
            0 => String::new(),
            units => format!(", adjusted {units:+} since"),
        };
        Ruling::Take { start, how: format!("{}{why}{adjusted}: {start}", self.counted()) }
    }

    fn against(&self, drift: i64) -> String {
        format!("{}, {}", self.counted(), moved(drift))
    }

    fn counted(&self) -> String {
        match self.base {
            Base::Known(base) => format!("set {} counted at {}", self.quantity, base.quantity),
            Base::Awaited | Base::Missed | Base::Unsure => format!("set {}", self.quantity),
        }
    }
}

fn moved(drift: i64) -> String {
    let units = drift.unsigned_abs();
    if drift < 0 { format!("{units} sold since") } else { format!("{units} added there since") }
}
