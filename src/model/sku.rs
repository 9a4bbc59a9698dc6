//! SKUs in the platform's spelling, and their case key.

use serde::{Deserialize, Serialize};
use std::fmt;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Maximum size of a SKU in bytes, far above the SKUs printed on labels.
const SKU_MAX_BYTES: usize = 256;

/// A SKU in its exact spelling. Equality is exact; [`Sku::case_key`] gives the case key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Sku(String);

/// The reason that a text is no SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkuError {
    #[error("a SKU must not be empty")]
    Empty,
    #[error("a SKU must not be longer than {SKU_MAX_BYTES} bytes")]
    TooLong,
    /// A control character, which no label contains and which breaks logs.
    #[error("a SKU must not contain control characters")]
    ControlCharacter,
}

impl Sku {
    /// Returns the SKU in the given spelling.
    ///
    /// Quotes, accents, slashes and inner blanks are ordinary characters.
    ///
    /// Fails with [`SkuError`] for a blank, too long or invalid text.
    pub(crate) fn new(text: impl Into<String>) -> Result<Self, SkuError> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(SkuError::Empty);
        }
        if text.len() > SKU_MAX_BYTES {
            return Err(SkuError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(SkuError::ControlCharacter);
        }
        Ok(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the case key ([`case_key`]). SKUs with one case key may be one product at the platform, so
    /// they never share a call (docs/rules.md 8).
    pub(crate) fn case_key(&self) -> String {
        case_key(&self.0)
    }
}

/// Returns the case key of a text: trimmed and without case, for every script.
///
/// Lower case alone is not enough: a capital sigma has two small forms, which depend on its position, and `ß`
/// has the capital form `SS`. A pass through the capitals gives all spellings the same key.
pub(crate) fn case_key(text: &str) -> String {
    text.trim().to_lowercase().to_uppercase().to_lowercase()
}

/// Returns the key of a text that looks alike: its case key without marks on letters, blanks and characters that nobody
/// sees, such as a zero-width space or a soft hyphen.
///
/// Texts with one such key may be different names, so it serves suggestions alone.
pub(crate) fn look_alike_key(text: &str) -> String {
    let is_seen = |c: &char| !c.is_whitespace() && !is_combining_mark(*c) && !is_invisible(*c);
    case_key(&text.nfkd().filter(is_seen).collect::<String>())
}

/// Returns true for the characters that Unicode lets a program show as nothing.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}')
}

impl fmt::Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for Sku {
    type Error = SkuError;
    fn try_from(text: String) -> Result<Self, SkuError> {
        Self::new(text)
    }
}

impl From<Sku> for String {
    fn from(sku: Sku) -> Self {
        sku.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_spellings_are_skus_and_blanks_are_not() {
        for text in ["A", "Ä-1/2 \"x\"", " padded ", "100%_'"] {
            assert_eq!(Sku::new(text).unwrap().as_str(), text);
        }
        assert_eq!(Sku::new(" \t"), Err(SkuError::Empty));
        assert_eq!(Sku::new("a\nb"), Err(SkuError::ControlCharacter));
        assert_eq!(Sku::new("x".repeat(257)), Err(SkuError::TooLong));
    }

    #[test]
    fn spellings_of_one_sku_have_one_case_key() {
        let key = |text: &str| Sku::new(text).unwrap().case_key();
        for (one, other) in
            [(" Éa ", "éA"), ("ΟΔΟΣ-1", "οδοσ-1"), ("ΟΔΟΣ", "οδος"), ("Maß", "MASS"), ("İ", "i̇")]
        {
            assert_eq!(key(one), key(other), "{one} {other}");
        }
        assert_ne!(key("A"), key("Ä"));
    }

    #[test]
    fn texts_that_look_alike_have_one_key() {
        for (one, other) in [
            ("Ä-1", "A\u{308}-1"),
            ("Ä-1", "ä\u{200b}-\u{ad}1\u{feff}"),
            ("A 1", "\u{a0}A\u{2009}1"),
            ("ﬁ-１", "fi-1"),
            ("A", "A\u{fe0f}\u{2060}"),
        ] {
            assert_eq!(look_alike_key(one), look_alike_key(other), "{one:?} {other:?}");
        }
        assert_ne!(look_alike_key("A-1"), look_alike_key("A1"));
    }
}
