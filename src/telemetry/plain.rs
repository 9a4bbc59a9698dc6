//! Masking of text from outside before it reaches a terminal.
//!
//! A name from outside or a message of the platform must not move the cursor, clear the screen, change the
//! writing direction or be invisible.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns true for characters that control a terminal or are invisible. These are controls (C0, DEL, C1),
/// line and paragraph separators, and characters for direction, joining or annotation.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn mask_chars(text: &str, is_allowed: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_bad = |c: char| is_unsafe(c) && !is_allowed(c);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_bad(c) { char::REPLACEMENT_CHARACTER } else { c }).collect())
}

/// Returns the text as one line: U+FFFD replaces every unsafe character, line feeds and tabs included.
pub(crate) fn plain_line(text: &str) -> Cow<'_, str> {
    mask_chars(text, |_| false)
}

/// Masks like [`plain_line`], but keeps line feeds and tabs.
pub(crate) fn plain_lines(text: &str) -> Cow<'_, str> {
    mask_chars(text, |c| matches!(c, '\n' | '\t'))
}

/// Returns equivalent JSON with unsafe characters as escapes. Such a character occurs only within a string,
/// so an escape can replace it. JSON escapes C0 controls already; the line feeds of the layout stay.
pub(crate) fn plain_json(json: &str) -> Cow<'_, str> {
    let is_bad = |c: char| is_unsafe(c) && !c.is_ascii_control() || c == '\u{7f}';
    if !json.contains(is_bad) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_bad(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters of each range, and of its ends.
    const UNSAFE: &str = "\0\u{1}\t\n\r\u{1b}\u{1f}\u{7f}\u{80}\u{9b}\u{9f}\u{ad}\u{61c}\u{180e}\u{200b}\u{200f}\u{2028}\u{202a}\
                          \u{202e}\u{2060}\u{2066}\u{2069}\u{206f}\u{feff}\u{fff9}\u{e0000}\u{e007f}";

    #[test]
    fn each_unsafe_character_is_masked_and_others_stay() {
        for c in UNSAFE.chars() {
            assert_eq!(plain_line(&format!("a{c}b")), "a\u{fffd}b", "{:x}", u32::from(c));
        }
        let fine = "Lager „Süd“ 東京 – ½ × 3 المستودع 📦 a\u{301}\u{a0}";
        assert_eq!((plain_line(fine), plain_json(fine)), (fine.into(), fine.into()));
        assert_eq!(plain_lines("a\tb\n\u{1b}c"), "a\tb\n\u{fffd}c");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({ UNSAFE: [UNSAFE, 1] });
        for json in [value.to_string(), format!("{value:#}")] {
            let escaped = plain_json(&json);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
            assert_eq!(plain_lines(&escaped), escaped, "nothing is left to mask");
        }
    }
}
