//! Generated data of a new company: master data (`catalog.rs`) and history (`orders.rs`).

pub(crate) mod catalog;
pub(crate) mod orders;
