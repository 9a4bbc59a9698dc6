//! The outbox's language: what a wish may say, the states it stands in, and why it stands there.
//!
//! Pure: no I/O, no clock, no SQL. The table itself belongs to `store`; this room only knows what a row means.
//! Bodies come from other programs, so they are read as strictly as a customs form: a misspelled field is
//! refused with its name, never dropped.

mod backoff;
mod body;
mod fields;
mod json;
mod kind;
mod product;
mod quantity;
mod reason;
mod resolution;
mod shipment;
mod state;
mod template;
mod warehouse;

pub use backoff::Delays;
pub use body::{BODY_MAX_BYTES, Body, Rejection, Stored, parse, read};
pub use json::read as read_json;
pub use kind::{Kind, UnknownKind};
pub use product::{ProductCreate, ProductUpdate};
pub use quantity::{QuantityAdjust, QuantitySet};
pub use reason::{Reason, UnknownReason};
pub use resolution::{Resolution, Stand, Step, shown as shown_key};
pub use shipment::{
    LineRef, ShipmentCreate, ShipmentLine, ShipmentRef, TrackingInfo, TrackingLine, TrackingSubmit,
};
pub use state::{State, UnknownState};
pub use template::ListingTemplateCreate;
pub use warehouse::WarehouseCreate;
