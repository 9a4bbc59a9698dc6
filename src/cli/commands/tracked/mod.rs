//! Commands on the tracked SKUs and orders, and on quarantined entries.

pub(in crate::cli) mod order;
pub(in crate::cli) mod quarantine;
pub(in crate::cli) mod sku;
