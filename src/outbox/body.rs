//! Bodies of changes, parsed strictly before a change is planned.
//!
//! A body that the platform would answer with 400, or would misread, is rejected here. The error names the
//! field, its value and the expected value. Parsing looks nothing up: the existence of a SKU is decided
//! later, against facts.

use super::body_fields::{Fields, bad};
use super::{
    Kind, ListingTemplateCreate, ProductCreate, ProductUpdate, QuantityAdjust, QuantitySet, Reason,
    ShipmentCreate, TrackingSubmit, UnknownKind, WarehouseCreate, unique_json,
};
use crate::model::{Cell, Sku};
use serde_json::Value;

/// Maximum size of a body in bytes, far above a product with twelve images and long descriptions.
pub const BODY_MAX_BYTES: usize = 256 * 1024;

/// A body as the outbox stores it.
///
/// A body over the limit is not loaded, because a page of such bodies would exhaust the memory of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Text of the body.
    Text(String),
    /// Size in bytes of a body over [`BODY_MAX_BYTES`].
    TooLong(u64),
}

impl Stored {
    /// Returns the text, or `None` for a body over the limit.
    pub fn text(&self) -> Option<&str> {
        match self {
            Stored::Text(text) => Some(text),
            Stored::TooLong(_) => None,
        }
    }
}

/// The error of a change that is rejected permanently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Rejection {
    /// Code for the outbox's column `reason`.
    pub reason: Reason,
    /// Problem, its subject and the remedy, for the outbox's column `detail`.
    pub detail: String,
}

impl From<UnknownKind> for Rejection {
    fn from(error: UnknownKind) -> Self {
        Self { reason: Reason::UnknownKind, detail: error.to_string() }
    }
}

/// A parsed body.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `quantity.set`
    QuantitySet(QuantitySet),
    /// `quantity.adjust`
    QuantityAdjust(QuantityAdjust),
    /// `shipment.create`
    ShipmentCreate(ShipmentCreate),
    /// `tracking.submit`
    TrackingSubmit(TrackingSubmit),
    /// `product.create`
    ProductCreate(ProductCreate),
    /// `product.update`
    ProductUpdate(ProductUpdate),
    /// `warehouse.create`
    WarehouseCreate(WarehouseCreate),
    /// `listing_template.create`
    ListingTemplateCreate(ListingTemplateCreate),
}

impl Body {
    /// Returns the kind of the change.
    pub fn kind(&self) -> Kind {
        match self {
            Body::QuantitySet(_) => Kind::QuantitySet,
            Body::QuantityAdjust(_) => Kind::QuantityAdjust,
            Body::ShipmentCreate(_) => Kind::ShipmentCreate,
            Body::TrackingSubmit(_) => Kind::TrackingSubmit,
            Body::ProductCreate(_) => Kind::ProductCreate,
            Body::ProductUpdate(_) => Kind::ProductUpdate,
            Body::WarehouseCreate(_) => Kind::WarehouseCreate,
            Body::ListingTemplateCreate(_) => Kind::ListingTemplateCreate,
        }
    }

    /// Returns the stock level of the change, for the two quantity kinds.
    pub fn cell(&self) -> Option<&Cell> {
        match self {
            Body::QuantitySet(set) => Some(&set.cell),
            Body::QuantityAdjust(adjust) => Some(&adjust.cell),
            Body::ShipmentCreate(_)
            | Body::TrackingSubmit(_)
            | Body::ProductCreate(_)
            | Body::ProductUpdate(_)
            | Body::WarehouseCreate(_)
            | Body::ListingTemplateCreate(_) => None,
        }
    }

    /// Returns the SKU of the change, for kinds that name a SKU.
    pub fn sku(&self) -> Option<&Sku> {
        match self {
            Body::QuantitySet(set) => Some(&set.cell.sku),
            Body::QuantityAdjust(adjust) => Some(&adjust.cell.sku),
            Body::ProductCreate(product) => Some(&product.sku),
            Body::ProductUpdate(product) => Some(&product.sku),
            Body::ShipmentCreate(_)
            | Body::TrackingSubmit(_)
            | Body::WarehouseCreate(_)
            | Body::ListingTemplateCreate(_) => None,
        }
    }
}

