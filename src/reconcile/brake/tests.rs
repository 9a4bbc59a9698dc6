//! Tests of the brakes: the thresholds, the held changes, and the entries that do not count.

use super::*;
use crate::model::Sku;

const SETTINGS: Settings = Settings { hold_zeroing_over: 0.2, hold_jump_over: 0 };

/// Returns `count` writes in `warehouse`, completing the changes `first`, `first + 1` …
fn writes(first: i64, count: i64, warehouse: i64, from: i64, to: i64) -> Vec<Entry> {
    let entry = |id: i64| Entry {
        cell: Cell { sku: Sku::new(format!("S{id}")).unwrap(), warehouse_id: WarehouseId(warehouse) },
        from: Quantity(from),
        to: Quantity(to),
        counts: true,
        released: false,
        wishes: vec![WishId(id)],
    };
    (first..first + count).map(entry).collect()
}

fn hours(hours: &[(i64, u64, u64)]) -> BTreeMap<WarehouseId, Hour> {
    let hour = |&(id, zeroed, non_zero)| (WarehouseId(id), Hour { zeroed, non_zero });
    hours.iter().map(hour).collect()
}

fn trips(flush: &[Entry], hours: &BTreeMap<WarehouseId, Hour>, settings: Settings) -> Vec<Trip> {
    match judge(flush, hours, settings) {
        Brake::Clear => Vec::new(),
        Brake::Tripped(trips) => trips,
    }
}

fn ids(range: std::ops::Range<i64>) -> BTreeSet<WishId> {
    range.map(WishId).collect()
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
    let flush = [writes(1, 12, 1, 5, 0), writes(100, 12, 2, 5, 0)].concat();
    let tripped = trips(&flush, &known, SETTINGS);
    assert_eq!(tripped.len(), 1, "{tripped:?}");
    assert!(matches!(tripped[0], Trip::Zeroing { scope: Scope::Warehouse(WarehouseId(1)), now: 12, .. }));
    assert_eq!(tripped[0].wishes(), &ids(1..13), "the other warehouse goes on");

    let many: Vec<Entry> = (0..30).flat_map(|id| writes(id * 10, 9, id, 5, 0)).collect();
    let known: Vec<(i64, u64, u64)> = (0..30).map(|id| (id, 0, 40)).collect();
    let tripped = trips(&many, &hours(&known), SETTINGS);
    assert!(matches!(tripped[..], [Trip::Zeroing { scope: Scope::Everywhere, now: 270, .. }]), "{tripped:?}");
}

#[test]
fn what_is_released_or_no_stock_or_no_change_does_not_count() {
    let known = hours(&[(1, 0, 20)]);
    let all_of = |change: fn(&mut Entry)| {
        let mut flush = writes(1, 20, 1, 5, 0);
        flush.iter_mut().for_each(change);
        flush
    };
    let cases: [(&str, Vec<Entry>); 5] = [
        ("released", all_of(|entry| entry.released = true)),
        ("kits, inactive, missing", all_of(|entry| entry.counts = false)),
        ("empty already", all_of(|entry| entry.from = Quantity(0))),
        ("below zero there", all_of(|entry| entry.from = Quantity(-3))),
        ("not to zero", all_of(|entry| entry.to = Quantity(1))),
    ];
    for (name, flush) in cases {
        assert_eq!(judge(&flush, &known, SETTINGS), Brake::Clear, "{name}");
    }
}

#[test]
fn a_trip_holds_the_zeroings_and_lets_the_rest_go() {
    let flush = [writes(1, 12, 1, 5, 0), writes(50, 5, 1, 5, 7)].concat();
    let tripped = trips(&flush, &hours(&[(1, 0, 20)]), SETTINGS);
    assert_eq!(tripped.iter().map(Trip::wishes).collect::<Vec<_>>(), [&ids(1..13)]);
}

#[test]
fn what_does_not_count_trips_nothing_and_is_held_with_the_rest_of_its_feed() {
    let mut flush = [writes(1, 21, 1, 5, 0), writes(100, 30, 1, 5, 0)].concat();
    flush[21..].iter_mut().for_each(|entry| entry.counts = false);
    let [Trip::Zeroing { now, wishes, .. }] = &trips(&flush, &hours(&[(1, 0, 100)]), SETTINGS)[..] else {
        panic!("one trip");
    };
    assert_eq!((*now, wishes.len()), (21, 51), "the numbers are of what counts");
    assert_eq!(trips(&flush[21..], &hours(&[(1, 30, 100)]), SETTINGS), []);
}

#[test]
fn a_jump_is_held_where_it_is_asked_for() {
    let settings = Settings { hold_jump_over: 100, ..SETTINGS };
    let flush = [writes(1, 1, 1, 0, 100), writes(2, 1, 1, 0, 101), writes(3, 1, 1, 500, 1)].concat();
    let tripped = trips(&flush, &hours(&[]), settings);
    assert!(
        matches!(&tripped[..], [Trip::Jump { widest: (_, Quantity(500), Quantity(1)), .. }]),
        "{tripped:?}"
    );
    assert_eq!(tripped[0].wishes(), &ids(2..4));
    assert_eq!(judge(&flush, &hours(&[]), SETTINGS), Brake::Clear, "0 is off");
}

#[test]
fn a_trip_names_its_numbers() {
    let cases = [
        (20, "12 cells would become empty and 3 did within the hour, of 40 that were not"),
        (900, "12 cells would become empty and 3 did within the hour, of 20 that were not in warehouse 1"),
    ];
    for (elsewhere, sentence) in cases {
        let tripped = trips(&writes(1, 12, 1, 5, 0), &hours(&[(1, 3, 20), (2, 0, elsewhere)]), SETTINGS);
        assert_eq!(tripped.iter().map(Trip::to_string).collect::<Vec<_>>(), [sentence]);
    }
    let settings = Settings { hold_jump_over: 10, ..SETTINGS };
    let tripped = trips(&writes(1, 1, 1, 0, 90), &hours(&[]), settings);
    assert_eq!(tripped[0].to_string(), "1 wishes change a cell widely, S1 in warehouse 1 from 0 to 90");
}

#[test]
fn an_answer_that_is_empty_where_anything_was_known_is_a_failure_in_a_shop_of_any_size() {
    let cases = [(0, 0, false), (1, 0, true), (9, 0, true), (5_000, 0, true), (5_000, 1, false)];
    for (known, returned, expected) in cases {
        assert_eq!(looks_emptied(known, returned), expected, "{known} {returned}");
    }
}

#[test]
fn an_answer_that_lacks_more_than_a_tenth_may_have_been_cut() {
    let cut =
        [(200, 0, false), (200, 20, false), (200, 21, true), (25, 2, false), (25, 3, true), (1, 1, true)];
    for (asked, absent, expected) in cut {
        assert_eq!(looks_cut(asked, absent), expected, "{absent} of {asked}");
    }
}
