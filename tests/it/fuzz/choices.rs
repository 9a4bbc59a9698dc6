//! Bytes read as decisions, so that a fuzzer of bytes can build values of any form.
//!
//! Equal bytes make equal decisions. After their end, every further decision is the first option. So each
//! prefix of an input is an input, and cutting the input off makes the value simpler.

use serde_json::{Map, Number, Value};

/// Greatest nesting of a generated value.
const DEPTH_MAX: usize = 4;

/// Bytes of the decisions not made yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte, 0 at the end.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Returns a number below `bound`, which is at most 256.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    /// Returns one of the options.
    pub(crate) fn of<T: Clone>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())].clone()
    }

    /// Returns all bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Returns a text: one of `words`, or up to 15 raw bytes.
    pub(crate) fn text(&mut self, words: &[&str]) -> String {
        let kind = self.byte();
        if kind < 192 && !words.is_empty() {
            return words[usize::from(kind) % words.len()].to_owned();
        }
        let (text, rest) = self.0.split_at(usize::from(kind % 16).min(self.0.len()));
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    /// Returns a JSON value whose texts and names come mostly from `words`.
    pub(crate) fn json(&mut self, words: &[&str]) -> Value {
        self.json_within(words, DEPTH_MAX)
    }

    fn json_within(&mut self, words: &[&str], depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 1),
            2 => Value::from(self.byte()),
            3 => self.odd_number(),
            4 | 5 => Value::String(self.text(words)),
            6 => (0..self.below(4)).map(|_| self.json_within(words, depth - 1)).collect(),
            _ => {
                let fields =
                    (0..self.below(6)).map(|_| (self.text(words), self.json_within(words, depth - 1)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Returns a number at a limit of its type.
    fn odd_number(&mut self) -> Value {
        let whole = [-1, 0, 1, i64::from(i32::MAX), i64::from(i32::MAX) + 1, i64::MAX, i64::MIN, 1 << 53];
        let fraction = [28.0, 0.5, -0.0, 1e15, 1e308, -7.25, 9_007_199_254_740_993.0, 2_147_483_648.0];
        match self.below(3) {
            0 => self.of(&whole).into(),
            1 => Number::from_f64(self.of(&fraction)).map_or(Value::Null, Value::Number),
            _ => u64::MAX.into(),
        }
    }

    /// Changes one place of `value`, selected by the decisions.
    pub(crate) fn change(&mut self, value: &mut Value, words: &[&str]) {
        let goes_on = self.below(4) > 0;
        match value {
            Value::Array(items) if goes_on && !items.is_empty() => {
                let at = self.below(items.len());
                self.change(&mut items[at], words);
            }
            Value::Object(fields) if goes_on && !fields.is_empty() => {
                let at = self.below(fields.len());
                let Some((_, field)) = fields.iter_mut().nth(at) else { return };
                self.change(field, words);
            }
            Value::Array(items) if !items.is_empty() => self.change_list(items, words),
            Value::Object(fields) if !fields.is_empty() => self.change_fields(fields, words),
            other => *other = self.json(words),
        }
    }

    fn change_list(&mut self, items: &mut Vec<Value>, words: &[&str]) {
        let at = self.below(items.len());
        match self.below(4) {
            0 => drop(items.remove(at)),
            1 => items.push(items[at].clone()),
            2 => items.insert(at, self.json(words)),
            _ => items[at] = self.json(words),
        }
    }

    fn change_fields(&mut self, fields: &mut Map<String, Value>, words: &[&str]) {
        let at = self.below(fields.len());
        let Some(name) = fields.keys().nth(at).cloned() else { return };
        match self.below(4) {
            0 => drop(fields.remove(&name)),
            1 => drop(fields.insert(self.text(words), self.json(words))),
            2 => {
                let value = fields.remove(&name).unwrap_or_default();
                fields.insert(self.text(words), value);
            }
            _ => drop(fields.insert(name, self.json(words))),
        }
    }
}
