//! Lenient reading of single JSON values: the platform writes 28 as `28.0`, omits fields, and writes null for
//! an empty list.
//!
//! There are three ways to read a field. [`req`] is for fields without which the record is unusable.
//! [`strict`] is for optional fields that must not be guessed (quantities). [`opt`] is for all others, which decide
//! nothing: an unreadable value counts as missing, be it half of a character or a number beyond all numbers. Blank
//! text counts as missing too. A number in text is accepted, so `"28"` is 28. A number in place of a text becomes
//! its digits. A missing list is no empty one where its absence would change facts.

use crate::model::{
    LineItemId, OrderId, ProductId, ShipmentId, ShipmentItemId, Sku, StorefrontId, SupplierId, Timestamp,
    WarehouseId, json_integer, storable_json, storable_text,
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

pub(crate) enum LooseValue<'a> {
    Nothing,
    Flag(bool),
    Whole(i64),
    Fraction(f64),
    Text(Cow<'a, str>),
    Nested,
}

pub(crate) trait FromLoose<'a>: Sized {
    const WHAT: &'static str;
    fn from_loose(loose: LooseValue<'a>) -> Option<Self>;
}

pub(crate) fn req<'de, D: Deserializer<'de>, T: FromLoose<'de>>(source: D) -> Result<T, D::Error> {
    read_or_fail(LooseValue::deserialize(source)?)
}

fn read_or_fail<'a, T: FromLoose<'a>, E: Error>(loose: LooseValue<'a>) -> Result<T, E> {
    T::from_loose(loose).ok_or_else(|| E::custom(format_args!("expected {}", T::WHAT)))
}

/// Reads an optional field, which must be readable unless missing or null.
pub(crate) fn strict<'de, D: Deserializer<'de>, T: FromLoose<'de>>(source: D) -> Result<Option<T>, D::Error> {
    match LooseValue::deserialize(source)? {
        LooseValue::Nothing => Ok(None),
        LooseValue::Text(text) if text.trim().is_empty() => Ok(None),
        loose => read_or_fail(loose).map(Some),
    }
}

/// Reads an optional field; an unreadable value counts as missing.
pub(crate) fn opt<'de, D: Deserializer<'de>, T: FromLoose<'de>>(source: D) -> Result<Option<T>, D::Error> {
    let raw = <&RawValue>::deserialize(source)?.get();
    Ok(serde_json::from_str(raw).ok().and_then(T::from_loose))
}

pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<LenientObject<T>>::deserialize(source)?;
    Ok(objects.into_iter().map(|LenientObject(object)| object).collect())
}

/// Reads a list of objects whose absence changes nothing; null is an empty one.
pub(crate) fn opt_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    source: D,
) -> Result<Vec<T>, D::Error> {
    let raw = <&RawValue>::deserialize(source)?;
    if raw.get() == "null" { Ok(Vec::new()) } else { list(raw).map_err(D::Error::custom) }
}

/// Reads messages: a list of texts, a single text, or null.
pub(crate) fn texts<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<String>, D::Error> {
    let raw = <&RawValue>::deserialize(source)?.get();
    let parts: Vec<&RawValue> = serde_json::from_str(raw)
        .or_else(|_| Ok(vec![serde_json::from_str(raw)?]))
        .map_err(|error: serde_json::Error| D::Error::custom(error))?;
    Ok(parts.into_iter().filter_map(message_text).collect())
}

/// Returns one message as text; an object is kept as its JSON.
fn message_text(raw: &RawValue) -> Option<String> {
    match serde_json::from_str(raw.get()).ok()? {
        LooseValue::Nested => Some(raw.get().to_owned()),
        loose => String::from_loose(loose),
    }
}

/// Reads an optional object; an unreadable one counts as missing.
pub(crate) fn nested<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    source: D,
) -> Result<Option<T>, D::Error> {
    let object = serde_json::from_str(<&RawValue>::deserialize(source)?.get()).ok();
    Ok(object.map(|LenientObject(object)| object))
}

