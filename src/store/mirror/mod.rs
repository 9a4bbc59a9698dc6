//! The mirror's tables: facts from answers of the platform.

pub(super) mod allocations;
pub(super) mod balances;
pub(super) mod kits;
pub(super) mod orders;
pub(super) mod platform_lists;
pub(super) mod products;
pub(super) mod readback;
pub(super) mod reports;
pub(super) mod shipments;
pub(super) mod stock_level_writes;
pub(super) mod stock_levels;
pub(super) mod tracked_orders;
pub(super) mod tracked_skus;
pub(super) mod work_queue;
