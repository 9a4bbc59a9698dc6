//! What one count is worth (rules.md 1, 3): the situation it stands in, the policy, and the ruling.
//!
//! With fact R and our share O, a count Q made at (B, O_B) stands in a cell that others moved by
//! D = (R − O) − (B − O_B). The match between situation and policy has no catch-all: one line of policy per arm.

use super::{Base, Count, Pair, Policy, Word};

/// Where a count stands towards its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    /// Nobody else moved the cell since the count.
    Unmoved,
    /// Others added this many; negative if they took some.
    Moved(i64),
    /// The base is fixed by the next read.
    BaseAwaited,
    /// No base can be had any more.
    BaseMissed,
    /// The order of the count and of what moved around it is unknown.
    BaseUnsure,
    /// There is nothing to measure against: the warehouse was not linked.
    NoLink,
}

/// What becomes of a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It makes `start`, the adjusts applied since included, those pending not.
    Take {
        /// The quantity.
        start: i64,
        /// How it was decided.
        how: String,
    },
    /// Not before the cell is read.
    ReadFirst,
    /// The policy lets the service win.
    TheirsWins(String),
    /// The policy asks a person.
    Conflict(String),
    /// No fact tells what the service held at the count; the words say why.
    NoBase(&'static str),
}

/// Rules on `count` where the cell now is `now`; none: the warehouse is not linked.
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

/// A count as it is to be taken, a person's word on it heard.
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
                // The person saw the cell with them in it.
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