/// A JSON object read as `T`. Serde would also read a list as `T`, its items as the fields in their
/// order, and give a wrong fact.
pub(crate) struct LenientObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for LenientObject<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(LenientObjectVisitor(PhantomData))
    }
}

struct LenientObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LenientObjectVisitor<T> {
    type Value = LenientObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(LenientObject)
    }
}

/// Keeps a part as JSON text that both engines store; null counts as missing.
pub(crate) fn json<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let raw = <&RawValue>::deserialize(source)?.get();
    Ok((raw != "null").then(|| storable_json(raw).into_owned()))
}

/// Keeps a raw part, null included.
pub(crate) fn present<'de, D: Deserializer<'de>>(source: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(source).map(Some)
}

impl<'a> FromLoose<'a> for i64 {
    const WHAT: &'static str = "a whole number";
    fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
        match loose {
            LooseValue::Whole(whole) => Some(whole),
            LooseValue::Fraction(number) => json_integer(&serde_json::Number::from_f64(number)?),
            LooseValue::Text(text) => json_integer(&text.trim().parse().ok()?),
            _ => None,
        }
    }
}

impl<'a> FromLoose<'a> for f64 {
    const WHAT: &'static str = "a number";
    fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
        match loose {
            #[allow(clippy::cast_precision_loss, reason = "amounts are shown, never computed with")]
            LooseValue::Whole(whole) => Some(whole as f64),
            LooseValue::Fraction(number) => Some(number),
            LooseValue::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }
}

impl<'a> FromLoose<'a> for bool {
    const WHAT: &'static str = "true or false";
    fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
        match loose {
            LooseValue::Flag(flag) => Some(flag),
            LooseValue::Whole(0) => Some(false),
            LooseValue::Whole(1) => Some(true),
            LooseValue::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "y" | "yes" | "1" => Some(true),
                "false" | "n" | "no" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }
}

impl<'a> FromLoose<'a> for Cow<'a, str> {
    const WHAT: &'static str = "a text";
    fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
        match loose {
            LooseValue::Text(text) if !text.trim().is_empty() => Some(storable_text(text)),
            LooseValue::Whole(whole) => Some(Cow::Owned(whole.to_string())),
            LooseValue::Fraction(number) => Some(Cow::Owned(number.to_string())),
            _ => None,
        }
    }
}

impl<'a> FromLoose<'a> for String {
    const WHAT: &'static str = "a text";
    fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
        Cow::from_loose(loose).map(Cow::into_owned)
    }
}

impl<'a> FromLoose<'a> for Sku {
    const WHAT: &'static str = "a SKU: a text of at most 256 bytes without control characters";
    fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
        match loose {
            // A number is refused, because 00123 and 123 are two SKUs but one number.
            LooseValue::Text(text) => Sku::new(text).ok(),
            _ => None,
        }
    }
}

impl<'a> FromLoose<'a> for Timestamp {
    const WHAT: &'static str = "a date or a date and time";
    fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
        match loose {
            LooseValue::Text(text) => Timestamp::parse(&text),
            _ => None,
        }
    }
}

macro_rules! read_ids {
    ($($id:ty),+ $(,)?) => {$(
        impl<'a> FromLoose<'a> for $id {
            const WHAT: &'static str = "an id: a whole number";
            fn from_loose(loose: LooseValue<'a>) -> Option<Self> {
                i64::from_loose(loose).map(Self::from)
            }
        }
    )+};
}

read_ids!(LineItemId, OrderId, ProductId, ShipmentId, ShipmentItemId, StorefrontId, SupplierId, WarehouseId);

