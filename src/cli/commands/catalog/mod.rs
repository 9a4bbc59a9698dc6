//! Commands on the catalogue: products, warehouses, suppliers, storefronts, templates and reports.

mod create;
pub(in crate::cli) mod lists;
pub(in crate::cli) mod product;
