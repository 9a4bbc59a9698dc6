//! Masks the account's keys in every text from outside: answers, their headers, and the output of a command.
//!
//! A gateway or proxy may quote the request in an error, and answers are stored as received. Only the
//! transport has both the keys and the answer, so it masks every answer. Keys shorter than
//! [`MASKED_BYTES_MIN`] are not masked, because they would match ordinary data; no account has such a key.
//!
//! A character counts however it is spelled: as itself, with an escape of JSON, also of JSON quoted in JSON, with an
//! escape of a URL, or with a number of HTML. A key is visible ASCII, so no pair of surrogates spells it. A text is
//! not decoded: the search compares each spelling in place, and only a text with an escape pays for it. A key in
//! base64 or in parts is not found.

use memchr::{memchr, memchr3, memmem::Finder};
use reqwest::header::HeaderValue;
use std::ops::Range;

/// Shortest key masked; shorter keys occur in tests only.
const MASKED_BYTES_MIN: usize = 8;
/// Bytes of the longest number of HTML that spells an ASCII character, with leading zeros.
const ENTITY_BYTES_MAX: usize = 12;

/// Overwrites each spelling of a key. Whole escapes are overwritten, so JSON stays valid.
pub(super) fn mask_keys(text: &mut [u8], keys: &[HeaderValue]) {
    let has_escapes = memchr3(b'\\', b'%', b'&', text).is_some();
    for key in keys.iter().map(HeaderValue::as_bytes).filter(|key| key.len() >= MASKED_BYTES_MIN) {
        let plain = Finder::new(key);
        let mut from = 0;
        while let Some(found) = match has_escapes {
            true => find_spelled(text, key, from),
            false => plain.find(&text[from..]).map(|at| from + at..from + at + key.len()),
        } {
            from = found.end;
            text[found].fill(b'*');
        }
    }
}

/// Returns the first place at or behind `from` that spells the key.
fn find_spelled(text: &[u8], key: &[u8], mut from: usize) -> Option<Range<usize>> {
    let (first, rest) = key.split_first()?;
    loop {
        let begins = |byte: &u8| byte == first || matches!(byte, b'\\' | b'%' | b'&');
        let at = from + text[from..].iter().position(begins)?;
        let end = spelling_len(&text[at..], *first).and_then(|len| {
            rest.iter().try_fold(at + len, |end, byte| Some(end + spelling_len(&text[end..], *byte)?))
        });
        if let Some(end) = end.filter(|end| *end > at) {
            return Some(at..end);
        }
        from = at + backslashes_len(&text[at..]).max(1);
    }
}

/// Returns the length of the spelling of a character at the beginning of a text.
fn spelling_len(text: &[u8], character: u8) -> Option<usize> {
    let slashes = backslashes_len(text);
    let text = &text[slashes..];
    let entity_len = || memchr(b';', &text[..text.len().min(ENTITY_BYTES_MAX)]).unwrap_or(0);
    let (digits, radix, len) = match text {
        [b'u', ..] if slashes > 0 => (1..5, 16, 5),
        [b'%', ..] => (1..3, 16, 3),
        [b'&', b'#', b'x' | b'X', ..] => (3..entity_len(), 16, entity_len() + 1),
        [b'&', b'#', ..] => (2..entity_len(), 10, entity_len() + 1),
        _ => (0..0, 10, 0),
    };
    let digits = text.get(digits).and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.and_then(|digits| u8::from_str_radix(digits, radix).ok()) {
        Some(number) if number == character => Some(slashes + len),
        // Any number of backslashes may stand before a character, so one of the key is among them.
        _ if character == b'\\' => Some(0),
        _ => (text.first() == Some(&character)).then_some(slashes + 1),
    }
}

/// Returns the length of the backslashes at the beginning of a text. Each level of JSON in JSON doubles them, or
/// writes the inner ones as `u005c` behind one.
fn backslashes_len(text: &[u8]) -> usize {
    let mut len = 0;
    loop {
        match &text[len..] {
            [b'\\', ..] => len += 1,
            rest if len > 0 && rest.get(..5).is_some_and(|code| code.eq_ignore_ascii_case(b"u005c")) => {
                len += 5
            }
            _ => return len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_overwritten_wherever_they_stand_and_nothing_else_is() {
        let keys = ["planted-key-1", "other-key-22", "k"].map(HeaderValue::from_static);
        let cases = [
            ("no key here", "no key here"),
            ("planted-key-1", "*************"),
            ("a planted-key-1planted-key-1 b", "a ************************** b"),
            ("{\"seen\":\"other-key-22\",\"k\":1}", "{\"seen\":\"************\",\"k\":1}"),
            ("planted-key-", "planted-key-"),
            ("pplanted-key-1", "p*************"),
            ("", ""),
        ];
        for (before, after) in cases {
            let mut body = before.as_bytes().to_vec();
            mask_keys(&mut body, &keys);
            assert_eq!(String::from_utf8(body).unwrap(), after);
        }
    }

    /// Rows: a text with a spelling of the key between `<` and `>`.
    #[test]
    fn a_key_is_masked_however_its_characters_are_spelled() {
        let every = r#"ab+/\"'&<%u~"#;
        let keys = [HeaderValue::from_str(every).unwrap()];
        let each = |spell: &dyn Fn(char) -> String| every.chars().map(spell).collect::<String>();
        let json = |text: &str| serde_json::to_string(text).unwrap().trim_matches('"').to_owned();
        let spellings = [
            every.to_owned(),
            each(&|c| format!("\\u{:04x}", c as u32)),
            each(&|c| format!("\\u{:04X}", c as u32)),
            json(every),
            json(every).replace('/', r"\/").replace('+', r"\u002B"),
            json(&json(&json(&each(&|c| format!("\\u{:04x}", c as u32))))),
            each(&|c| format!("\\u{:04x}", c as u32)).replace('\\', r"\u005C"),
            each(&|c| format!("%{:02X}", c as u32)),
            each(&|c| format!("&#x{:x};", c as u32)),
            each(&|c| format!("&#{};", c as u32)),
        ];
        for spelled in spellings {
            let mut body = format!(r#"{{"M":"\u00e9\n<{spelled}>\\ & 100 %"}}"#).into_bytes();
            mask_keys(&mut body, &keys);
            let stars = "*".repeat(spelled.len());
            assert_eq!(String::from_utf8(body).unwrap(), format!(r#"{{"M":"\u00e9\n<{stars}>\\ & 100 %"}}"#));
        }
    }

    #[test]
    fn what_only_resembles_a_spelling_stays() {
        let keys = [HeaderValue::from_static("planted+key/1")];
        let others = [
            r"planted\u002Ckey/1",
            r"planted\u002",
            "planted%2",
            "planted&#43key/1",
            "planted&#;key",
            r"\",
            "&",
        ];
        for other in others {
            let mut body = other.as_bytes().to_vec();
            mask_keys(&mut body, &keys);
            assert_eq!(String::from_utf8(body).unwrap(), other);
        }
    }
}
