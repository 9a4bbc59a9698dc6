//! Text that both engines store.
//!
//! PostgreSQL refuses some texts that SQLite stores: U+0000, and in JSON the escape of U+0000 and half a surrogate
//! pair. Each becomes U+FFFD, with either engine, so that a replay has the same facts.

use std::borrow::Cow;

pub(crate) fn storable_text<'a>(text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    let text = text.into();
    if text.contains('\0') { text.replace('\0', "\u{FFFD}").into() } else { text }
}

/// Returns JSON without the escapes that PostgreSQL's JSON cannot hold.
pub(crate) fn storable_json<'a>(json: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    let json = json.into();
    if json.contains("\\u") { without_refused_escapes(&json).into() } else { json }
}

fn without_refused_escapes(text: &str) -> String {
    /// Returns the number of the escape at the begin of a text, if there is one.
    fn code_unit(text: &str) -> Option<u16> {
        text.strip_prefix("\\u")?.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok())
    }
    let (mut stored, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        stored.push_str(before);
        let second = escape.get(6..).and_then(code_unit);
        let (kept, length) = match (code_unit(escape), second) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (true, 12),
            (Some(0 | 0xD800..=0xDFFF), _) => (false, 6),
            (Some(_), _) => (true, 6),
            // The escaped character has one byte in JSON.
            (None, _) => (true, 2),
        };
        let (escape, tail) = escape.split_at_checked(length).unwrap_or((escape, ""));
        stored.push_str(if kept { escape } else { "\\ufffd" });
        rest = tail;
    }
    stored.push_str(rest);
    stored
}
