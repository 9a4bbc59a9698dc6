//! Tests of the brakes: the thresholds, the held changes, and the entries that do not count.

use super::*;
use crate::model::Sku;

const SETTINGS: BrakeSettings = BrakeSettings { max_zeroing_fraction: 0.2, max_quantity_jump: 0 };

/// Returns `count` writes in `warehouse`, completing the changes `first`, `first + 1` …
fn writes(first: i64, count: i64, warehouse: i64, from: i64, to: i64) -> Vec<ProjectedWrite> {
    let entry = |id: i64| ProjectedWrite {
        stock_level: StockLevel {
            sku: Sku::new(format!("S{id}")).unwrap(),
            warehouse_id: WarehouseId(warehouse),
        },
        from: Quantity(from),
        to: Quantity(to),
        is_counted: true,
        is_released: false,
        changes: vec![ChangeId(id)],
    };
    (first..first + count).map(entry).collect()
}

fn hours(hours: &[(i64, u64, u64)]) -> BTreeMap<WarehouseId, HourCounts> {
    let hour = |&(id, zeroed, non_zero)| (WarehouseId(id), HourCounts { zeroed, non_zero });
    hours.iter().map(hour).collect()
}

fn trips(
    projected: &[ProjectedWrite],
    hours: &BTreeMap<WarehouseId, HourCounts>,
    settings: BrakeSettings,
) -> Vec<BrakeTrip> {
    judge_brakes(projected, (1, 1), hours, settings)
}

fn ids(range: std::ops::Range<i64>) -> BTreeSet<ChangeId> {
    range.map(ChangeId).collect()
}

#[test]
fn a_flush_that_empties_too_much_of_what_is_there_trips() {
    // Columns: name, zeroed by the backlog, zeroed within the hour, non-zero at its start, trips.
    let cases = [
        ("a day's work", 9, 0, 10, false),
        ("ten of a hundred is a fifth at most", 20, 0, 100, false),
        ("more than a fifth", 21, 0, 100, true),
        ("at least ten", 10, 0, 12, true),
        ("dribble: one more after twenty", 1, 20, 100, true),
        ("dribble below the line", 1, 19, 100, false),
        ("nothing was known to be there", 10, 0, 0, true),
        ("twenty within the hour, none now", 0, 90, 100, false),
    ];
    for (name, now, zeroed, non_zero, expected) in cases {
        let tripped = trips(&writes(1, now, 1, 5, 0), &hours(&[(1, zeroed, non_zero)]), SETTINGS);
        assert_eq!(!tripped.is_empty(), expected, "{name}: {tripped:?}");
    }
}

#[test]
fn a_warehouse_is_judged_by_itself_and_with_the_others() {
    let known = hours(&[(1, 0, 20), (2, 0, 1000)]);
    let projected = [writes(1, 12, 1, 5, 0), writes(100, 12, 2, 5, 0)].concat();
    let tripped = trips(&projected, &known, SETTINGS);
    let [BrakeTrip::Zeroing { scope, zeroed_by_backlog, .. }] = tripped[..] else { panic!("{tripped:?}") };
    assert_eq!((scope, zeroed_by_backlog), (BrakeScope::Warehouse(WarehouseId(1)), 12));
    assert_eq!(tripped[0].changes(), &ids(1..13), "the other warehouse goes on");

    let many: Vec<ProjectedWrite> = (0..30).flat_map(|id| writes(id * 10, 9, id, 5, 0)).collect();
    let known: Vec<(i64, u64, u64)> = (0..30).map(|id| (id, 0, 40)).collect();
    let tripped = trips(&many, &hours(&known), SETTINGS);
    let [BrakeTrip::Zeroing { scope, zeroed_by_backlog, .. }] = tripped[..] else { panic!("{tripped:?}") };
    assert_eq!((scope, zeroed_by_backlog), (BrakeScope::Everywhere, 270));
}

