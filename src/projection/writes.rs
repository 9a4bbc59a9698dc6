//! Projection of our own writes: the claim, and the answer to the write.
//!
//! The stock levels of a write and the facts used are read from the mirror at the claim's position. They
//! therefore follow from the journal alone. A plan made on other facts is not sent.

use super::creates::product_made;
use crate::client::wire::{self, Asked, Outcome, Product, QuantityUpdate, UpdateStatus, WriteAnswer};
use crate::model::{ExchangeId, Position, Sku, Timestamp};
use crate::store::{CellWrite, StoreError, Write};

/// Claims the stock levels that a request writes and returns them in the request's order. `None` if another
/// call in flight or in doubt writes one of them.
pub(crate) async fn claimed(
    write: &mut Write,
    exchange: ExchangeId,
    asked: &Asked,
) -> Result<Option<Vec<CellWrite>>, StoreError> {
    let cells = cells_of(write, asked).await?;
    let is_claimed = cells.is_empty() || write.cell_claim(exchange, &cells).await?;
    Ok(is_claimed.then_some(cells))
}

async fn cells_of(write: &mut Write, asked: &Asked) -> Result<Vec<CellWrite>, StoreError> {
    match asked {
        Asked::Quantities(entries) => {
            let entries: Vec<_> = entries.iter().map(|e| (&e.sku, e.warehouse_id, e.quantity)).collect();
            write.cell_writes(&entries).await
        }
        Asked::Product(id, sku) => write.cell_writes_of(*id, sku).await,
        _ => Ok(Vec::new()),
    }
}

/// Parsed answer to a quantity update.
#[derive(Debug)]
pub(crate) enum Told {
    /// Answer that does not identify its entries, with its messages. It decides nothing of the call.
    Unclear(String),
    /// Refused entries with their reasons; all others took effect.
    Refused(Vec<(usize, String)>),
}

impl Told {
    /// Parses the answer to a call with these SKUs (docs/rules.md 19).
    pub(crate) fn read(body: &[u8], skus: &[Sku]) -> Self {
        match wire::decode_update(body) {
            Ok(update) if update.status == UpdateStatus::Success => Told::Refused(Vec::new()),
            Ok(update) => {
                let attribution = wire::attribute(&update, skus);
                if attribution.read_back {
                    Told::Unclear(update.messages.join("; "))
                } else {
                    Told::Refused(attribution.refused)
                }
            }
            Err(_) => Told::Unclear(String::new()),
        }
    }

    /// Returns the reason if the entry was refused.
    pub(crate) fn refused(&self, entry: usize) -> Option<&str> {
        match self {
            Told::Unclear(_) => None,
            Told::Refused(refused) => {
                refused.iter().find(|(index, _)| *index == entry).map(|(_, why)| why.as_str())
            }
        }
    }
}

/// Projects the answer to a quantity update. The entries that took effect are facts and count in the own
/// delta. All writes of the call are completed, unless the answer is unclear. `cells` are in the order of the
/// entries.
pub(crate) async fn quantities_answered(
    write: &mut Write,
    exchange: ExchangeId,
    (ended, sent_at): (Position, Timestamp),
    cells: &[CellWrite],
    told: &Told,
) -> Result<(), StoreError> {
    if matches!(told, Told::Unclear(_)) {
        return Ok(());
    }
    let done = cells.iter().enumerate().filter(|(entry, _)| told.refused(*entry).is_none());
    let done: Vec<CellWrite> = done.map(|(_, cell)| cell.clone()).collect();
    write.cell_conclude(exchange, ended, sent_at, &done).await
}

/// Projects the answer to an update of a product. After a success its stock levels keep their quantities, as
/// our own write. After a refusal nothing was written. An answer that is neither leaves them claimed.
pub(crate) async fn product_updated(
    write: &mut Write,
    exchange: ExchangeId,
    (ended, sent_at): (Position, Timestamp),
    cells: &[CellWrite],
    told: &WriteAnswer<Product>,
) -> Result<(), StoreError> {
    if told.outcome() == Outcome::Refused {
        return write.cell_conclude(exchange, ended, sent_at, &[]).await;
    }
    if told.was_successful != Some(true) {
        return Ok(());
    }
    if let Some(product) = told.done() {
        product_made(write, exchange, sent_at, product).await?;
    }
    write.cell_conclude(exchange, ended, sent_at, cells).await
}

/// Returns the stock levels of a call in the order of its entries. The indexes of the answer refer to this
/// order.
pub(crate) async fn in_order(
    write: &mut Write,
    entries: &[QuantityUpdate],
    open: &[CellWrite],
) -> Result<Vec<CellWrite>, StoreError> {
    let entries: Vec<_> = entries.iter().map(|e| (&e.sku, e.warehouse_id, e.quantity)).collect();
    let now = write.cell_writes(&entries).await?;
    let claimed = |now: &CellWrite| {
        open.iter().find(|open| (open.product, open.warehouse_id) == (now.product, now.warehouse_id)).cloned()
    };
    Ok(now.iter().filter_map(claimed).collect())
}
