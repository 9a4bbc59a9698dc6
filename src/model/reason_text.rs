//! Reason texts for operators, which contain messages of the platform or of other programs.

use super::storable_text;

/// Maximum characters of a reason. The journal contains the complete message.
pub(crate) const REASON_MAX_CHARS: usize = 1_000;

/// Returns the reason, truncated for storage and logs, as both engines store it.
///
/// An answer of a megabyte must not fill tables and log.
pub(crate) fn cut_reason(text: impl Into<String>) -> String {
    let mut text = storable_text(text.into()).into_owned();
    if let Some((at, _)) = text.char_indices().nth(REASON_MAX_CHARS) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters_and_a_short_one_stays() {
        let full = "ä".repeat(REASON_MAX_CHARS);
        assert_eq!(cut_reason(full.clone()), full);
        assert_eq!(cut_reason(full.clone() + "b"), full + "…");
        assert_eq!(cut_reason(String::new()), "");
    }
}
