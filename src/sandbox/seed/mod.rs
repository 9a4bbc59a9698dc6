//! Generated data of a new company: master data (`catalog.rs`) and history (`orders.rs`).

pub(in crate::sandbox) mod catalog;
pub(in crate::sandbox) mod orders;
