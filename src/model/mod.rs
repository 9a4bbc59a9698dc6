//! Basic types of decisions: no I/O, no clock, no JSON of the platform.
//!
//! This module depends on no other module. Data that is only stored and shown (suppliers, reports …) has no
//! type here, but goes from wire type to table.

mod cell;
mod ids;
mod job;
mod lane;
mod month;
mod operation;
mod order;
mod quantity;
mod reason;
mod sku;
pub mod time;

pub use cell::Cell;
pub use ids::{
    ExchangeId, LineItemId, OrderId, Position, ProductId, RunId, ShipmentId, ShipmentItemId, StorefrontId,
    SupplierId, WarehouseId, WishId,
};
pub use job::{JobKind, Trigger};
pub use lane::Lane;
pub use month::Month;
pub use operation::{Effect, Operation};
pub use order::OrderLine;
pub use quantity::{Quantity, integral};
pub use reason::{REASON_MAX_CHARS, cut_reason};
pub use sku::{Sku, SkuError, fold};
pub use time::{Clock, Moment, Timestamp, age};
