//! Quantities: whole units, as the platform's 32-bit `QuantityOnHand`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Units of a stock level. The platform may show a negative quantity (oversold); tallyd writes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quantity(pub i64);

impl Quantity {
    /// Largest quantity of the platform's int32.
    pub(crate) const MAX: Quantity = Quantity(i32::MAX as i64);
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the integer of a JSON number: 28 for `28` and `28.0`, `None` for `2.5` and `1e30`.
pub(crate) fn json_integer(number: &serde_json::Number) -> Option<i64> {
    /// Above 2^53 a double is not exact for integers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    #[allow(clippy::cast_possible_truncation, reason = "a whole number below 2^53 fits exactly")]
    (float.fract() == 0.0 && float.abs() < EXACT).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_however_they_are_spelled() {
        let cases = [
            ("28", Some(28)),
            ("28.0", Some(28)),
            ("-3.0", Some(-3)),
            ("2.5", None),
            ("1e2", Some(100)),
            ("1e30", None),
            ("123456789012345678901234567890", None),
        ];
        for (text, expected) in cases {
            let number: serde_json::Number = serde_json::from_str(text).unwrap();
            assert_eq!(json_integer(&number), expected, "{text}");
        }
    }
}
