//! Requests, parsed strictly: the call of an operation, its ids, its query and its JSON body.
//!
//! An invalid body gives a 400 with the position of the error. Causes: no JSON, another shape, nesting deeper
//! than 128 (the limit of serde_json), not UTF-8. No request may cause a 500.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use axum::body::Bytes;
use axum::extract::Query;
use axum::http::{HeaderMap, Request, StatusCode, header};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use sqlx::SqliteConnection;

use super::answer::SandboxRefusal;

/// Maximum size of a body. All documented bodies are far smaller; 50 MB would only fill memory.
pub(crate) const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Maximum entries of a call that creates shipments or submits tracking. docs/interface.md has no maximum,
/// but the answer echoes each entry and must have a bound.
pub(crate) const ENTRIES_MAX: usize = 1_000;

/// Largest int32, the maximum of numbers that docs/interface.md declares as int32.
pub(crate) const INT32_MAX: i64 = i32::MAX as i64;

/// Maximum price. Far larger prices would become infinite in the database and invalid JSON in the answer.
const PRICE_MAX: f64 = 1e12;

#[derive(Debug)]
pub(crate) struct OperationCall {
    pub(crate) company_id: i64,
    pub(crate) multi_warehousing: bool,
    pub(crate) now_ms: i64,
    /// Ids of the path in the order of their braces; `None` for a segment that is no id.
    pub(crate) ids: Vec<Option<i64>>,
    pub(crate) request: Request<Bytes>,
}

impl OperationCall {
    /// Returns the id in the `index`th braces of the path; 0, which no record has, for an unreadable id.
    pub(crate) fn path_id(&self, index: usize) -> i64 {
        self.ids.get(index).copied().flatten().unwrap_or(0)
    }

    /// Returns the query's parameters; the last of equal names counts.
    pub(crate) fn query_parameters(&self) -> Result<HashMap<String, String>, SandboxRefusal> {
        Query::try_from_uri(self.request.uri())
            .map(|Query(parameters)| parameters)
            .map_err(|cause| SandboxRefusal::bad_request(format!("The query cannot be read: {cause}.")))
    }

    pub(crate) fn object_body<T: DeserializeOwned>(&self) -> Result<T, SandboxRefusal> {
        self.json_body().map(|StrictObject(body)| body)
    }

    /// Returns the JSON body as `T`. Operations without a body do not call it, so their bodies are ignored.
    pub(crate) fn json_body<T: DeserializeOwned>(&self) -> Result<T, SandboxRefusal> {
        let body = self.request.body();
        if body.len() > BODY_BYTES_MAX {
            let message = format!("The request body is larger than {BODY_BYTES_MAX} bytes.");
            return Err(SandboxRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        check_media_type(self.request.headers())?;
        parse_json(body)
    }

    pub(crate) fn entries_body(&self) -> Result<Vec<Value>, SandboxRefusal> {
        let entries: Vec<Value> = self.json_body()?;
        if entries.len() > ENTRIES_MAX {
            let sent = entries.len();
            return Err(format!("The request has {sent} entries; at most {ENTRIES_MAX} are taken.").into());
        }
        Ok(entries)
    }

    /// Returns the text that a statement selects for the company (?1) and an id (?2).
    pub(crate) async fn own_text(
        &self,
        db: &mut SqliteConnection,
        statement: &'static str,
        id: i64,
    ) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar(statement).bind(self.company_id).bind(id).fetch_optional(db).await
    }
}

pub(crate) async fn text_of_id(
    db: &mut SqliteConnection,
    statement: &'static str,
    id: i64,
) -> Result<String, sqlx::Error> {
    sqlx::query_scalar(statement).bind(id).fetch_one(db).await
}

pub(crate) fn non_blank(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|text| !text.trim().is_empty())
}

pub(crate) fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, SandboxRefusal> {
    serde_json::from_slice(body)
        .map_err(|cause| SandboxRefusal::bad_request(format!("The request body is not valid: {cause}.")))
}

