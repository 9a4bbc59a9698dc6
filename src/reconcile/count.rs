//! Decides one count by its situation and the policy (docs/rules.md 1).
//!
//! R is the fact and O our own delta. For a count Q with the base (B, O_B), others changed the stock
//! level by D = (R − O) − (B − O_B). The match over situation and policy has no catch-all arm: each
//! arm is one line of policy.

use super::{Count, CountBase, CountPolicy, CountResolution, QuantityState};

/// The relation of a count to the current fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountSituation {
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CountDecision {
    /// The count gives `start`, with the applied adjusts since the count and without the pending adjusts.
    Accept {
        start: i64,
        explanation: String,
    },
    /// The stock level must be read first.
    ReadFirst,
    /// The policy prefers the platform's quantity.
    PlatformWins(String),
    Conflict(String),
    /// No fact gives the platform's quantity at the count; the text states the reason.
    NoBase(&'static str),
}

/// Decides `count` against the fact `now`; `None` if the warehouse is not linked.
pub(super) fn decide_count(count: &Count, now: Option<QuantityState>, policy: CountPolicy) -> CountDecision {
    use CountPolicy::{Ask, Local, Merge, Remote};
    use CountSituation::{BaseAwaited, BaseMissed, BaseUnsure, Moved, NoLink, Unmoved};
    let claim = ResolvedCount::from_count(count, policy);
    let quantity = claim.quantity;
    match (count_situation(claim.base, now), claim.policy) {
        (Unmoved, Merge | Local | Remote | Ask) => claim.accept_count(quantity, ""),
        (NoLink, Merge | Local | Remote | Ask) => {
            claim.accept_count(quantity, ", not linked to the warehouse yet")
        }
        (Moved(drift), Merge) => {
            claim.accept_count(quantity.saturating_add(drift), &format!(", {}", describe_movement(drift)))
        }
        (Moved(drift), Local) => {
            claim.accept_count(quantity, &format!(", {}, taken as counted", describe_movement(drift)))
        }
        (Moved(drift), Remote) => CountDecision::PlatformWins(claim.describe_drift(drift)),
        (Moved(drift), Ask) => CountDecision::Conflict(claim.describe_drift(drift)),
        (BaseAwaited | BaseMissed | BaseUnsure, Local) => claim.accept_count(quantity, ", taken as counted"),
        (BaseAwaited, Merge | Remote | Ask) => CountDecision::ReadFirst,
        (BaseMissed, Merge | Remote | Ask) => {
            CountDecision::NoBase("nothing is known of the stock at the time of the count")
        }
        (BaseUnsure, Merge | Remote | Ask) => CountDecision::NoBase(
            "the host's clock was set back or the database was restored after the count, so what happened in between is \
             unknown",
        ),
    }
}

fn count_situation(base: CountBase, now: Option<QuantityState>) -> CountSituation {
    match (now, base) {
        (None, CountBase::Known(_) | CountBase::Awaited | CountBase::Missed | CountBase::Unsure) => {
            CountSituation::NoLink
        }
        (Some(now), CountBase::Known(base)) => match now.drift_since(base) {
            0 => CountSituation::Unmoved,
            drift => CountSituation::Moved(drift),
        },
        (Some(_), CountBase::Awaited) => CountSituation::BaseAwaited,
        (Some(_), CountBase::Missed) => CountSituation::BaseMissed,
        (Some(_), CountBase::Unsure) => CountSituation::BaseUnsure,
    }
}

/// A count after the operator's decision.
struct ResolvedCount {
    quantity: i64,
    base: CountBase,
    policy: CountPolicy,
    applied_after: i64,
}

impl ResolvedCount {
    fn from_count(count: &Count, policy: CountPolicy) -> Self {
        let counted =
            Self { quantity: count.quantity.0, base: count.base, policy, applied_after: count.applied_after };
        match count.resolution {
            None => counted,
            Some(CountResolution::Mine) => Self { policy: CountPolicy::Local, ..counted },
            Some(CountResolution::Exactly { quantity, base }) => Self {
                quantity: quantity.0,
                base: CountBase::Known(base),
                policy: CountPolicy::Merge,
                // The operator decided on a fact that included the adjusts.
                applied_after: 0,
            },
        }
    }

    fn accept_count(&self, quantity: i64, why: &str) -> CountDecision {
        let start = quantity.saturating_add(self.applied_after);
        let adjusted = match self.applied_after {
            0 => String::new(),
            units => format!(", adjusted {units:+} since"),
        };
        let explanation = format!("{}{why}{adjusted}: {start}", self.describe_count());
        CountDecision::Accept { start, explanation }
    }

    fn describe_drift(&self, drift: i64) -> String {
        format!("{}, {}", self.describe_count(), describe_movement(drift))
    }

    fn describe_count(&self) -> String {
        match self.base {
            CountBase::Known(base) => {
                format!("counted {} while the platform showed {}", self.quantity, base.quantity)
            }
            CountBase::Awaited | CountBase::Missed | CountBase::Unsure => {
                format!("counted {}", self.quantity)
            }
        }
    }
}

fn describe_movement(drift: i64) -> String {
    let units = drift.unsigned_abs();
    if drift < 0 { format!("{units} sold since") } else { format!("{units} added at the platform since") }
}
