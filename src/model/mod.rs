//! Basic types of decisions: no I/O, no clock, no JSON of the platform.
//!
//! This module depends on no other module. Data that is only stored and shown (suppliers, reports …) has no
//! type here, but goes from wire type to table.

mod backoff;
mod code_enum;
mod counted;
mod decider;
mod ids;
mod job_kind;
mod lane;
mod month;
mod names;
mod operation;
mod order_line;
mod quantity;
mod reason_text;
mod sku;
mod stock_level;
mod storable_text;
pub mod time;

pub use backoff::RetryDelays;
pub(crate) use code_enum::code_enum;
pub(crate) use counted::counted;
pub use decider::Decider;
pub use ids::{
    ChangeId, ExchangeId, LineItemId, OrderId, Position, ProductId, RunId, ShipmentId, ShipmentItemId,
    StorefrontId, SupplierId, WarehouseId,
};
pub(crate) use job_kind::{JOBS, JobCalls};
pub use job_kind::{JobKind, RunTrigger};
pub(crate) use lane::Lane;
pub(crate) use month::Month;
pub(crate) use names::{in_words, name_hint, nearest_name, shorten_text};
pub(crate) use operation::UPDATE_MAX_ENTRIES;
pub use operation::{CallEffect, Operation};
pub(crate) use order_line::OrderLine;
pub use quantity::Quantity;
pub(crate) use quantity::json_integer;
#[cfg(test)]
pub(crate) use reason_text::REASON_MAX_CHARS;
pub(crate) use reason_text::cut_reason;
pub(crate) use sku::{Sku, case_key};
pub(crate) use sku::{SkuError, look_alike_key};
pub(crate) use stock_level::StockLevel;
pub(crate) use storable_text::{storable_json, storable_text};
pub use time::{Clock, Moment, Timestamp};
pub(crate) use time::{format_age, format_elapsed};
