//! Bodies of changes, parsed strictly before a change is planned.
//!
//! A body that the platform would answer with 400, or would misread, is rejected here. The error
//! names the field, its value and the expected value. Parsing looks nothing up: the existence of a
//! SKU is decided later, against facts.

use super::body_fields::{BodyFields, bad_body};
use super::{
    ChangeKind, CreateBody, CreatedThing, ProductUpdate, QuantityAdjust, QuantitySet, Reason, ShipmentCreate,
    TrackingSubmit, product, template, unique_json, warehouse,
};
use crate::model::{Sku, StockLevel};
use serde_json::Value;

/// Maximum size of a body in bytes, far above a product with twelve images and long descriptions.
pub(crate) const BODY_MAX_BYTES: usize = 256 * 1024;

/// The error of a change that is rejected permanently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct ChangeRejection {
    /// Code for the outbox's column `reason`.
    pub reason: Reason,
    /// Problem, its subject and the remedy, for the outbox's column `detail`.
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChangeBody {
    QuantitySet(QuantitySet),
    QuantityAdjust(QuantityAdjust),
    ShipmentCreate(ShipmentCreate),
    TrackingSubmit(TrackingSubmit),
    Create(CreateBody),
    ProductUpdate(ProductUpdate),
}

impl ChangeBody {
    /// Returns the stock level of the change, for the two quantity kinds.
    pub(crate) fn stock_level(&self) -> Option<&StockLevel> {
        match self {
            ChangeBody::QuantitySet(set) => Some(&set.stock_level),
            ChangeBody::QuantityAdjust(adjust) => Some(&adjust.stock_level),
            ChangeBody::ShipmentCreate(_)
            | ChangeBody::TrackingSubmit(_)
            | ChangeBody::Create(_)
            | ChangeBody::ProductUpdate(_) => None,
        }
    }

    /// Returns the SKU of the change, for kinds that name a SKU.
    pub(crate) fn sku(&self) -> Option<&Sku> {
        match self {
            ChangeBody::QuantitySet(set) => Some(&set.stock_level.sku),
            ChangeBody::QuantityAdjust(adjust) => Some(&adjust.stock_level.sku),
            ChangeBody::Create(CreateBody { thing: CreatedThing::Product(sku), .. }) => Some(sku),
            ChangeBody::ProductUpdate(product) => Some(&product.sku),
            ChangeBody::ShipmentCreate(_) | ChangeBody::TrackingSubmit(_) | ChangeBody::Create(_) => None,
        }
    }
}

/// Parses a change as it was inserted.
///
/// Fails with [`Reason::BadBody`] for an unknown kind or an invalid body.
pub(crate) fn parse_body(kind: &str, body: &str) -> Result<ChangeBody, ChangeRejection> {
    let kind = kind.parse::<ChangeKind>().map_err(|why| bad_body(format!("the kind {why}")))?;
    if body.len() > BODY_MAX_BYTES {
        let size = body.len();
        return Err(bad_body(format!(
            "the body is {size} bytes long; the limit is {BODY_MAX_BYTES}, make it shorter"
        )));
    }
    if body.contains(char::REPLACEMENT_CHARACTER) {
        return Err(bad_body("the body holds text that is not UTF-8; write it in UTF-8".into()));
    }
    let value = unique_json::parse_unique_json(body)
        .map_err(|error| bad_body(format!("the body is not JSON that can be read: {error}; correct it")))?;
    let Value::Object(map) = value else {
        return Err(bad_body(format!(
            "the body must be a JSON object such as {{\"sku\": …}}, it is {}",
            json_type_name(&value)
        )));
    };
    let fields = BodyFields::new(&map);
    match kind {
        ChangeKind::QuantitySet => QuantitySet::from_fields(&fields).map(ChangeBody::QuantitySet),
        ChangeKind::QuantityAdjust => QuantityAdjust::from_fields(&fields).map(ChangeBody::QuantityAdjust),
        ChangeKind::ShipmentCreate => ShipmentCreate::from_fields(&fields).map(ChangeBody::ShipmentCreate),
        ChangeKind::TrackingSubmit => TrackingSubmit::from_fields(&fields).map(ChangeBody::TrackingSubmit),
        ChangeKind::ProductCreate => product::parse_create(map).map(ChangeBody::Create),
        ChangeKind::ProductUpdate => ProductUpdate::from_map(map).map(ChangeBody::ProductUpdate),
        ChangeKind::WarehouseCreate => warehouse::parse_create(map).map(ChangeBody::Create),
        ChangeKind::ListingTemplateCreate => template::parse_create(map).map(ChangeBody::Create),
    }
}

fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Parses each body and compares the detail of its rejection; an empty text expects a valid body.
    pub(in super::super) fn assert_details<B: ToString>(
        kind: &str,
        cases: impl IntoIterator<Item = (B, &'static str)>,
    ) {
        for (body, expected) in cases {
            let body = body.to_string();
            let rejection = parse_body(kind, &body).err();
            assert!(rejection.iter().all(|rejection| rejection.reason == Reason::BadBody), "{rejection:?}");
            let detail = rejection.map(|rejection| rejection.detail).unwrap_or_default();
            assert_eq!(detail.is_empty(), expected.is_empty(), "{body}: {detail}");
            assert!(detail.contains(expected), "{body}: {detail}");
        }
    }

    #[test]
    fn what_is_no_body_is_refused_with_what_is_wrong() {
        let long = format!(r#"{{"sku":"{}"}}"#, "x".repeat(BODY_MAX_BYTES));
        let cases = [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("[]", "it is a list"),
            ("null", "it is null"),
            (r#""A""#, "it is a text"),
            (r#"{"sku":"A","sku":"B"}"#, "`sku` occurs twice"),
            (&long, "the limit is 262144"),
        ];
        assert_details("quantity.set", cases);
        assert_details("product.create", [("7", "it is a number")]);
    }

    #[test]
    fn a_kind_that_is_none_is_refused_before_its_body_is_looked_at() {
        let rejection = parse_body("quantity.ste", "no JSON").unwrap_err();
        assert_eq!(rejection.reason, Reason::BadBody);
        assert!(rejection.detail.contains("`quantity.set`"), "{}", rejection.detail);
    }

    #[test]
    fn a_body_nested_beyond_reason_is_refused_and_not_a_crash() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(parse_body("product.create", &deep).unwrap_err().reason, Reason::BadBody);
    }

    #[test]
    fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
        let body = |bytes: usize| {
            let frame = r#"{"Sku":"A","Name":"N","Notes":""}"#;
            frame.replace(r#""Notes":""#, &format!(r#""Notes":"{}"#, "x".repeat(bytes - frame.len())))
        };
        assert_eq!(body(BODY_MAX_BYTES).len(), 256 * 1024);
        assert!(parse_body("product.create", &body(BODY_MAX_BYTES)).is_ok());
        let detail = parse_body("product.create", &body(BODY_MAX_BYTES + 1)).unwrap_err().detail;
        assert!(detail.starts_with("the body is 262145 bytes long"), "{detail}");
    }

    #[test]
    fn a_body_has_its_subject() {
        let level = StockLevel { sku: Sku::new("A").unwrap(), warehouse_id: 7.into() };
        // Columns: kind, body, body names a stock level, body names a SKU.
        let cases = [
            ("quantity.set", r#"{"sku":"A","warehouse_id":7,"quantity":1}"#, true, true),
            ("quantity.adjust", r#"{"sku":"A","warehouse_id":7,"delta":1}"#, true, true),
            ("shipment.create", r#"{"order_id":1}"#, false, false),
            ("tracking.submit", r#"{"shipment_id":1,"tracking_number":"T","carrier_id":1}"#, false, false),
            ("product.create", r#"{"Sku":"A","Name":"N"}"#, false, true),
            ("warehouse.create", r#"{"Name":"N"}"#, false, false),
            ("listing_template.create", r#"{"StorefrontId":3,"Name":"N","Body":"x"}"#, false, false),
        ];
        for (kind, text, has_level, has_sku) in cases {
            let body = parse_body(kind, text).unwrap();
            assert_eq!(body.stock_level(), has_level.then_some(&level), "{kind}");
            assert_eq!(body.sku(), has_sku.then_some(&level.sku), "{kind}");
        }
    }
}
