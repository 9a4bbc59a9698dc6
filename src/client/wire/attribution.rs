//! Attribution of messages to the entries of a quantity update (docs/rules.md 12).
//!
//! The interface only states that a message is prefixed with the zero-based index of its entry. The spelling
//! of the prefix is not documented, and a SKU may look like an index. A message is therefore used only if it begins
//! with an index of the call and a colon, and names no other SKU of the call. The number of indexed entries must agree
//! with the status. Otherwise the whole call is read back, because a wrong attribution would complete a refused
//! change, while a read costs one call.

use super::{UpdateAnswer, UpdateStatus};
use crate::model::{Sku, case_key};
use std::collections::BTreeMap;

/// Returns the refused entries of a call, given by their SKUs in the call's order, with the platform's reasons.
/// `None`: the answer leaves open which entries were applied, so all stock levels of the call must be read.
pub fn attribute_messages(answer: &UpdateAnswer, skus: &[Sku]) -> Option<Vec<(usize, String)>> {
    let call = CallSkus::new(skus);
    let mut reasons: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let lines = answer.messages.iter().flat_map(|message| message.lines());
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let (index, reason) = call.entry_of(line)?;
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

/// SKUs of a call for the search in messages: case keys with their entries, the longest first. With the
/// longest first, `AB-1-X` is not taken for `AB-1`.
struct CallSkus(Vec<(String, usize)>);

impl CallSkus {
    fn new(skus: &[Sku]) -> Self {
        let mut case_keys: Vec<_> =
            skus.iter().enumerate().map(|(index, sku)| (sku.case_key(), index)).collect();
        case_keys.sort_by_key(|(case_key, _)| std::cmp::Reverse(case_key.len()));
        Self(case_keys)
    }

    /// Returns the entry that a message refuses, and the reason; `None` in case of any doubt.
    fn entry_of<'a>(&self, message: &'a str) -> Option<(usize, &'a str)> {
        let (is_worded, digits, reason) = index_prefix(message)?;
        let index = digits.parse().ok()?;
        // A bare `4711:` may be a SKU instead of an index.
        let named = self.skus_in(message).into_iter().filter(|(key, _)| !(is_worded && key == digits));
        let is_certain = index < self.0.len() && named.into_iter().all(|(_, entry)| *entry == index);
        is_certain.then_some((index, reason))
    }

    /// Returns the SKUs that occur in a text as whole words, the longest match at each position.
    fn skus_in(&self, text: &str) -> Vec<&(String, usize)> {
        let text = case_key(text);
        let mut named = Vec::new();
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            let starts_word = !text[..at].ends_with(char::is_alphanumeric);
            match self.0.iter().find(|(case_key, _)| starts_word && begins_with_word(&text[at..], case_key)) {
                Some(sku) => {
                    named.push(sku);
                    at += sku.0.len();
                }
                None => at += next.len_utf8(),
            }
        }
        named
    }
}

fn begins_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

const INDEX_WORDS: [&str; 5] = ["index", "entry", "item", "row", "line"];

/// Parses `Index 1: …`, `1: …`, `[1]: …`, `#1: …`, `Entry (1): …` and the like. Returns the flag of an index word, the
/// digits, and the reason.
fn index_prefix(message: &str) -> Option<(bool, &str, &str)> {
    let (head, reason) = message.split_once(':')?;
    let (before, digits) = head.split_at(head.find(|c: char| c.is_ascii_digit())?);
    let word = before.trim_matches([' ', '[', '(', '#']).to_ascii_lowercase();
    let is_worded = INDEX_WORDS.contains(&word.as_str());
    // `1:30` is a time of day.
    let is_index = (is_worded || word.is_empty()) && !reason.starts_with(|c: char| c.is_ascii_digit());
    is_index.then(|| (is_worded, digits.trim_end_matches([' ', ']', ')']), reason.trim_start()))
}

#[cfg(test)]
mod tests;
