//! Parses JSON and rejects objects with duplicate fields.
//!
//! SQLite takes the first of two equal fields, serde_json's map takes the last. The trigger that stores the
//! base of a count and the push would then use different stock levels. `MapPreventDuplicates` of serde_with
//! covers typed maps only, not a `Value` at every depth.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Parses a JSON text; the error names the first invalid character or duplicate field.
pub(crate) fn parse_unique_json(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<UniqueKeysJson>(text).map(|once| once.0)
}

/// A value without duplicate fields at any depth.
struct UniqueKeysJson(Value);

impl<'de> Deserialize<'de> for UniqueKeysJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor).map(UniqueKeysJson)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(UniqueKeysJson(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, UniqueKeysJson(value))) = access.next_entry::<String, UniqueKeysJson>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!("`{name}` occurs twice; remove one")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_json_is_read_as_serde_json_reads_it() {
        let text = r#"{"a":[1,-2,2.5,"x",null,true],"b":{"c":{}},"d":18446744073709551615}"#;
        assert_eq!(parse_unique_json(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_duplicate_field_is_refused_at_every_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"b":[{"a":1,"a":2}]}"#] {
            assert!(parse_unique_json(text).unwrap_err().to_string().contains("`a` occurs twice"), "{text}");
        }
    }
}
