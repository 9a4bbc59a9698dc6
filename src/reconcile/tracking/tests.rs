//! Tests of tracking changes: named items, completed items and conflicts.

use super::super::in_doubt::tests::{check_again_at as again, check_at};
use super::*;
use crate::model::ShipmentId;
use crate::outbox::ShipmentRef;

/// Returns item `id` of order line `id + 100`, with its number.
fn item(id: i64, number: Option<&str>, is_shipped: bool) -> ItemFact {
    ItemFact {
        item_id: ShipmentItemId(id),
        line_item_id: Some(LineItemId(id + 100)),
        is_shipped,
        tracking_number: number.map(str::to_owned),
    }
}

fn info(number: Option<&str>, carrier_id: Option<i64>) -> TrackingInfo {
    TrackingInfo { carrier_id, tracking_number: number.map(str::to_owned), ..TrackingInfo::default() }
}

/// Returns a change with number T and carrier 3, for all lines or the given lines.
fn change(lines: Option<Vec<TrackingLine>>) -> TrackingSubmit {
    TrackingSubmit {
        shipment: ShipmentRef::Id(ShipmentId(9)),
        info: info(Some("T"), Some(3)),
        shipped_date: None,
        lines,
    }
}

fn by_item(id: i64) -> TrackingLine {
    TrackingLine { line: LineRef::Item(ShipmentItemId(id)), info: TrackingInfo::default() }
}

fn by_order_line(id: i64) -> TrackingLine {
    TrackingLine { line: LineRef::OrderLine(LineItemId(id)), info: TrackingInfo::default() }
}

#[test]
fn each_item_is_judged_by_the_number_it_carries() {
    /// Number of each item, and true if the item has shipped.
    type Numbers<'a> = &'a [(Option<&'a str>, bool)];
    // Columns: name, named line, numbers of the items, plan.
    let cases: [(&str, Option<TrackingLine>, Numbers<'_>, &str); 14] = [
        ("none", None, &[(None, false), (Some(" "), false)], "1 T, 2 T"),
        ("the same, folded, is done", None, &[(Some(" t "), false), (None, false)], "2 T"),
        ("all the same: nothing to send", None, &[(Some("T"), false)], ""),
        ("another number", None, &[(None, false), (Some("U"), false)], "held tracking_conflict"),
        ("shipped under another: left out", None, &[(Some("U"), true), (None, false)], "2 T"),
        ("all shipped under it", None, &[(Some("T"), true)], ""),
        ("all shipped under another", None, &[(Some("U"), true)], "held tracking_conflict"),
        ("only the named", Some(by_item(2)), &[(None, false), (None, false)], "2 T"),
        ("a named one under another", Some(by_item(1)), &[(Some("U"), true)], "held tracking_conflict"),
        ("an order line is translated", Some(by_order_line(102)), &[(None, false), (None, false)], "2 T"),
        ("an item of another shipment", Some(by_item(8)), &[(None, false)], "held not_shown"),
        ("an order line is no item", Some(by_order_line(1)), &[(None, false)], "held not_shown"),
        ("an item is no order line", Some(by_item(101)), &[(None, false)], "held not_shown"),
        ("no items", None, &[], "held not_shown"),
    ];
    let number = |entry: &TrackingItem| {
        format!("{} {}", entry.item_id, entry.info.tracking_number.as_deref().unwrap())
    };
    for (name, line, items, expected) in cases {
        let items = (1..).zip(items).map(|(id, (number, is_shipped))| item(id, *number, *is_shipped));
        let items: Vec<ItemFact> = items.collect();
        let plan = plan_tracking(&change(line.map(|line| vec![line])), Some(&items));
        assert_eq!(plan.in_short(number), expected, "{name}");
    }
    assert_eq!(plan_tracking(&change(None), None), ChangePlan::ReadFirst);
}

#[test]
fn a_line_uses_its_own_values_before_those_of_the_change() {
    let own = TrackingLine { info: info(Some("V"), None), ..by_item(1) };
    let items = [item(1, None, false)];
    let ChangePlan::Send(entries) = plan_tracking(&change(Some(vec![own])), Some(&items)) else { panic!() };
    assert_eq!(entries, [TrackingItem { item_id: ShipmentItemId(1), info: info(Some("V"), Some(3)) }]);
}

/// Returns a check at second `second` with the numbers of items 1 and 2.
fn check(second: i64, one: Option<&str>, two: Option<&str>) -> EffectCheck<ItemNumbers> {
    let numbers = [(1, one), (2, two)].map(|(id, n)| (ShipmentItemId(id), n.map(str::to_owned)));
    check_at(second, numbers.into())
}

#[test]
fn a_tracking_in_doubt_took_effect_once_every_item_has_its_number() {
    let claimed = [(ShipmentItemId(1), "T".to_owned()), (ShipmentItemId(2), "U".to_owned())];
    let (took_effect, had_none) = (Some(Settlement::TookEffect(None)), Some(Settlement::HadNoEffect));
    let (t, u) = (Some(" t"), Some("U"));
    // Sent at second 100, quiet until 160.
    let cases = [
        ("no check", vec![], Some(again(100))),
        ("both, at once", vec![check(101, t, u)], took_effect.clone()),
        ("one of them, once", vec![check(160, t, None)], Some(again(165))),
        ("none, before the quiet time", vec![check(101, None, None)], Some(again(160))),
        ("none, twice after it", vec![check(160, None, Some("")), check(165, None, None)], had_none),
        ("late", vec![check(160, None, None), check(165, t, u)], took_effect),
        ("another number: a person decides", vec![check(101, t, Some("X"))], None),
    ];
    for (name, checks, expected) in cases {
        let judged = settle_tracking(&claimed, Timestamp(100_000), Duration::from_secs(60), &checks);
        match expected {
            Some(expected) => assert_eq!(judged, expected, "{name}"),
            None => {
                let Settlement::Undecided { reason, .. } = judged else { panic!("{name}: {judged:?}") };
                assert_eq!(reason, Reason::TrackingConflict, "{name}");
            }
        }
    }
}

#[test]
fn a_line_that_is_not_in_the_shipment_is_named_in_its_own_id_space() {
    let cases = [(by_item(8), "item 8 does not belong"), (by_order_line(1), "order line 1 is not in")];
    for (line, expected) in cases {
        let plan = plan_tracking(&change(Some(vec![line])), Some(&[item(1, None, false)]));
        let ChangePlan::Held { detail, .. } = plan else { panic!("{plan:?}") };
        assert!(detail.starts_with(expected), "{detail}");
    }
}