/// Parses a whole number of a path or a query, `28` or `28.0`. A larger one than any record's is the largest.
pub(crate) fn parse_whole(text: &str) -> Option<i64> {
    let (digits, zeros) = text.split_once('.').unwrap_or((text, "0"));
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0');
    (is_whole && has_zeros).then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Checks for a JSON media type. A request without a media type is accepted.
fn check_media_type(headers: &HeaderMap) -> Result<(), SandboxRefusal> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let lower = media_type.to_ascii_lowercase();
    if matches!(lower.as_str(), "" | "application/json" | "text/json") || lower.ends_with("+json") {
        return Ok(());
    }
    Err(SandboxRefusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!("The media type '{media_type}' is not supported; send application/json."),
    ))
}

/// An integer, written `28` or `28.0`: the platform's own ids have both forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx_macros::Type)]
#[sqlx(transparent)]
pub(crate) struct WholeNumber(pub(crate) i64);

impl<'de> Deserialize<'de> for WholeNumber {
    #[allow(clippy::cast_possible_truncation, reason = "the bounds are checked; both are exact in f64")]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let number = Number::deserialize(deserializer)?;
        let exact = || number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() <= EXACT);
        let whole = number.as_i64().or_else(|| exact().map(|value| value as i64));
        whole.map(Self).ok_or_else(|| D::Error::custom(format!("{number} is not a whole number")))
    }
}

/// A JSON object as `T`. serde alone would also accept an array, field by field in the order of the struct.
#[derive(Debug, Serialize)]
pub(crate) struct StrictObject<T>(pub(crate) T);

impl<T> Deref for StrictObject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for StrictObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StrictObjectVisitor(PhantomData))
    }
}

struct StrictObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for StrictObjectVisitor<T> {
    type Value = StrictObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<StrictObject<T>, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(StrictObject)
    }
}

pub(crate) fn deserialize_quantity<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i64>, D::Error> {
    match Option::<WholeNumber>::deserialize(deserializer)? {
        None => Ok(None),
        Some(WholeNumber(value)) if (0..=INT32_MAX).contains(&value) => Ok(Some(value)),
        Some(WholeNumber(value)) => {
            Err(D::Error::custom(format!("{value} is not a quantity (0 to {INT32_MAX})")))
        }
    }
}

pub(crate) fn deserialize_price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(value) if value.abs() > PRICE_MAX => {
            Err(D::Error::custom(format!("{value} is not a price (at most {PRICE_MAX})")))
        }
        price => Ok(price),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_come_with_and_without_a_point() {
        for (text, expected) in [
            ("28", Some(28)),
            ("28.0", Some(28)),
            ("-3", Some(-3)),
            ("2.8e1", Some(28)),
            ("28.5", None),
            ("\"28\"", None),
            ("1e300", None),
            ("18446744073709551615", None),
            ("true", None),
        ] {
            assert_eq!(parse_json::<WholeNumber>(text.as_bytes()).ok(), expected.map(WholeNumber), "{text}");
        }
    }

    #[test]
    fn an_object_is_no_array_of_its_fields() {
        #[derive(Debug, Deserialize)]
        struct Wanted {
            skus: Vec<String>,
        }
        let StrictObject(taken) =
            parse_json::<StrictObject<Wanted>>(br#"{"skus":["A"]}"#).expect("an object");
        assert_eq!(taken.skus, ["A"]);
        assert!(parse_json::<Wanted>(br#"[["A"]]"#).is_ok(), "what serde itself would take");
        assert!(parse_json::<StrictObject<Wanted>>(br#"[["A"]]"#).is_err());
    }

    #[test]
    fn an_unreadable_body_is_a_400() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for body in [deep.as_bytes(), b"", b"{", b"\xff\xfe", b"\"\\ud800\"", b"1e999", b"[] []"] {
            let refused = parse_json::<Value>(body).expect_err("unreadable");
            assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn only_json_media_types_are_taken() {
        for (value, taken) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/json", true),
            ("application/vnd.api+json", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, value.parse().unwrap())]);
            assert_eq!(check_media_type(&headers).is_ok(), taken, "{value}");
        }
    }
}
