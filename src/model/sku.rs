//! A stock keeping unit as the service spells it, and the two ways in which spellings can be twins.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest SKU we accept, in bytes: far above what a platform prints on a label.
const SKU_MAX_BYTES: usize = 256;

/// A SKU in one exact spelling. Equality is exact; see [`Sku::fold`] for twins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Sku(String);

/// Why a text is no SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkuError {
    /// Nothing but white space.
    #[error("a SKU must not be empty")]
    Empty,
    /// Longer than [`SKU_MAX_BYTES`].
    #[error("a SKU must not be longer than {SKU_MAX_BYTES} bytes")]
    TooLong,
    /// A control character, which no label carries and every log would garble.
    #[error("a SKU must not contain control characters")]
    Control,
}

impl Sku {
    /// Takes a spelling as it is; quotes, accents, slashes and inner blanks are ordinary characters.
    pub fn new(text: impl Into<String>) -> Result<Self, SkuError> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(SkuError::Empty);
        }
        if text.len() > SKU_MAX_BYTES {
            return Err(SkuError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(SkuError::Control);
        }
        Ok(Self(text))
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key under which spellings of one SKU meet ([`fold`]): two SKUs of one fold may be one product to the service, so
    /// they never share a call (docs/reconciliation.md, rule 12).
    pub fn fold(&self) -> String {
        fold(&self.0)
    }
}

/// Trimmed and without case, for every script.
///
/// Lower case alone is not enough: a capital sigma becomes one of two small ones by its place in the word, and the capital
/// form of `ß` is `SS`. By way of the capitals all spellings end in one.
pub fn fold(text: &str) -> String {
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
        assert_eq!(Sku::new("a\nb"), Err(SkuError::Control));
        assert_eq!(Sku::new("x".repeat(257)), Err(SkuError::TooLong));
    }

    #[test]
    fn twins_have_one_fold() {
        for (one, other) in
            [(" Éa ", "éA"), ("ΟΔΟΣ-1", "οδοσ-1"), ("ΟΔΟΣ", "οδος"), ("Maß", "MASS"), ("İ", "i̇")]
        {
            assert_eq!(Sku::new(one).unwrap().fold(), Sku::new(other).unwrap().fold(), "{one} {other}");
        }
        assert_ne!(Sku::new("A").unwrap().fold(), Sku::new("Ä").unwrap().fold());
    }
}
