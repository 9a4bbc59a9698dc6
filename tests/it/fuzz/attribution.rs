//! The entries of a quantity update that a message refuses.
//!
//! A simulated platform, which has the truth, reports it in some spelling. It may write the index in any
//! form, name the SKU in its place, or report something else; a SKU may look like an index. Invariants: each
//! entry has at most one verdict, and none lies outside the call. If the answer is accepted without reading
//! back, exactly the entries that the platform refused are refused.

use super::choices::Choices;
use crate::client::wire::{UpdateAnswer, UpdateStatus, attribute_messages};
use crate::model::Sku;
use std::collections::BTreeSet;

/// SKUs, among them those that look like an index or like a word before one.
const SKUS: &[&str] = &[
    "A", "B", "AB-1", "AB-1-X", "1", "2", "0", "01", "1-A", "2 x", "Item 1", "Index 0", "ß", "İ", "1:30",
    "[1]", "#2", "4711", "active", "1.", "entry", "A 1", "0-0", "3)",
];
/// Beginnings of a message about entry `{i}`.
const LEADS: &[&str] = &[
    "Index {i}: ",
    "index {i} - ",
    "[{i}] ",
    "{i}: ",
    "#{i} ",
    "Entry ({i}): ",
    "updates[{i}]: ",
    "({i}) ",
    "{i} - ",
    "Row {i}, ",
    "{i}): ",
    "[{i}]: ",
    "#{i}: ",
];
/// Ends of the message; `{s}` is the SKU of the entry.
const REASONS: &[&str] = &[
    "no active product",
    "no active product with the SKU {s} was found",
    "{s} is unknown",
    "'{s}'",
    "",
    "quantity is too large",
    "the warehouse is not linked",
];

/// Checks one answer to one call.
pub(crate) fn check(data: &[u8]) {
    let mut choices = Choices::new(data);
    if choices.below(4) == 0 {
        return raw(&mut choices);
    }
    let skus = skus(&mut choices);
    let spelling = choices.of(LEADS);
    let names_sku = choices.below(4) == 0;
    let (mut refused, mut messages) = (BTreeSet::new(), Vec::new());
    for (index, sku) in skus.iter().enumerate() {
        if choices.below(2) == 0 {
            continue;
        }
        refused.insert(index);
        let reason = choices.of(REASONS).replace("{s}", sku.as_str());
        let lead = spelling.replace("{i}", &index.to_string());
        // A platform that names the SKU instead of the index adds no misleading text.
        messages.push(if names_sku { format!("{sku}: gone") } else { format!("{lead}{reason}") });
    }
    let status = match refused.len() {
        0 => UpdateStatus::Success,
        count if count == skus.len() => UpdateStatus::Failure,
        _ => UpdateStatus::PartialSuccess,
    };
    let found = attribute_messages(&UpdateAnswer { status, messages: messages.clone() }, &skus);
    consistent(found.as_deref(), skus.len());
    let answer = found.map(|found| found.into_iter().map(|(index, _)| index).collect::<BTreeSet<usize>>());
    assert!(
        answer.as_ref().is_none_or(|answer| *answer == refused),
        "{messages:?} of {skus:?}: {answer:?} instead of {refused:?}"
    );
}

/// Checks arbitrary text: only the form of the result can be judged.
fn raw(choices: &mut Choices<'_>) {
    let skus = skus(choices);
    let statuses = [UpdateStatus::Success, UpdateStatus::PartialSuccess, UpdateStatus::Failure];
    let status = choices.of(&statuses);
    let messages = String::from_utf8_lossy(choices.rest()).split('\0').map(str::to_owned).collect();
    consistent(attribute_messages(&UpdateAnswer { status, messages }, &skus).as_deref(), skus.len());
}

/// Returns up to five SKUs of one call, with different case keys.
fn skus(choices: &mut Choices<'_>) -> Vec<Sku> {
    let mut case_keys = BTreeSet::new();
    let count = 1 + choices.below(5);
    let named = (0..count).filter_map(|_| Sku::new(choices.text(SKUS)).ok());
    let mut skus: Vec<Sku> = named.filter(|sku| case_keys.insert(sku.case_key())).collect();
    if skus.is_empty() {
        skus.extend(Sku::new("A"));
    }
    skus
}

/// Asserts that each entry has a single verdict: refused, or not.
fn consistent(found: Option<&[(usize, String)]>, entries: usize) {
    let found = found.unwrap_or_default();
    assert!(found.iter().all(|(index, _)| *index < entries), "an entry outside the call: {found:?}");
    assert!(found.is_sorted_by(|(one, _), (next, _)| one < next), "an entry was refused twice: {found:?}");
}
