//! Decides tracking changes, and tracking changes in doubt (docs/rules.md 15, 16).
//!
//! Each item is judged by itself, after a fresh read. An item with the same number is done, and an item
//! without a number is sent. Another number is a conflict: then nothing of the change is sent. The request
//! always names the items, because a submit without lines would ship everything left.

use super::ChangePlan;
use super::in_doubt::{EffectCheck, Settlement, judge_absence};
use super::read_admission::READS_APART;
use crate::model::{LineItemId, ShipmentItemId, Timestamp};
use crate::outbox::{LineRef, Reason, TrackingInfo, TrackingLine, TrackingSubmit};
use std::collections::BTreeMap;
use std::time::Duration;

/// A shipment item, as just read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemFact {
    pub item_id: ShipmentItemId,
    /// Order line of the item, if the platform states it.
    pub line_item_id: Option<LineItemId>,
    /// True if the item has shipped.
    pub is_shipped: bool,
    pub tracking_number: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackingItem {
    pub item_id: ShipmentItemId,
    /// Values of the line, with the change's values as default.
    pub info: TrackingInfo,
}

/// Decides a tracking change by its shipment's items as just read; `None` asks for the read. `Send` carries
/// every item to name; none if all have their number, and the change is applied without a call.
pub(crate) fn plan_tracking(
    change: &TrackingSubmit,
    items: Option<&[ItemFact]>,
) -> ChangePlan<Vec<TrackingItem>> {
    let Some(items) = items else { return ChangePlan::ReadFirst };
    if items.is_empty() {
        let detail = "the platform lists no items of the shipment; check it there".into();
        return ChangePlan::Held { reason: Reason::NotShown, detail };
    }
    let wanted = match &change.lines {
        Some(lines) => named_items(lines, &change.info, items),
        None => Ok(unshipped_items(items).into_iter().map(|item| (item, change.info.clone())).collect()),
    };
    wanted.map_or_else(|stop| stop, plan_items)
}

fn named_items<'a>(
    lines: &[TrackingLine],
    base: &TrackingInfo,
    items: &'a [ItemFact],
) -> Result<Vec<(&'a ItemFact, TrackingInfo)>, ChangePlan<Vec<TrackingItem>>> {
    let mut named = Vec::new();
    for TrackingLine { line, info } in lines {
        let is_named = |item: &&ItemFact| match *line {
            LineRef::Item(id) => item.item_id == id,
            LineRef::OrderLine(id) => item.line_item_id == Some(id),
        };
        let before = named.len();
        named.extend(items.iter().filter(is_named).map(|item| (item, with_defaults(info, base))));
        if named.len() == before {
            return Err(ChangePlan::Held { reason: Reason::NotShown, detail: foreign_line(*line) });
        }
    }
    Ok(named)
}

fn foreign_line(line: LineRef) -> String {
    match line {
        LineRef::Item(id) => format!("item {id} does not belong to the shipment; correct `line_item_id`"),
        LineRef::OrderLine(id) => format!("order line {id} is not in the shipment; correct `line_item_id`"),
    }
}

/// Returns the items that have not shipped.
///
/// If all items have shipped, returns all, to compare their numbers.
fn unshipped_items(items: &[ItemFact]) -> Vec<&ItemFact> {
    let left: Vec<&ItemFact> = items.iter().filter(|item| !item.is_shipped).collect();
    if left.is_empty() { items.iter().collect() } else { left }
}

fn plan_items(wanted: Vec<(&ItemFact, TrackingInfo)>) -> ChangePlan<Vec<TrackingItem>> {
    let mut entries = Vec::new();
    for (item, info) in wanted {
        let requested = info.tracking_number.as_deref().map(number_case_key).unwrap_or_default();
        match item.tracking_number.as_deref().and_then(shown_number) {
            None => entries.push(TrackingItem { item_id: item.item_id, info }),
            Some(shown) if shown == requested => {}
            Some(shown) => {
                let detail = conflict_detail(item.item_id, &shown, &requested);
                return ChangePlan::Held { reason: Reason::TrackingConflict, detail };
            }
        }
    }
    ChangePlan::Send(entries)
}

fn conflict_detail(item: ShipmentItemId, shown: &str, requested: &str) -> String {
    format!(
        "item {item} has tracking number `{shown}` and the change has `{requested}`; correct it at the platform"
    )
}

/// Tracking number of each item of a shipment, if it has one.
pub(crate) type ItemNumbers = BTreeMap<ShipmentItemId, Option<String>>;

/// Judges a tracking without an answer by the checks of its shipment since, oldest first. `claimed` are the
/// items with their numbers. `HadNoEffect` may concern a part of the items; the next plan finds them.
pub(crate) fn settle_tracking(
    claimed: &[(ShipmentItemId, String)],
    sent_at: Timestamp,
    quiet: Duration,
    checks: &[EffectCheck<ItemNumbers>],
) -> Settlement {
    let Some(last) = checks.last() else { return Settlement::CheckAgain { not_before: sent_at } };
    let shown = |numbers: &ItemNumbers, item: ShipmentItemId| {
        numbers.get(&item).and_then(Option::as_deref).and_then(shown_number)
    };
    let all = |numbers: &ItemNumbers| {
        claimed.iter().all(|(item, sent)| shown(numbers, *item) == Some(number_case_key(sent)))
    };
    if all(&last.shown) {
        return Settlement::TookEffect(None);
    }
    for (item, sent) in claimed {
        if let Some(shown) = shown(&last.shown, *item).filter(|shown| *shown != number_case_key(sent)) {
            let detail = conflict_detail(*item, &shown, sent);
            return Settlement::Undecided { reason: Reason::TrackingConflict, detail };
        }
    }
    judge_absence(checks, |numbers| !all(numbers), sent_at, quiet, READS_APART)
}

/// Returns a line's values, with the change's values as default (docs/interface.md, *Submit tracking info*).
fn with_defaults(line: &TrackingInfo, base: &TrackingInfo) -> TrackingInfo {
    let either = |line: &Option<String>, base: &Option<String>| line.clone().or_else(|| base.clone());
    TrackingInfo {
        carrier_id: line.carrier_id.or(base.carrier_id),
        tracking_number: either(&line.tracking_number, &base.tracking_number),
        tracking_url: either(&line.tracking_url, &base.tracking_url),
        estimated_delivery_date: either(&line.estimated_delivery_date, &base.estimated_delivery_date),
    }
}

/// Returns the number that an item shows in its form for comparison; `None` for a blank number.
fn shown_number(number: &str) -> Option<String> {
    Some(number_case_key(number)).filter(|number| !number.is_empty())
}

/// Returns the number in its form for comparison: case and outer blanks do not count.
fn number_case_key(number: &str) -> String {
    number.trim().to_uppercase()
}

#[cfg(test)]
mod tests;