/// Parses a change as it was inserted.
///
/// # Errors
/// [`Reason::UnknownKind`] for an unknown kind, [`Reason::BadBody`] for an invalid body.
pub fn parse(kind: &str, body: &str) -> Result<Body, Rejection> {
    let kind = kind.parse::<Kind>()?;
    if body.len() > BODY_MAX_BYTES {
        return Err(too_long(u64::try_from(body.len()).unwrap_or(u64::MAX)));
    }
    if body.contains(char::REPLACEMENT_CHARACTER) {
        return Err(bad("the body holds text that is not UTF-8; write it in UTF-8".into()));
    }
    let value = unique_json::read(body)
        .map_err(|error| bad(format!("the body is not JSON that can be read: {error}; correct it")))?;
    let Value::Object(map) = value else {
        return Err(bad(format!(
            "the body must be a JSON object such as {{\"sku\": …}}, it is {}",
            shape(&value)
        )));
    };
    match kind {
        Kind::QuantitySet => QuantitySet::read(&Fields::new(&map)).map(Body::QuantitySet),
        Kind::QuantityAdjust => QuantityAdjust::read(&Fields::new(&map)).map(Body::QuantityAdjust),
        Kind::ShipmentCreate => ShipmentCreate::read(&Fields::new(&map)).map(Body::ShipmentCreate),
        Kind::TrackingSubmit => TrackingSubmit::read(&Fields::new(&map)).map(Body::TrackingSubmit),
        Kind::ProductCreate => ProductCreate::read(map).map(Body::ProductCreate),
        Kind::ProductUpdate => ProductUpdate::read(map).map(Body::ProductUpdate),
        Kind::WarehouseCreate => WarehouseCreate::read(map).map(Body::WarehouseCreate),
        Kind::ListingTemplateCreate => ListingTemplateCreate::read(map).map(Body::ListingTemplateCreate),
    }
}

/// Parses a change as the outbox stores it.
///
/// # Errors
/// As [`parse`]. A body over the limit is rejected by its size, without its text.
pub fn read(kind: &str, body: &Stored) -> Result<Body, Rejection> {
    match body {
        Stored::Text(body) => parse(kind, body),
        Stored::TooLong(size) => {
            kind.parse::<Kind>()?;
            Err(too_long(*size))
        }
    }
}

fn too_long(size: u64) -> Rejection {
    bad(format!("the body is {size} bytes long; at most {BODY_MAX_BYTES} are taken, make it shorter"))
}

fn shape(value: &Value) -> &'static str {
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
mod tests {
    use super::*;

    #[test]
    fn what_is_no_body_is_refused_with_what_is_wrong() {
        let long = format!(r#"{{"sku":"{}"}}"#, "x".repeat(BODY_MAX_BYTES));
        let cases = [
            ("quantity.set", "", "not JSON"),
            ("quantity.set", "{", "not JSON"),
            ("quantity.set", "[]", "it is a list"),
            ("quantity.set", "null", "it is null"),
            ("quantity.set", r#""A""#, "it is a text"),
            ("quantity.set", r#"{"sku":"A","sku":"B"}"#, "`sku` is said twice"),
            ("quantity.set", &long, "at most 262144"),
            ("product.create", "7", "it is a number"),
        ];
        for (kind, body, expected) in cases {
            let rejection = parse(kind, body).unwrap_err();
            assert_eq!(rejection.reason, Reason::BadBody, "{kind}");
            assert!(rejection.detail.contains(expected), "{}", rejection.detail);
        }
    }

    #[test]
    fn a_kind_that_is_none_is_refused_before_its_body_is_looked_at() {
        let rejection = parse("quantity.ste", "no JSON").unwrap_err();
        assert_eq!(rejection.reason, Reason::UnknownKind);
        assert!(rejection.detail.contains("`quantity.set`"), "{}", rejection.detail);
    }

    #[test]
    fn a_body_nested_beyond_reason_is_refused_and_not_a_crash() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(parse("product.create", &deep).unwrap_err().reason, Reason::BadBody);
    }

    #[test]
    fn a_body_may_be_as_long_as_is_said_and_no_longer() {
        let body = |bytes: usize| {
            let frame = r#"{"Sku":"A","Name":"N","Notes":""}"#;
            frame.replace(r#""Notes":""#, &format!(r#""Notes":"{}"#, "x".repeat(bytes - frame.len())))
        };
        assert_eq!(body(BODY_MAX_BYTES).len(), 256 * 1024);
        assert!(parse("product.create", &body(BODY_MAX_BYTES)).is_ok());
        let detail = parse("product.create", &body(BODY_MAX_BYTES + 1)).unwrap_err().detail;
        assert!(detail.starts_with("the body is 262145 bytes long"), "{detail}");
    }

    #[test]
    fn a_wish_knows_its_kind_and_what_it_is_about() {
        let cell = Cell { sku: Sku::new("A").unwrap(), warehouse_id: 7.into() };
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
        for (kind, text, has_cell, has_sku) in cases {
            let body = parse(kind, text).unwrap();
            assert_eq!(body.kind().as_str(), kind);
            assert_eq!(body.cell(), has_cell.then_some(&cell), "{kind}");
            assert_eq!(body.sku(), has_sku.then_some(&cell.sku), "{kind}");
        }
    }
}