#[test]
fn what_is_released_or_no_stock_or_no_change_does_not_count() {
    let known = hours(&[(1, 0, 20)]);
    let all_of = |change: fn(&mut ProjectedWrite)| {
        let mut projected = writes(1, 20, 1, 5, 0);
        projected.iter_mut().for_each(change);
        projected
    };
    let cases: [(&str, Vec<ProjectedWrite>); 5] = [
        ("released", all_of(|entry| entry.is_released = true)),
        ("kits, inactive, missing", all_of(|entry| entry.is_counted = false)),
        ("empty already", all_of(|entry| entry.from = Quantity(0))),
        ("below zero there", all_of(|entry| entry.from = Quantity(-3))),
        ("not to zero", all_of(|entry| entry.to = Quantity(1))),
    ];
    for (name, projected) in cases {
        assert_eq!(trips(&projected, &known, SETTINGS), [], "{name}");
    }
}

#[test]
fn a_trip_holds_the_zeroings_and_lets_the_rest_go() {
    let projected = [writes(1, 12, 1, 5, 0), writes(50, 5, 1, 5, 7)].concat();
    let tripped = trips(&projected, &hours(&[(1, 0, 20)]), SETTINGS);
    assert_eq!(tripped.iter().map(BrakeTrip::changes).collect::<Vec<_>>(), [&ids(1..13)]);
}

#[test]
fn what_does_not_count_trips_nothing_and_is_held_with_the_rest_of_its_feed() {
    let mut projected = [writes(1, 21, 1, 5, 0), writes(100, 30, 1, 5, 0)].concat();
    projected[21..].iter_mut().for_each(|entry| entry.is_counted = false);
    let [BrakeTrip::Zeroing { zeroed_by_backlog: now, changes, .. }] =
        &trips(&projected, &hours(&[(1, 0, 100)]), SETTINGS)[..]
    else {
        panic!("one trip");
    };
    assert_eq!((*now, changes.len()), (21, 51), "the numbers are of what counts");
    assert_eq!(trips(&projected[21..], &hours(&[(1, 30, 100)]), SETTINGS), []);
}

#[test]
fn a_jump_is_held_where_it_is_asked_for() {
    let settings = BrakeSettings { max_quantity_jump: 100, ..SETTINGS };
    let projected = [writes(1, 1, 1, 0, 100), writes(2, 1, 1, 0, 101), writes(3, 1, 1, 500, 1)].concat();
    let tripped = trips(&projected, &hours(&[]), settings);
    let [BrakeTrip::Jump { largest: (_, from, to), changes }] = &tripped[..] else { panic!("{tripped:?}") };
    assert_eq!((from, to, changes), (&Quantity(500), &Quantity(1), &ids(2..4)));
    assert_eq!(trips(&projected, &hours(&[]), SETTINGS), [], "0 is off");
}

#[test]
fn a_trip_names_its_numbers() {
    let zeroed = "12 stock levels would become 0, after 3 within the last hour, of";
    for (elsewhere, of) in [(20, "40 stock levels above 0"), (900, "20 stock levels above 0 in warehouse 1")]
    {
        let tripped = trips(&writes(1, 12, 1, 5, 0), &hours(&[(1, 3, 20), (2, 0, elsewhere)]), SETTINGS);
        assert_eq!(
            tripped.iter().map(BrakeTrip::to_string).collect::<Vec<_>>(),
            [format!("{zeroed} {of}; so many at once may be a mistake")]
        );
    }
    let settings = BrakeSettings { max_quantity_jump: 10, ..SETTINGS };
    let tripped = trips(&writes(1, 1, 1, 0, 90), &hours(&[]), settings);
    let jump = "1 change beyond the largest allowed jump, most of all S1 in warehouse 1 from 0 to 90";
    assert_eq!(tripped[0].to_string(), jump);
}

#[test]
fn an_answer_that_is_empty_where_anything_was_known_is_a_failure_in_a_shop_of_any_size() {
    let cases = [(0, 0, false), (1, 0, true), (9, 0, true), (5_000, 0, true), (5_000, 1, false)];
    for (known, returned, expected) in cases {
        assert_eq!(is_emptied_answer(known, returned), expected, "{known} {returned}");
    }
}

#[test]
fn an_answer_that_lacks_more_than_a_tenth_may_have_been_cut() {
    let cut =
        [(200, 0, false), (200, 20, false), (200, 21, true), (25, 2, false), (25, 3, true), (1, 1, true)];
    for (asked, absent, expected) in cut {
        assert_eq!(is_cut_answer(asked, absent), expected, "{absent} of {asked}");
    }
}
