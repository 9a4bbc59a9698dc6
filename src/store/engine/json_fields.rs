//! The JSON form of columns: times in RFC 3339, and stored JSON as JSON.

use crate::model::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Serializes milliseconds since 1970, or none.
pub(in crate::store) fn rfc3339<T, S>(ms: &T, to: S) -> Result<S::Ok, S::Error>
where
    T: Copy + Into<Option<i64>>,
    S: Serializer,
{
    let ms: Option<i64> = (*ms).into();
    ms.map(|ms| Timestamp(ms).to_rfc3339()).serialize(to)
}

/// Serializes JSON text as the value that it holds; null if it holds none.
pub(in crate::store) fn json_text<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()).serialize(to)
}

/// Deserializes a flag or none; SQLite writes a flag as 0 or 1.
pub(in crate::store) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Null => None,
        Value::Bool(flag) => Some(flag),
        number => Some(number != 0),
    })
}
