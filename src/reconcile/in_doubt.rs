//! Settlement: the outcome of a request without an answer (docs/rules.md 4).
//!
//! *Took effect* may be decided at once. *Had no effect* needs two checks, both after a quiet time from the
//! send. The platform may still execute a request that timed out, and a second request would then create a
//! second shipment.

use super::proof;
use super::read_admission::READS_APART;
use crate::model::{Quantity, Timestamp};
use crate::outbox::Reason;
use std::time::Duration;

/// Quiet time of creates: a second shipment costs more than a delay of ten minutes.
pub(crate) const QUIET_CREATE: Duration = Duration::from_secs(600);

/// Minimum quiet time of quantity writes.
const QUIET_QUANTITY_MIN: Duration = Duration::from_secs(5);

/// Minimum other entries of the call that confirm the call.
const SIBLINGS_MIN: usize = 3;

/// Returns the quiet time of quantity writes sent with `timeout`.
pub(crate) fn quiet_quantity(timeout: Duration) -> Duration {
    timeout.saturating_mul(2).max(QUIET_QUANTITY_MIN)
}

/// The outcome of a change in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// The change took effect; with the id of the created thing, if it created one.
    TookEffect(Option<i64>),
    /// The change had no effect and will have none.
    HadNoEffect,
    /// The outcome is not known yet.
    CheckAgain {
        /// Earliest time of the next check.
        not_before: Timestamp,
    },
    Undecided {
        /// [`Reason::LandedOrAnother`]: the change stays in doubt. Any other: the change is held.
        reason: Reason,
        detail: String,
    },
}

/// A check after the send of a request in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EffectCheck<S> {
    pub sent_at: Timestamp,
    /// The state at the platform, as far as the judgement needs it.
    pub shown: S,
}

/// Judges a request sent at `sent_at` by its latest checks, which show no effect.
///
/// `checks` are in order, oldest first; `shows_none` is true for one that shows no effect. Two of them, after
/// the quiet time, must be `apart`: [`READS_APART`] if the record came, else [`proof::ABSENCE_CHECKS_APART`].
pub(super) fn judge_absence<S>(
    checks: &[EffectCheck<S>],
    shows_none: impl Fn(&S) -> bool,
    sent_at: Timestamp,
    quiet: Duration,
    apart: Duration,
) -> Settlement {
    let latest = checks.iter().rev().take_while(|check| shows_none(&check.shown));
    let absent_at = latest.map(|check| check.sent_at);
    let quiet_until = sent_at.plus(quiet);
    let mut checks = absent_at.filter(|at| *at >= quiet_until);
    let Some(last) = checks.next() else { return Settlement::CheckAgain { not_before: quiet_until } };
    let first = checks.last().unwrap_or(last);
    if last.duration_since(first) >= apart {
        Settlement::HadNoEffect
    } else {
        Settlement::CheckAgain { not_before: first.plus(apart) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteInDoubt {
    /// Used fact; `None` if the warehouse was not linked.
    pub before: Option<Quantity>,
    pub target: Quantity,
    pub sent_at: Timestamp,
    pub quiet: Duration,
}

/// The stock level as a check shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckResult {
    /// The product with the quantity; `None` if the warehouse is still not linked.
    Returned(Option<Quantity>),
    NotReturned,
}

/// Another entry of the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiblingEntry {
    pub before: Option<Quantity>,
    pub target: Quantity,
    /// Current quantity at the platform, if it was checked.
    pub now: Option<Quantity>,
}

/// Judges a quantity write by the checks of its stock level, oldest first.
pub(crate) fn settle_write(
    write: &WriteInDoubt,
    checks: &[EffectCheck<CheckResult>],
    siblings: &[SiblingEntry],
) -> Settlement {
    let Some(last) = checks.last() else { return Settlement::CheckAgain { not_before: write.sent_at } };
    if checks.iter().any(|check| check.shown == CheckResult::Returned(Some(write.target))) {
        return Settlement::TookEffect(None);
    }
    let judge_same =
        |apart| judge_absence(checks, |shown| *shown == last.shown, write.sent_at, write.quiet, apart);
    if last.shown == CheckResult::Returned(write.before) {
        return judge_same(READS_APART);
    }
    if siblings_confirm(siblings) {
        return Settlement::TookEffect(None);
    }
    let undecided = |detail| Settlement::Undecided { reason: Reason::Undecided, detail };
    match last.shown {
        // An answer may omit a product or a link that exists. Endless checks would cost calls, so two of them
        // end it.
        CheckResult::NotReturned | CheckResult::Returned(None) => {
            match judge_same(proof::ABSENCE_CHECKS_APART) {
                Settlement::HadNoEffect => undecided(describe_unreturned(write)),
                other => other,
            }
        }
        CheckResult::Returned(quantity) => {
            let quiet_until = write.sent_at.plus(write.quiet);
            if last.sent_at < quiet_until {
                return Settlement::CheckAgain { not_before: quiet_until };
            }
            undecided(describe_quantities(write, quantity))
        }
    }
}

/// Returns true if the platform executed the whole call.
///
/// At least [`SIBLINGS_MIN`] entries changed a quantity, and all of these show their targets.
fn siblings_confirm(siblings: &[SiblingEntry]) -> bool {
    let mut changing = siblings.iter().filter(|sibling| sibling.before != Some(sibling.target));
    let count = changing.clone().count();
    count >= SIBLINGS_MIN && changing.all(|sibling| sibling.now == Some(sibling.target))
}

fn describe_quantities(write: &WriteInDoubt, now: Option<Quantity>) -> String {
    let (before, target, now) = (quantity_text(write.before), write.target, quantity_text(now));
    format!(
        "{before} was to become {target} and is {now}, because others changed the stock level meanwhile; count it again"
    )
}

fn describe_unreturned(write: &WriteInDoubt) -> String {
    let (before, target) = (quantity_text(write.before), write.target);
    format!(
        "{before} was to become {target}, and the platform no longer shows this stock level (renamed or removed?); \
         count it again under its present SKU"
    )
}

fn quantity_text(quantity: Option<Quantity>) -> String {
    quantity.map_or("nothing".into(), |quantity| quantity.to_string())
}

#[cfg(test)]
pub(super) mod tests;
