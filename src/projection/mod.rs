//! Projection: an answered exchange becomes facts of the mirror, live and in a replay.
//!
//! Each operation has one function, shared by the live path and the replay. The functions read no
//! configuration, clock or change; times come from the exchange. Unreadable records are parked one by
//! one with their exchange, and counted.
//!
//! | files | subject |
//! | --- | --- |
//! | `balances`, `orders`, `kits`, `lists`, `reports` | answers to reads |
//! | `writes`, `creates` | own writes and created records |
//! | `apply`, `replay`, `upgrade` | the journal by entries, the rebuilt mirror, another projection version |

mod apply;
mod balances;
mod creates;
mod kits;
mod lists;
mod orders;
mod replay;
mod reports;
mod upgrade;
mod writes;

pub(crate) use apply::PROJECTION_VERSION;
pub(crate) use balances::project_balances;
pub(crate) use creates::{
    created_shipment, project_created_shipments, project_found_products, project_product, shipment_record,
};
pub(crate) use kits::project_kit_components;
pub(crate) use lists::project_list;
pub(crate) use orders::{project_allocations, project_order_lines, project_shipment_items};
pub use replay::{JournalReplay, ReplayReport};
pub(crate) use reports::{project_business_health, project_top_selling};
pub(crate) use upgrade::upgrade_projection;
pub(crate) use writes::{
    ParsedQuantityAnswer, levels_in_order, project_claim, project_product_answer, project_quantity_answer,
};

use crate::client::wire::DecodedAnswer;
use crate::model::{ExchangeId, counted};
use crate::store::{StoreError, WriteTransaction};
use crate::telemetry::event;

/// Error of a projection of the journal.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// The journal is damaged, or another projection version recorded it.
    #[error("{0}")]
    Damaged(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

async fn park_records<T>(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    decoded: &DecodedAnswer<T>,
) -> Result<(), StoreError> {
    for record in &decoded.parked {
        let (why, subject) = ((&*record.why, &*record.raw), record.subject());
        write.exchange_park(exchange, record.index, why, subject.as_deref()).await?;
    }
    if let Some(first) = decoded.parked.first() {
        tracing::warn!(
            event = event::RECORD_PARKED,
            exchange = exchange.0,
            records = decoded.parked.len(),
            "{} of an answer parked as unreadable; the first: {}",
            counted(decoded.parked.len(), "record"),
            crate::model::cut_reason(first.why.as_str())
        );
    }
    Ok(())
}
