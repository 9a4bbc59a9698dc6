//! Decides shipment changes, and shipment changes in doubt (docs/rules.md 14).
//!
//! The platform ships *what is left* if a line or a quantity is not named, and has no idempotency key.
//! Therefore the request names both, from a read just before the send. The exception is a whole order without a known
//! shipment whose answer does not state what is left: the order alone is named, because the platform refuses that
//! where a shipment exists. A drop of the quantity left never proves that our request caused it, because a person may
//! have shipped the same units at the platform.

use super::ChangePlan;
use super::in_doubt::{EffectCheck, QUIET_CREATE, Settlement, judge_absence};
use super::read_admission::READS_APART;
use crate::model::{ChangeId, LineItemId, OrderId, OrderLine, Timestamp};
use crate::outbox::{Reason, ShipmentCreate, ShipmentLine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Lines of an order, as one answer shows them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderSnapshot {
    /// Its readable lines. Another line is never sent and keeps none of these.
    pub lines: Vec<OrderLine>,
    /// True if another line could not be read, for instance because its quantity is a fraction.
    pub has_unreadable: bool,
    /// False if the order has more lines than the answer holds; the operation has no paging.
    pub is_complete: bool,
}

/// A line of the request, stored with the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimedLine {
    pub line_item_id: LineItemId,
    pub quantity: i64,
    /// Units left just before the send, if the platform stated them.
    pub left_before: Option<i64>,
}

/// Decides a shipment by its order as just read; `None` asks for the read. `has_shipment`: a shipment of the order
/// is known, cancelled or not.
///
/// `Send` carries every line and quantity, also of a whole order.
pub(crate) fn plan_shipment(
    change: &ShipmentCreate,
    order: Option<&OrderSnapshot>,
    has_shipment: bool,
) -> ChangePlan<Vec<ClaimedLine>> {
    let id = change.order_id;
    let known = match order {
        None => return ChangePlan::ReadFirst,
        Some(order) if !order.is_complete => return incomplete_order(id),
        Some(order) if order.lines.is_empty() => {
            let detail = format!("the platform lists no lines of order {id}; correct the id");
            return ChangePlan::Held { reason: Reason::NotShown, detail };
        }
        Some(order) => order,
    };
    let claimed = match &change.lines {
        Some(named) => {
            named.iter().map(|line| claim_line(line, change, known)).collect::<Result<Vec<_>, _>>()
        }
        None => everything_left(change, known, has_shipment),
    };
    claimed.map_or_else(|stop| stop, ChangePlan::Send)
}

type StoppedPlan = ChangePlan<Vec<ClaimedLine>>;

fn claim_line(
    named: &ShipmentLine,
    change: &ShipmentCreate,
    known: &OrderSnapshot,
) -> Result<ClaimedLine, StoppedPlan> {
    let (id, order) = (named.line_item_id, change.order_id);
    let line = known.lines.iter().find(|line| line.line_item_id == id);
    let line = line.ok_or_else(|| match known.has_unreadable {
        true => incomplete_order(order),
        false => ChangePlan::Held {
            reason: Reason::NotShown,
            detail: format!("line {id} does not belong to order {order}; correct it"),
        },
    })?;
    // Without a quantity left, the quantity sold is the upper bound; the platform checks the rest.
    let available = line.quantity_left.unwrap_or(line.quantity_sold);
    let quantity = named.quantity.or(line.quantity_left).ok_or_else(|| left_unknown(line))?;
    if quantity > available || quantity < 1 {
        let detail =
            format!("line {id} of order {order}: {quantity} are to be shipped and {available} are left");
        return Err(ChangePlan::Held { reason: Reason::TooLittleLeft, detail });
    }
    Ok(ClaimedLine { line_item_id: id, quantity, left_before: line.quantity_left })
}

fn everything_left(
    change: &ShipmentCreate,
    known: &OrderSnapshot,
    has_shipment: bool,
) -> Result<Vec<ClaimedLine>, StoppedPlan> {
    let silent = known.lines.iter().find(|line| line.quantity_left.is_none());
    let has_begun = |line: &OrderLine| line.quantity_left.is_some_and(|left| left < line.quantity_sold);
    let may_be_begun = has_shipment || known.has_unreadable || known.lines.iter().any(has_begun);
    if let Some(line) = silent.filter(|_| may_be_begun) {
        return Err(left_unknown(line));
    }
    let claimed = known.lines.iter().map(|line| ClaimedLine {
        line_item_id: line.line_item_id,
        quantity: line.quantity_left.unwrap_or(line.quantity_sold),
        left_before: line.quantity_left.filter(|_| silent.is_none()),
    });
    let claimed: Vec<ClaimedLine> = claimed.filter(|line| line.quantity > 0).collect();
    match claimed.is_empty() {
        true if known.has_unreadable => Err(incomplete_order(change.order_id)),
        true => {
            let detail = format!("nothing is left to ship of order {}", change.order_id);
            Err(ChangePlan::Held { reason: Reason::TooLittleLeft, detail })
        }
        false => Ok(claimed),
    }
}

