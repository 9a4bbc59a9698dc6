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
pub(crate) use balances::*;
pub(crate) use creates::*;
pub(crate) use kits::*;
pub(crate) use lists::*;
pub(crate) use orders::*;
pub(crate) use replay::ChangedTable;
pub use replay::{JournalReplay, ReplayReport};
pub(crate) use reports::*;
pub(crate) use upgrade::upgrade_projection;
pub(crate) use writes::*;

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
