//! Attribution of messages to the entries of a quantity update (docs/rules.md 12).
//!
//! The interface only states that a message is prefixed with the zero-based index of its entry. The spelling
//! of the prefix is not documented, and a SKU may look like an index. A message is therefore used only under
//! three conditions. It begins with an index of the call. It names no other SKU of the call and no other
//! index. The number of indexed entries agrees with the status. Otherwise the whole call is read back,
//! because a wrong attribution would complete a refused change, while a read costs one call.

use super::{UpdateAnswer, UpdateStatus};
use crate::model::{Sku, case_key};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribution {
    /// Index of the entry and the platform's reason, in the order of the
    /// entries. With `read_back` these are hints.
    pub refused: Vec<(usize, String)>,
    /// True if the answer leaves open which entries were applied. All stock levels of
    /// the call must then be read.
    pub read_back: bool,
}

/// Attributes the messages of an answer to the entries of its call, given by their SKUs in the call's order.
pub fn attribute_messages(answer: &UpdateAnswer, skus: &[Sku]) -> Attribution {
    let call = CallSkus::new(skus);
    let mut reasons: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut unmatched = false;
    let lines = answer.messages.iter().flat_map(|message| message.lines());
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        match call.entry_of(line) {
            Some((index, reason)) => reasons.entry(index).or_default().push(reason.to_owned()),
            None => unmatched = true,
        }
    }
    let as_implied = match answer.status {
        UpdateStatus::Success => reasons.is_empty(),
        UpdateStatus::PartialSuccess => (1..skus.len()).contains(&reasons.len()),
        UpdateStatus::Failure => reasons.len() == skus.len(),
        UpdateStatus::Unknown(_) => false,
    };
    let refused = reasons.into_iter().map(|(index, texts)| (index, texts.join("; "))).collect();
    Attribution { refused, read_back: unmatched || !as_implied }
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
        let IndexPrefix { index, digits, worded, reason } = IndexPrefix::parse(message)?;
        let in_reason = self.skus_in(reason);
        // A bare `4711:` may be a SKU instead of an index. It is an index behind an index word, or if the
        // reason names the SKU of that entry.
        let is_index = worded || in_reason.iter().any(|(_, named)| *named == index);
        // The whole message is searched, because `1-A: …` may be SKU `1-A` or entry 1 with SKU `A`.
        let in_whole = self.skus_in(message);
        let mut in_whole = in_whole.into_iter().filter(|(case_key, _)| !(is_index && case_key == digits));
        let doubtful = index >= self.0.len()
            || in_whole.any(|(_, named)| *named != index)
            || in_reason.into_iter().any(|(_, named)| *named != index)
            || indexes_in(reason).any(|named| named != index);
        (!doubtful).then_some((index, reason))
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

const INDEX_WORDS: [&str; 11] =
    ["index", "idx", "entry", "item", "element", "row", "line", "record", "position", "update", "array"];

struct IndexPrefix<'a> {
    index: usize,
    digits: &'a str,
    /// True if a word such as *Index* precedes the number.
    worded: bool,
    reason: &'a str,
}

impl<'a> IndexPrefix<'a> {
    /// Parses `Index 1: …`, `index 1 - …`, `1: …`, `[1] …`, `#1 …`, `Entry (1)
    /// …`, `updates[1]: …` and the like.
    fn parse(message: &'a str) -> Option<Self> {
        let (worded, text) = skip_words(message.trim_start_matches(OPENING));
        let (digits, after) = leading_digits(text)?;
        let before = &message[..message.len() - after.len() - digits.len()];
        let marked = worded || !before.trim().is_empty();
        Some(Self { index: digits.parse().ok()?, digits, worded, reason: reason_after_index(after, marked)? })
    }
}

const OPENING: [char; 7] = [' ', '[', '(', '{', '"', '\'', '#'];
const CLOSING: [char; 6] = [' ', ']', ')', '}', '"', '\''];
const SEPARATING: [char; 9] = [' ', '-', '–', '—', '.', ',', ';', '|', '>'];

/// Skips leading index words. The flag is true if there was one.
fn skip_words(text: &str) -> (bool, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    // `updates[1]` is an entry, but `Updates 1` may be a number of updates.
    let word = if after.starts_with('[') { word.trim_end_matches('s') } else { word };
    match INDEX_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)) {
        true => (true, skip_words(after.trim_start()).1),
        false => (false, text),
    }
}

fn leading_digits(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(OPENING).trim_start_matches([':', '=']).trim_start_matches(OPENING);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Returns the text after the digits of an index and its separator; `None` if the digits are no index.
/// Digits are no index if they are one of several numbers, part of a range, a fraction or a time of day, or
/// a number that begins a sentence.
fn reason_after_index(after: &str, marked: bool) -> Option<&str> {
    let closed = after.trim_start_matches(CLOSING);
    if let Some(rest) = closed.strip_prefix(':') {
        return (!rest.starts_with(|c: char| c.is_ascii_digit())).then(|| rest.trim_start());
    }
    let rest = closed.trim_start_matches(SEPARATING);
    let separator = after[..after.len() - rest.len()].trim();
    let glued = after.starts_with(char::is_alphanumeric);
    let word = rest.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_lowercase();
    let goes_on = rest.starts_with(|c: char| c.is_ascii_digit() || "[(#&+/%".contains(c))
        || ["and", "or", "to", "of", "through"].contains(&word.as_str());
    (!glued && !goes_on && (marked || !separator.is_empty())).then_some(rest)
}

/// Returns the indexes that a reason names by an index word, as in *same SKU as index 0*.
fn indexes_in(text: &str) -> impl Iterator<Item = usize> + '_ {
    let starts = text.char_indices().filter(|(at, _)| !text[..*at].ends_with(char::is_alphanumeric));
    starts.filter_map(|(at, _)| match skip_words(&text[at..]) {
        (true, rest) => leading_digits(rest)?.0.parse().ok(),
        (false, _) => None,
    })
}

#[cfg(test)]
mod tests;
