//! Reasons for people: sentences that hold words of the service or of other programs.

/// Enough for any sentence that a person reads; what was said in full stands in the journal.
pub const REASON_MAX_CHARS: usize = 1_000;

/// A reason as it is kept and logged. A service that answers a megabyte must not fill tables and log with it.
pub fn cut_reason(text: impl Into<String>) -> String {
    let mut text = text.into();
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
