//! The mirror's tables: facts from answers of the platform.
//!
//! | file | subject |
//! | --- | --- |
//! | `allocations` | warehouse allocations of order lines |
//! | `balances` | pages of balances, compared with the mirror and recorded |
//! | `kits` | kits and their components |
//! | `orders` | lines of tracked orders |
//! | `platform_lists` | common parts of all lists |
//! | `products` | products with their stock levels, for `product find`, the preflight and updates |
//! | `readback` | accepted writes and the quantities that the platform shows afterwards |
//! | `refresh_priority` | input of adaptive reading |
//! | `reports` | monthly reports |
//! | `shipments` | shipments and their items |
//! | `stock_level_writes` | stock levels written by a call |
//! | `stock_levels` | stock levels as decisions need them |
//! | `storefronts` | storefronts and their listing templates |
//! | `suppliers` | suppliers |
//! | `tracked_orders` | tracked orders and the choice of those to read next |
//! | `tracked_skus` | tracked SKUs |
//! | `unchanged_orders` | orders that the work queue's counts confirm as unchanged |
//! | `warehouses` | warehouses |
//! | `work_queue` | counts of the work queue |

pub(super) mod allocations;
pub(super) mod balances;
pub(super) mod kits;
pub(super) mod orders;
pub(super) mod platform_lists;
pub(super) mod products;
pub(super) mod readback;
pub(super) mod refresh_priority;
pub(super) mod reports;
pub(super) mod shipments;
pub(super) mod stock_level_writes;
pub(super) mod stock_levels;
pub(super) mod storefronts;
pub(super) mod suppliers;
pub(super) mod tracked_orders;
pub(super) mod tracked_skus;
pub(super) mod unchanged_orders;
pub(super) mod warehouses;
pub(super) mod work_queue;
