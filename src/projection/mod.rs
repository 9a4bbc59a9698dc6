//! Projection: an answered exchange becomes facts of the mirror, live and in a replay.
//!
//! Each operation has one function, shared by the live path and the replay. The functions read no
//! configuration, clock or change; times come from the exchange. Unreadable records are parked one by one
//! with their exchange, and counted.
//!
//! | files | subject |
//! | --- | --- |
//! | `balances`, `orders`, `kits`, `lists`, `reports` | answers to reads |
//! | `writes`, `creates` | own writes and created records |
//! | `park` | unreadable records |
//! | `apply`, `replay`, `upgrade` | the journal by entries, the rebuilt mirror, another projection version |

mod apply;
mod balances;
mod creates;
mod error;
mod kits;
mod lists;
mod orders;
mod park;
mod replay;
mod reports;
mod upgrade;
mod writes;

pub use apply::FOLD;
pub use error::ProjectionError;
pub use replay::{Facts, Replay, Replayed};
pub use upgrade::{FoldChanged, go_on};

pub(crate) use balances::{balances, facts};
pub(crate) use creates::{
    product_made, products_found, shipment_of, shipment_record, shipments_made, warehouse_made,
};
pub(crate) use kits::kit_components;
pub(crate) use lists::{listing_templates, storefronts, suppliers, warehouses};
pub(crate) use orders::{allocations, order_lines, shipment_items};
pub(crate) use reports::{business_health, top_selling, work_queue};
pub(crate) use writes::{Told, claimed, in_order, product_updated, quantities_answered};

use park::park;
