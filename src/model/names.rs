//! Names that are written by hand, and what is said about one that is not known.

/// Minimum Jaro-Winkler similarity of a suggested name.
const SIMILARITY_MIN: f64 = 0.8;
/// Maximum characters of an invalid text in a message.
const SHOWN_MAX_CHARS: usize = 60;

/// Returns the known name most similar to `name`, if any is similar enough.
pub(crate) fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let scored = known.into_iter().map(|each| (strsim::jaro_winkler(&name, &each.to_lowercase()), each));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > SIMILARITY_MIN).then_some(best)
}

/// Returns the end of a sentence about a name that is none of the known ones.
pub(crate) fn name_hint(name: &str, known: &[&str]) -> String {
    match nearest_name(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// Returns a code for people, with blanks.
pub(crate) fn in_words(code: &str) -> String {
    code.replace('_', " ")
}

/// Returns a foreign text, truncated for a message.
pub(crate) fn shorten_text(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}
