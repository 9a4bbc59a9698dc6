//! Comparable `Debug` output of a value: without parts that are no state, and with times relative to now.
//!
//! It is parsed as text because private fields have no other access. A field that is added later is part of
//! the state without a change here.

/// Removes every part that begins with `part`, which opens a brace, up to its closing brace.
pub(crate) fn without(text: &str, part: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = text.find(part) {
        let end = at + part.len() + closing(&text[at + part.len()..]);
        text.replace_range(at..end, "");
    }
    text
}

/// Returns the position of the closing brace.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    let end = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Replaces every number behind `name`.
pub(crate) fn renamed(text: &str, name: &str, mut other: impl FnMut(i64) -> i64) -> String {
    let mut parts = text.split(name);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(part.len());
        let number = part[..end].parse().map_or(0, &mut other);
        out.push_str(&format!("{name}{number}{}", &part[end..]));
    }
    out
}
