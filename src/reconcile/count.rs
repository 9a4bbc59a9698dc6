//! Decides one count by its situation and the policy (docs/rules.md 1).
//!
//! R is the fact and O our own delta. For a count Q with the base (B, O_B), others changed the stock
//! level by D = (R − O) − (B − O_B). The matches over base, drift and policy have no catch-all arm: each
//! arm is one line of policy.

use super::{Count, CountBase, CountPolicy, CountResolution, QuantityState};

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
    /// No fact gives the platform's quantity at the count.
    NoBase,
}

/// Decides `count` against the fact `now`; `None` if the warehouse is not linked.
pub(super) fn decide_count(count: &Count, now: Option<QuantityState>, policy: CountPolicy) -> CountDecision {
    use CountPolicy::{Ask, Local, Merge, Remote};
    let claim = ResolvedCount::from_count(count, policy);
    let quantity = claim.quantity;
    let Some(now) = now else { return claim.accept_count(quantity, ", not linked to the warehouse yet") };
    let base = match (claim.base, claim.policy) {
        (CountBase::Known(base), Merge | Local | Remote | Ask) => base,
        (CountBase::Awaited | CountBase::Missed, Local) => {
            return claim.accept_count(quantity, ", taken as counted");
        }
        (CountBase::Awaited, Merge | Remote | Ask) => return CountDecision::ReadFirst,
        (CountBase::Missed, Merge | Remote | Ask) => return CountDecision::NoBase,
    };
    match (now.drift_since(base), claim.policy) {
        (0, Merge | Local | Remote | Ask) => claim.accept_count(quantity, ""),
        (drift, Merge) => {
            claim.accept_count(quantity.saturating_add(drift), &format!(", {}", describe_movement(drift)))
        }
        (drift, Local) => {
            claim.accept_count(quantity, &format!(", {}, taken as counted", describe_movement(drift)))
        }
        (drift, Remote) => CountDecision::PlatformWins(claim.describe_drift(drift)),
        (drift, Ask) => CountDecision::Conflict(claim.describe_drift(drift)),
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
            CountBase::Awaited | CountBase::Missed => format!("counted {}", self.quantity),
        }
    }
}

fn describe_movement(drift: i64) -> String {
    let units = drift.unsigned_abs();
    if drift < 0 { format!("{units} sold since") } else { format!("{units} added at the platform since") }
}
