//! Tests of shipment requests, and of shipments in doubt.

use super::super::in_doubt::tests::{check_again_at as again, check_at};
use super::*;
use crate::model::OrderId;

/// Returns line `id` of order 5, with `sold` units sold and `left` units in no shipment.
fn line(id: i64, sold: i64, left: Option<i64>) -> OrderLine {
    OrderLine {
        order_id: OrderId(5),
        line_item_id: LineItemId(id),
        sku: None,
        product_id: None,
        quantity_sold: sold,
        quantity_left: left,
        unit_price: None,
        supplier_id: None,
        warehouse_id: None,
    }
}

/// Named lines, each with its quantity if it is named.
type NamedLines<'a> = Option<&'a [(i64, Option<i64>)]>;

/// Order as read, and true if a shipment of it is known.
type ReadOrder<'a> = (Option<&'a OrderSnapshot>, bool);

fn change(lines: NamedLines<'_>) -> ShipmentCreate {
    let line = |&(id, quantity): &(i64, Option<i64>)| ShipmentLine { line_item_id: LineItemId(id), quantity };
    ShipmentCreate { order_id: OrderId(5), lines: lines.map(|lines| lines.iter().map(line).collect()) }
}

fn claimed(id: i64, quantity: i64, left_before: Option<i64>) -> ClaimedLine {
    ClaimedLine { line_item_id: LineItemId(id), quantity, left_before }
}

#[test]
fn what_is_sent_names_lines_and_quantities_or_a_whole_order_without_a_shipment() {
    let whole = [line(1, 2, Some(2)), line(2, 9, Some(4)), line(3, 1, Some(0))];
    let silent = [line(1, 2, None), line(2, 9, Some(4))];
    let (new, none_left) = ([line(1, 2, None), line(2, 9, Some(9)), line(3, 0, None)], [line(1, 2, Some(0))]);
    let known = |lines: &[OrderLine]| OrderSnapshot {
        lines: lines.to_vec(),
        has_unreadable: false,
        is_complete: true,
    };
    let with_rope = |lines: &[OrderLine]| OrderSnapshot { has_unreadable: true, ..known(lines) };
    let [rope, only_rope, new_rope] = [&whole[..], &none_left, &new].map(with_rope);
    let [whole, silent, new, none_left, empty] = [&whole[..], &silent, &new, &none_left, &[]].map(known);
    let long = OrderSnapshot { is_complete: false, ..whole.clone() };
    let [rope, only_rope, new_rope] = [&rope, &only_rope, &new_rope].map(|order| (Some(order), false));
    let [whole, silent, none_left, empty, long] =
        [&whole, &silent, &none_left, &empty, &long].map(|order| (Some(order), false));
    let (new, shipped) = ((Some(&new), false), (Some(&new), true));
    // Columns: name, named lines, order and true if a shipment of it is known, plan.
    let cases: [(&str, NamedLines<'_>, ReadOrder<'_>, &str); 23] = [
        ("not read just now", None, (None, false), "read"),
        ("no such order", None, empty, "held not_shown"),
        ("more than one page", None, long, "held not_shown"),
        ("all that is left", None, whole, "1x2, 2x4"),
        ("a line, all that is left of it", Some(&[(2, None)]), whole, "2x4"),
        ("a line and a quantity", Some(&[(2, Some(3))]), whole, "2x3"),
        ("a single one", Some(&[(2, Some(1))]), whole, "2x1"),
        ("none of it", Some(&[(2, Some(0))]), whole, "held too_little_left"),
        ("more than is left", Some(&[(2, Some(5))]), whole, "held too_little_left"),
        ("one line of two is short", Some(&[(1, None), (3, Some(1))]), whole, "held too_little_left"),
        ("a line with nothing left", Some(&[(3, None)]), whole, "held too_little_left"),
        ("nothing left", None, none_left, "held too_little_left"),
        ("another order's line", Some(&[(9, Some(1))]), whole, "held not_shown"),
        ("left is not said, quantity is", Some(&[(1, Some(2))]), silent, "1x2"),
        ("left is not said, more than sold", Some(&[(1, Some(3))]), silent, "held too_little_left"),
        ("left is not said, and a part is gone", None, silent, "held not_shown"),
        ("left is not said of a new order", None, new, "whole 1x2, whole 2x9"),
        ("left is not said, and there is a shipment", None, shipped, "held not_shown"),
        ("left is not said, and a line is unreadable", None, new_rope, "held not_shown"),
        ("all that can be read", None, rope, "1x2, 2x4"),
        ("a readable line beside rope", Some(&[(2, None)]), rope, "2x4"),
        ("the rope", Some(&[(9, Some(1))]), rope, "held not_shown"),
        ("nothing but the rope", None, only_rope, "held not_shown"),
    ];
    for (name, lines, (order, has_shipment), expected) in cases {
        let change = change(lines);
        let plan = plan_shipment(&change, order, has_shipment);
        let claimed = |line: &ClaimedLine| {
            let whole = if is_whole_order(&change, &[*line]) { "whole " } else { "" };
            format!("{whole}{}x{}", line.line_item_id, line.quantity)
        };
        assert_eq!(plan.in_short(claimed), expected, "{name}");
    }
}

