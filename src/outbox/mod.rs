//! The outbox: bodies, states and reasons of changes.
//!
//! This module is pure: no I/O, no clock, no SQL. The table itself belongs to `store`. Bodies come from other
//! programs. They are parsed strictly: an unknown field is an error that names the field.

mod body;
mod body_fields;
mod identity;
mod kind;
mod product;
mod quantity;
mod reason;
mod resolution;
mod shipment;
mod state;
mod template;
mod unique_json;
mod warehouse;

pub use body::{BODY_MAX_BYTES, ChangeBody, ChangeRejection, StoredBody, parse_body, read_stored_body};
pub use identity::{content_digest, derived_key};
pub use kind::{ChangeKind, UnknownKind};
pub use product::{ProductCreate, ProductUpdate};
pub use quantity::{QuantityAdjust, QuantitySet};
pub use reason::Reason;
pub use resolution::{ChangeStatus, Resolution, ResolutionStep, quote_key};
pub use shipment::{
    LineRef, ShipmentCreate, ShipmentLine, ShipmentRef, TrackingInfo, TrackingLine, TrackingSubmit,
};
pub use state::{ChangeState, UnknownState};
pub use template::ListingTemplateCreate;
pub use unique_json::parse_unique_json;
pub use warehouse::WarehouseCreate;
