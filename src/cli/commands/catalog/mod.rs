//! Commands on the catalogue: products, warehouses, suppliers, storefronts, templates and reports.
//!
//! `create.rs` holds the arguments and changes of all creates.

mod create;
pub(in crate::cli) mod lists;
pub(in crate::cli) mod product;