fn check(second: i64, left: &[(i64, i64)]) -> EffectCheck<UnitsLeft> {
    check_at(second, left.iter().map(|(id, left)| (LineItemId(*id), *left)).collect())
}

#[test]
fn a_drop_in_what_is_left_never_proves_that_it_was_ours() {
    let sent = [claimed(1, 2, Some(5))];
    let had_none = Some(Settlement::HadNoEffect);
    let cases = [
        ("no check", vec![], Some(again(100))),
        ("5 left, this change's 2 lost, a person ships 2: 3 left", vec![check(131, &[(1, 3)])], None),
        ("less than the change ships dropped", vec![check(131, &[(1, 4)])], None),
        ("more is left than before", vec![check(131, &[(1, 7)])], None),
        ("the platform no longer says", vec![check(131, &[])], None),
        ("unchanged: it may still be carried out", vec![check(131, &[(1, 5)])], Some(again(700))),
        ("unchanged twice, late", vec![check(700, &[(1, 5)]), check(705, &[(1, 5)])], had_none),
        ("dropped between the checks", vec![check(700, &[(1, 5)]), check(705, &[(1, 3)])], None),
    ];
    for (name, checks, expected) in cases {
        let settlement = settle_shipment(&sent, Timestamp(100_000), &checks);
        let is_another = matches!(settlement, Settlement::Undecided { reason: Reason::LandedOrAnother, .. });
        assert_eq!((!is_another).then_some(settlement), expected, "{name}");
    }
}

#[test]
fn the_evidence_names_its_numbers() {
    let settlement = settle_shipment(&[claimed(1, 2, Some(5))], Timestamp(0), &[check(31, &[(1, 3)])]);
    let Settlement::Undecided { detail, .. } = settlement else { panic!("{settlement:?}") };
    let numbers = "line 1: 5 were left, 2 were to be shipped, 3 are left; ";
    assert_eq!(detail, format!("{numbers}this change or another client shipped them"));
}

#[test]
fn a_matching_shipment_without_an_owner_is_adopted() {
    let wanted = [claimed(1, 2, Some(2)), claimed(2, 3, Some(9))];
    let differs = |line, wanted, shipped| {
        format!("of line {line} the change ships {wanted} units and the shipment has {shipped}")
    };
    let cases = [
        ("the same", vec![(2, 3), (1, 2)], None, None),
        ("a line split in two items", vec![(1, 1), (1, 1), (2, 3)], None, None),
        ("another quantity", vec![(1, 2), (2, 4)], None, Some(differs(2, 3, 4))),
        ("a line more", vec![(1, 2), (2, 3), (3, 1)], None, Some(differs(3, 0, 1))),
        ("a line fewer", vec![(1, 2)], None, Some(differs(2, 3, 0))),
        ("another change's", vec![(1, 2), (2, 3)], Some(8), Some("belongs to change 8".into())),
    ];
    for (name, items, owner, expected) in cases {
        let items: Vec<_> = items.iter().map(|(line, quantity)| (LineItemId(*line), *quantity)).collect();
        match (check_adoption(&wanted, &items, owner.map(ChangeId)), expected) {
            (Ok(()), None) => {}
            (Err(why), Some(expected)) => assert!(why.contains(&expected), "{name}: {why}"),
            (found, expected) => panic!("{name}: expected {expected:?}, found {found:?}"),
        }
    }
}

#[test]
fn where_the_service_does_not_say_what_is_left_no_numbers_are_made_up() {
    for (sent, check) in [
        (claimed(1, 2, None), check(31, &[(1, 3)])),
        (claimed(1, 2, Some(5)), check(31, &[])),
        (claimed(1, 2, None), check(31, &[])),
    ] {
        let settlement = settle_shipment(&[sent], Timestamp(0), &[check]);
        let Settlement::Undecided { detail, .. } = settlement else { panic!("{settlement:?}") };
        assert!(detail.starts_with("the platform does not state the quantity left"), "{sent:?}: {detail}");
    }
}