impl<'de> Deserialize<'de> for LooseValue<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = LooseValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(LooseValue::Nothing)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(LooseValue::Flag(flag))
    }
    fn visit_i64<E>(self, whole: i64) -> Result<Self::Value, E> {
        Ok(LooseValue::Whole(whole))
    }
    fn visit_u64<E>(self, whole: u64) -> Result<Self::Value, E> {
        #[allow(clippy::cast_precision_loss, reason = "beyond 64 signed bits it is no id and no quantity")]
        Ok(i64::try_from(whole).map_or(LooseValue::Fraction(whole as f64), LooseValue::Whole))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(LooseValue::Fraction(number))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(LooseValue::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(LooseValue::Text(Cow::Owned(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(LooseValue::Nested)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(LooseValue::Nested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_loose<'a, T: FromLoose<'a>>(json: &'a str) -> Option<T> {
        T::from_loose(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        let cases = [
            ("28", Some(28)),
            ("28.0", Some(28)),
            ("\"28\"", Some(28)),
            ("\" 28.0 \"", Some(28)),
            ("-3", Some(-3)),
            ("9007199254740993", Some(9_007_199_254_740_993)),
            ("9223372036854775808", None),
            ("2.5", None),
            ("null", None),
            ("true", None),
            ("\"\"", None),
            ("\"many\"", None),
            ("{}", None),
            ("[28]", None),
        ];
        for (json, expected) in cases {
            assert_eq!(read_loose::<i64>(json), expected, "{json}");
        }
    }

    #[test]
    fn flags_texts_and_dates_are_read_however_they_are_written() {
        assert_eq!(read_loose::<bool>("true"), Some(true));
        assert_eq!(read_loose::<bool>("\"N\""), Some(false));
        assert_eq!(read_loose::<bool>("2"), None);
        assert_eq!(read_loose::<String>("\" \""), None);
        assert_eq!(read_loose::<String>("4006381333931"), Some("4006381333931".into()));
        assert_eq!(read_loose::<String>("\"a\\u0000b\""), Some("a\u{FFFD}b".into()));
        assert_eq!(read_loose::<Sku>("123"), None);
        assert_eq!(read_loose::<Sku>("\"a\\u0000b\""), None);
        assert_eq!(read_loose::<Timestamp>("\"1970-01-01T00:00:01\""), Some(Timestamp(1000)));
        assert_eq!(read_loose::<Timestamp>("\"0000-99-99\""), None);
        assert_eq!(read_loose::<f64>("\"inf\""), None);
    }

    #[test]
    fn a_list_is_no_object() {
        #[derive(serde::Deserialize)]
        struct TestPart {
            #[serde(default, deserialize_with = "nested")]
            part: Option<PartRecord>,
            #[serde(default, deserialize_with = "list")]
            parts: Vec<PartRecord>,
        }
        #[derive(serde::Deserialize)]
        struct PartRecord {
            #[serde(rename = "Id", deserialize_with = "req")]
            id: i64,
        }
        let read = |json: &str| serde_json::from_str::<TestPart>(json);
        let part = read(r#"{"part":{"Id":7},"parts":[{"Id":8}]}"#).unwrap();
        assert_eq!((part.part.unwrap().id, part.parts[0].id), (7, 8));
        assert!(read(r#"{"part":[7]}"#).unwrap().part.is_none());
        assert!(read(r#"{"parts":[[7]]}"#).is_err());
    }

    #[test]
    fn messages_are_read_from_a_list_a_text_or_nothing() {
        #[derive(serde::Deserialize)]
        struct TestBody(#[serde(deserialize_with = "texts")] Vec<String>);
        let cases = [
            (r#"["a","b"]"#, vec!["a", "b"]),
            (r#""a""#, vec!["a"]),
            ("null", vec![]),
            (r#"["a",null,{"x":1},7]"#, vec!["a", r#"{"x":1}"#, "7"]),
        ];
        for (json, expected) in cases {
            assert_eq!(serde_json::from_str::<TestBody>(json).unwrap().0, expected, "{json}");
        }
    }
}
