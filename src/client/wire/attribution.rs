//! Attribution of messages to the entries of a quantity update (docs/rules.md 12).
//!
//! The interface only states that a message is prefixed with the zero-based index of its entry. The spelling
//! of the prefix is not documented, and a SKU may look like an index. A message is therefore used only if it begins
//! with an index of the call and a colon, and holds no other SKU of the call. The number of indexed entries must agree
//! with the status. Otherwise the whole call is read back, because a wrong attribution would complete a refused
//! change, while a read costs one call.

use super::{UpdateAnswer, UpdateStatus};
use crate::model::{Sku, case_key};
use std::collections::BTreeMap;

/// Returns the refused entries of a call, given by their SKUs in the call's order, with the platform's reasons.
/// `None`: the answer leaves open which entries were applied, so all stock levels of the call must be read.
pub(crate) fn attribute_messages(answer: &UpdateAnswer, skus: &[Sku]) -> Option<Vec<(usize, String)>> {
    let case_keys: Vec<String> = skus.iter().map(Sku::case_key).collect();
    let mut reasons: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let lines = answer.messages.iter().flat_map(|message| message.lines());
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let (index, reason) = refused_entry(line, &case_keys)?;
        reasons.entry(index).or_default().push(reason);
    }
    let is_implied = match answer.status {
        UpdateStatus::Success => reasons.is_empty(),
        UpdateStatus::PartialSuccess => (1..skus.len()).contains(&reasons.len()),
        UpdateStatus::Failure => reasons.len() == skus.len(),
        UpdateStatus::Unknown(_) => false,
    };
    is_implied.then(|| reasons.into_iter().map(|(index, texts)| (index, texts.join("; "))).collect())
}

/// Returns the entry that a message refuses, and the reason; `None` in case of any doubt.
fn refused_entry<'a>(message: &'a str, case_keys: &[String]) -> Option<(usize, &'a str)> {
    let (index, reason) = index_prefix(message)?;
    let (own, text) = (case_keys.get(index)?, case_key(message));
    let is_certain = case_keys.iter().all(|other| other == own || !text.contains(other));
    is_certain.then_some((index, reason))
}

/// Parses `Index 1: …`, `1: …`, `[1]: …`, `#1: …`, `Entry (1): …` and the like: the index and the reason.
fn index_prefix(message: &str) -> Option<(usize, &str)> {
    let (head, reason) = message.split_once(':')?;
    let (before, digits) = head.split_at(head.find(|c: char| c.is_ascii_digit())?);
    let word = before.trim_matches([' ', '[', '(', '#']).to_ascii_lowercase();
    let is_index = ["", "index", "entry", "item", "row", "line"].contains(&word.as_str());
    // `1:30` is a time of day.
    let is_time = reason.starts_with(|c: char| c.is_ascii_digit());
    let index = digits.trim_end_matches([' ', ']', ')']).parse().ok()?;
    (is_index && !is_time).then(|| (index, reason.trim_start()))
}

#[cfg(test)]
mod tests;
