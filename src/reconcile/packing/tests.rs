//! Tests of the packing: the bound, each entry once, no equal case keys, urgent entries first.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Returns SKUs by number; every second SKU has another spelling.
fn skus(numbers: &[usize]) -> Vec<Sku> {
    let spelled = |(index, number): (usize, &usize)| match index % 2 {
        0 => format!("sku-{number}"),
        _ => format!(" SKU-{number} "),
    };
    numbers.iter().enumerate().map(spelled).map(|text| Sku::new(text).unwrap()).collect()
}

fn entries<'a>(skus: &'a [Sku], urgent: &[bool]) -> Vec<PackingEntry<'a>> {
    skus.iter().zip(urgent).map(|(sku, urgent)| PackingEntry { sku, is_urgent: *urgent }).collect()
}

/// Returns max(⌈n/25⌉, most entries of one SKU), stated a second time.
fn bound(entries: &[PackingEntry<'_>], left: &BTreeSet<usize>) -> usize {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for index in left {
        *counts.entry(entries[*index].sku.case_key()).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    most.max(left.len().div_ceil(25))
}

fn packed(count: usize, number: impl Fn(usize) -> usize, urgent: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let skus = skus(&(0..count).map(number).collect::<Vec<_>>());
    let urgent: Vec<bool> = (0..count).map(urgent).collect();
    pack_calls(&entries(&skus, &urgent))
}

#[test]
fn the_number_of_calls_is_the_lower_bound() {
    // Columns: entries, distinct SKUs, calls.
    let usual = [(0, 1, 0), (1, 1, 1), (25, 25, 1), (26, 26, 2)];
    let repeated = [(3, 1, 3), (50, 10, 5), (51, 17, 3), (1000, 300, 40)];
    for (count, distinct, calls) in usual.into_iter().chain(repeated) {
        assert_eq!(packed(count, |index| index % distinct, |_| false).len(), calls, "{count} of {distinct}");
    }
}

#[test]
fn one_sku_in_many_warehouses_is_in_every_call_from_the_first() {
    // SKU 0 in four warehouses, and 76 others: four calls of 20 hold all, but SKU 0 must be in each call.
    let calls = packed(80, |index| index.saturating_sub(3), |_| false);
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|call| call.iter().filter(|index| **index < 4).count() == 1), "{calls:?}");
}

#[test]
fn entries_keep_their_order_where_nothing_else_decides() {
    let calls = packed(60, |index| index, |_| false);
    assert_eq!(calls.concat(), (0..60).collect::<Vec<_>>());
}

#[test]
fn an_operators_change_goes_first_and_keeps_the_bound() {
    let calls = packed(60, |index| index, |index| index == 59);
    assert_eq!((calls[0][0], calls.len()), (59, 3));
    let twin_of_the_urgent = packed(3, |_| 0, |index| index == 2);
    assert_eq!(twin_of_the_urgent, [[2], [0], [1]]);
}

#[test]
fn seventy_entries_of_forty_skus_take_the_fewest_calls() {
    let skus = skus(&(0..70).map(|index| index % 40).collect::<Vec<_>>());
    assert_eq!(pack_calls(&entries(&skus, &[false; 70])).len(), 3);
    assert!(pack_calls(&[]).is_empty());
}

proptest! {
    #[test]
    fn every_packing_keeps_every_promise(
        shape in prop::collection::vec((0..40_usize, prop::bool::weighted(0.2)), 0..160),
        spread in 1..40_usize,
    ) {
        let numbers: Vec<usize> = shape.iter().map(|(number, _)| number % spread).collect();
        let urgent: Vec<bool> = shape.iter().map(|(_, urgent)| *urgent).collect();
        let skus = skus(&numbers);
        let entries = entries(&skus, &urgent);
        let mut left: BTreeSet<usize> = (0..entries.len()).collect();
        let calls = pack_calls(&entries);
        prop_assert_eq!(calls.len(), bound(&entries, &left));
        for call in &calls {
            holds(&entries, &left, call)?;
            call.iter().for_each(|index| { left.remove(index); });
        }
        prop_assert!(left.is_empty(), "never packed: {left:?}");
    }
}

/// Checks a call, with `left` still to be packed.
fn holds(entries: &[PackingEntry<'_>], left: &BTreeSet<usize>, call: &[usize]) -> Result<(), TestCaseError> {
    let case_key = |index: &usize| entries[*index].sku.case_key();
    let count = |sku: &String| left.iter().filter(|index| case_key(index) == *sku).count();
    let calls = bound(entries, left);
    prop_assert!((1..=25).contains(&call.len()));
    prop_assert!(call.iter().all(|index| left.contains(index)), "twice: {call:?}");
    let in_call: BTreeSet<String> = call.iter().map(case_key).collect();
    prop_assert_eq!(in_call.len(), call.len(), "twins share a call");
    // An urgent entry waits only for an entry with its case key, or for entries that the bound demands.
    let waits = |index: &usize| entries[*index].is_urgent && !in_call.contains(&case_key(index));
    let needless = |index: &usize| !entries[*index].is_urgent && count(&case_key(index)) < calls;
    if left.iter().any(waits) {
        prop_assert!(!call.iter().any(needless), "an urgent entry waits needlessly: {call:?}");
    }
    // The urgent entries of a SKU come before its others.
    for index in call.iter().filter(|index| !entries[**index].is_urgent) {
        prop_assert!(
            !left.iter().any(|other| entries[*other].is_urgent && case_key(other) == case_key(index))
        );
    }
    Ok(())
}

#[test]
fn a_sku_that_must_be_in_every_call_stays_in_it_beside_many_operators_changes() {
    // SKU 0 in three warehouses, and an operator's change for each of 72 others: three full calls.
    let calls = packed(75, |index| index.saturating_sub(2), |index| index > 2);
    assert_eq!(calls.len(), 3, "{calls:?}");
}

#[test]
fn the_sku_with_most_operators_changes_goes_first_not_the_one_with_most_changes() {
    // SKU 25 has two urgent entries only. Each of the 25 others has an urgent entry and three bulk entries.
    let number = |index: usize| if index < 100 { index % 25 } else { 25 };
    let is_urgent = |index: usize| !(25..100).contains(&index);
    let calls = packed(102, number, is_urgent);
    let urgent_in = |call: &[usize]| call.iter().filter(|index| is_urgent(**index)).count();
    assert_eq!(calls.len(), 5);
    assert_eq!(urgent_in(&calls[0]) + urgent_in(&calls[1]), 27, "two calls carry all of them");
}
