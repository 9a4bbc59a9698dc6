//! Decides tracking changes, and tracking changes in doubt (docs/rules.md 24, 25).
//!
//! Each item is judged by itself, after a fresh read. An item with the same number is done, and an item
//! without a number is sent. Another number is a conflict: then nothing of the change is sent. The request
//! always names the items, because a submit without lines would ship everything left.

use super::Plan;
use super::in_doubt::{Settlement, absent};
use super::read_admission::LOOKS_APART;
use crate::model::{LineItemId, ShipmentItemId, Timestamp};
use crate::outbox::{LineRef, Reason, TrackingInfo, TrackingLine, TrackingSubmit};
use std::collections::BTreeMap;
use std::time::Duration;

/// A shipment item, as just read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Item id.
    pub item_id: ShipmentItemId,
    /// Order line of the item, if the platform states it.
    pub line_item_id: Option<LineItemId>,
    /// True if the item has shipped.
    pub is_shipped: bool,
    /// Tracking number of the item.
    pub tracking_number: Option<String>,
}

/// A line of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Shipment item.
    pub item_id: ShipmentItemId,
    /// Values of the line, with the change's values as default.
    pub info: TrackingInfo,
}

/// Decides a tracking change by its shipment's items as just read; `None` asks for the read.
///
/// `Go` carries every item to name. An empty list means that all items have their number, and the change is
/// applied without a call.
pub fn plan(wish: &TrackingSubmit, items: Option<&[Item]>) -> Plan<Vec<Entry>> {
    let Some(items) = items else { return Plan::Read };
    if items.is_empty() {
        let detail = "the service lists no items of the shipment; look at it there".into();
        return Plan::Lacking { reason: Reason::Undecided, detail };
    }
    let wanted = match &wish.lines {
        Some(lines) => named(lines, &wish.info, items),
        None => Ok(remaining(items).into_iter().map(|item| (item, wish.info.clone())).collect()),
    };
    wanted.map_or_else(|stop| stop, judge)
}

/// Returns the items that the change names, with their values.
fn named<'a>(
    lines: &[TrackingLine],
    base: &TrackingInfo,
    items: &'a [Item],
) -> Result<Vec<(&'a Item, TrackingInfo)>, Plan<Vec<Entry>>> {
    let mut named = Vec::new();
    for TrackingLine { line, info } in lines {
        let meant = |item: &&Item| match *line {
            LineRef::Item(id) => item.item_id == id,
            LineRef::OrderLine(id) => item.line_item_id == Some(id),
        };
        let before = named.len();
        named.extend(items.iter().filter(meant).map(|item| (item, falling_back(info, base))));
        if named.len() == before {
            return Err(Plan::Lacking { reason: Reason::ForeignLine, detail: foreign(*line) });
        }
    }
    Ok(named)
}

fn foreign(line: LineRef) -> String {
    match line {
        LineRef::Item(id) => format!("item {id} does not belong to the shipment; correct `line_item_id`"),
        LineRef::OrderLine(id) => format!("order line {id} is not in the shipment; correct `line_item_id`"),
    }
}

/// Returns the items that have not shipped.
///
/// If all items have shipped, returns all, to compare their numbers.
fn remaining(items: &[Item]) -> Vec<&Item> {
    let left: Vec<&Item> = items.iter().filter(|item| !item.is_shipped).collect();
    if left.is_empty() { items.iter().collect() } else { left }
}

fn judge(wanted: Vec<(&Item, TrackingInfo)>) -> Plan<Vec<Entry>> {
    let mut entries = Vec::new();
    for (item, info) in wanted {
        let ours = info.tracking_number.as_deref().map(fold).unwrap_or_default();
        match item.tracking_number.as_deref().map(fold).filter(|number| !number.is_empty()) {
            None => entries.push(Entry { item_id: item.item_id, info }),
            Some(theirs) if theirs == ours => {}
            Some(theirs) => {
                let id = item.item_id;
                let detail =
                    format!("item {id} carries `{theirs}` and the wish says `{ours}`; correct it there");
                return Plan::Held { reason: Reason::TrackingConflict, detail };
            }
        }
    }
    Plan::Go(entries)
}

/// A check of the shipment after the send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Time of the request.
    pub sent_at: Timestamp,
    /// Tracking number of each item, if it has one.
    pub numbers: BTreeMap<ShipmentItemId, Option<String>>,
}

/// Judges a tracking without an answer by the checks since, oldest first.
///
/// `claimed` are the items with their numbers. `NotLanded` may concern a part of the items; the next plan
/// finds them.
pub fn settle(
    claimed: &[(ShipmentItemId, String)],
    sent_at: Timestamp,
    quiet: Duration,
    looks: &[Look],
) -> Settlement<()> {
    let Some(last) = looks.last() else { return Settlement::LookAgain { not_before: sent_at } };
    let carried = |look: &Look, item: ShipmentItemId| {
        let number = look.numbers.get(&item).cloned().flatten();
        number.map(|number| fold(&number)).filter(|number| !number.is_empty())
    };
    let all = |look: &Look| claimed.iter().all(|(item, ours)| carried(look, *item) == Some(fold(ours)));
    if all(last) {
        return Settlement::Landed(());
    }
    for (item, ours) in claimed {
        if let Some(theirs) = carried(last, *item).filter(|theirs| *theirs != fold(ours)) {
            let detail =
                format!("item {item} carries `{theirs}` and the wish says `{ours}`; correct it there");
            return Settlement::Undecided { reason: Reason::TrackingConflict, detail };
        }
    }
    let lacking = looks.iter().rev().take_while(|look| !all(look));
    let mut absent_at: Vec<Timestamp> = lacking.map(|look| look.sent_at).collect();
    absent_at.reverse();
    absent(&absent_at, sent_at, quiet, LOOKS_APART)
}

/// Returns a line's values, with the change's values as default (docs/interface.md, *Submit tracking info*).
fn falling_back(line: &TrackingInfo, base: &TrackingInfo) -> TrackingInfo {
    let either = |line: &Option<String>, base: &Option<String>| line.clone().or_else(|| base.clone());
    TrackingInfo {
        carrier_id: line.carrier_id.or(base.carrier_id),
        tracking_number: either(&line.tracking_number, &base.tracking_number),
        tracking_url: either(&line.tracking_url, &base.tracking_url),
        estimated_delivery_date: either(&line.estimated_delivery_date, &base.estimated_delivery_date),
    }
}

/// Returns the number in its form for comparison: case and outer blanks do not count.
fn fold(number: &str) -> String {
    number.trim().to_uppercase()
}

#[cfg(test)]
mod tests;
