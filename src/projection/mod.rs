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
mod kits;
mod lists;
mod orders;
mod park;
mod replay;
mod reports;
mod upgrade;
mod writes;

pub use replay::{JournalReplay, MirrorFacts, ReplayReport};

pub(crate) use apply::PROJECTION_VERSION;
pub(crate) use balances::{balance_facts, project_balances};
pub(crate) use creates::{
    created_shipment, project_created_shipments, project_created_warehouse, project_found_products,
    project_product, shipment_record,
};
pub(crate) use kits::project_kit_components;
pub(crate) use lists::{
    project_listing_templates, project_storefronts, project_suppliers, project_warehouses,
};
pub(crate) use orders::{project_allocations, project_order_lines, project_shipment_items};
pub(crate) use reports::{project_business_health, project_top_selling, project_work_queue};
pub(crate) use upgrade::{ProjectionChanged, upgrade_projection};
pub(crate) use writes::{
    ParsedQuantityAnswer, levels_in_order, project_claim, project_product_answer, project_quantity_answer,
};

use crate::store::StoreError;
use park::park_records;

/// Error of a projection of the journal.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// The journal is damaged, or another projection version recorded it.
    #[error("{0}")]
    Damaged(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
