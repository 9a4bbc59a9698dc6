//! Commands on the catalogue: products, warehouses, suppliers, storefronts, templates and reports.
//!
//! `create.rs` holds the arguments and changes of all creates.

mod create;
pub(in crate::cli) mod product;
pub(in crate::cli) mod report;
pub(in crate::cli) mod storefront;
pub(in crate::cli) mod supplier;
pub(in crate::cli) mod template;
pub(in crate::cli) mod warehouse;