/// Returns true if the request names the order alone: no line is named, and the platform does not state what is left.
pub(crate) fn is_whole_order(change: &ShipmentCreate, claimed: &[ClaimedLine]) -> bool {
    change.lines.is_none() && claimed.iter().all(|line| line.left_before.is_none())
}

fn incomplete_order(order: OrderId) -> StoppedPlan {
    let detail = format!(
        "order {order} has more lines than one answer holds, or a line that cannot be read, for instance because its \
         quantity is no whole number; ship that at the platform"
    );
    ChangePlan::Held { reason: Reason::NotShown, detail }
}

fn left_unknown(line: &OrderLine) -> StoppedPlan {
    let (id, order) = (line.line_item_id, line.order_id);
    let detail = format!(
        "the platform does not state the quantity left of line {id} of order {order}; name the quantity"
    );
    ChangePlan::Held { reason: Reason::NotShown, detail }
}

/// Units left of each line of an order, if the platform stated them.
pub(crate) type UnitsLeft = BTreeMap<LineItemId, i64>;

/// Judges a shipment without an answer by the checks of its order since, oldest first.
///
/// The result is never `TookEffect`, because only a shipment id proves the effect (see [`check_adoption`]).
pub(crate) fn settle_shipment(
    claimed: &[ClaimedLine],
    sent_at: Timestamp,
    checks: &[EffectCheck<UnitsLeft>],
) -> Settlement {
    let Some(last) = checks.last() else { return Settlement::CheckAgain { not_before: sent_at } };
    if claimed.iter().any(|line| line.left_before.is_none() || !last.shown.contains_key(&line.line_item_id)) {
        let detail =
            "the platform does not state the quantity left of the order; check for the shipment there".into();
        return Settlement::Undecided { reason: Reason::LandedOrAnother, detail };
    }
    let moved = |left: &UnitsLeft| {
        claimed.iter().find(|line| left.get(&line.line_item_id).copied() != line.left_before)
    };
    match moved(&last.shown) {
        Some(line) => {
            let detail = describe_check(line, &last.shown);
            Settlement::Undecided { reason: Reason::LandedOrAnother, detail }
        }
        None => judge_absence(checks, |left| moved(left).is_none(), sent_at, QUIET_CREATE, READS_APART),
    }
}

fn describe_check(line: &ClaimedLine, left: &UnitsLeft) -> String {
    let now = left.get(&line.line_item_id).copied().unwrap_or_default();
    let before = line.left_before.unwrap_or_default();
    let ClaimedLine { line_item_id, quantity, .. } = line;
    format!(
        "line {line_item_id}: {before} were left, {quantity} were to be shipped, {now} are left; this change or another client shipped them"
    )
}

/// Checks that a shipment is the effect of a change in doubt.
///
/// Its lines and quantities must be equal, and no other change may own it. `items` are the order lines and
/// quantities of its items. `owner` is the change that the shipment belongs to already.
///
/// The error is a sentence with the difference.
pub(crate) fn check_adoption(
    claimed: &[ClaimedLine],
    items: &[(LineItemId, i64)],
    owner: Option<ChangeId>,
) -> Result<(), String> {
    if let Some(owner) = owner {
        return Err(format!("the shipment already belongs to change {owner}; name another"));
    }
    let mut wanted: BTreeMap<LineItemId, i64> = BTreeMap::new();
    claimed.iter().for_each(|line| *wanted.entry(line.line_item_id).or_default() += line.quantity);
    let mut found: BTreeMap<LineItemId, i64> = BTreeMap::new();
    items.iter().for_each(|(line, quantity)| *found.entry(*line).or_default() += quantity);
    match wanted.keys().chain(found.keys()).find(|line| wanted.get(line) != found.get(line)) {
        Some(line) => {
            let count = |lines: &BTreeMap<LineItemId, i64>| lines.get(line).copied().unwrap_or(0);
            let (wanted, shipped) = (count(&wanted), count(&found));
            Err(format!(
                "of line {line} the change ships {wanted} units and the shipment has {shipped}; name another"
            ))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
