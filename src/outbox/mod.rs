//! The outbox: bodies, states and reasons of changes.
//!
//! This module is pure: no I/O, no clock, no SQL. The table itself belongs to `store`. Bodies come from other
//! programs. They are parsed strictly: an unknown field is an error that names the field.

mod body;
mod body_fields;
mod create;
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

#[cfg(test)]
pub(crate) use body::BODY_MAX_BYTES;
pub(crate) use body::parse_body;
pub(crate) use body::{ChangeBody, ChangeRejection};
pub(crate) use create::product_key;
pub(crate) use create::{CreateBody, CreatedThing};
pub(crate) use identity::{content_digest, derived_key};
pub use kind::ChangeKind;
pub(crate) use product::ProductUpdate;
pub(crate) use quantity::{QuantityAdjust, QuantitySet};
pub use reason::Reason;
pub(crate) use resolution::ResolutionStep;
pub(crate) use resolution::quote_key;
pub use resolution::{ChangeStatus, Resolution};
pub(crate) use shipment::{LineRef, ShipmentCreate, ShipmentLine, ShipmentRef, TrackingSubmit};
pub(crate) use shipment::{TrackingInfo, TrackingLine};
pub use state::ChangeState;
pub(crate) use unique_json::parse_unique_json;
