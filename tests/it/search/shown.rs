//! What a value shows of itself (`Debug`), made comparable: without what is no state of it, and with times counted from now.
//!
//! It is read as text because what is private has no other way out, and because a field that is added later is then part
//! of the state without a word here.

/// Without every part that begins with `part`, which opens a brace, to where that is closed.
pub(crate) fn without(text: &str, part: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = text.find(part) {
        let end = at + part.len() + closing(&text[at + part.len()..]);
        text.replace_range(at..end, "");
    }
    text
}

/// Where the brace that is open is closed.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    let end = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Every number behind `name`, by another.
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
