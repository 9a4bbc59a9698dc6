//! SKUs in the platform's spelling, and their case key.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum size of a SKU in bytes, far above the SKUs printed on labels.
const SKU_MAX_BYTES: usize = 256;

/// A SKU in its exact spelling. Equality is exact; [`Sku::case_key`] gives the case key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Sku(String);

/// The reason that a text is no SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkuError {
    /// Empty or blank.
    #[error("a SKU must not be empty")]
    Empty,
    /// Longer than [`SKU_MAX_BYTES`].
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
    /// # Errors
    /// [`SkuError`] for a blank, too long or invalid text.
    pub fn new(text: impl Into<String>) -> Result<Self, SkuError> {
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

    /// Returns the spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the case key ([`case_key`]).
    ///
    /// SKUs with one case key may be one product at the platform, so they never share a call
    /// (docs/rules.md 12).
    pub fn case_key(&self) -> String {
        case_key(&self.0)
    }
}

/// Returns the case key of a text: trimmed and without case, for every script.
///
/// Lower case alone is not enough: a capital sigma has two small forms, which depend on its position, and `ß`
/// has the capital form `SS`. A pass through the capitals gives all spellings the same key.
pub fn case_key(text: &str) -> String {
    text.trim().to_lowercase().to_uppercase().to_lowercase()
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
}
