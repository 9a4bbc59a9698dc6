//! Folding in what our own writes do to cells: the claim, and what an answer says of it.
//!
//! Which cells a call writes, and from which facts, is read from the mirror at the claim's position, so that it follows
//! from the journal alone. A plan made on other facts is not sent.

use super::delivered::product_made;
use crate::client::wire::{self, Asked, Outcome, Product, QuantityUpdate, UpdateStatus, WriteAnswer};
use crate::model::{ExchangeId, Position, Sku, Timestamp};
use crate::store::{CellWrite, StoreError, Write};

/// Claims the cells that a request writes, if it writes any, and returns them in the request's order. None where another
/// call writes one of them and has not ended.
pub(in crate::job) async fn claimed(
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

/// What the answer to a quantity update says of its entries.
#[derive(Debug)]
pub(in crate::job) enum Told {
    /// Which entries it means cannot be told, but this is what it says: nothing of the call is decided.
    Unclear(String),
    /// These entries were refused, with the reasons; all others were done.
    Refused(Vec<(usize, String)>),
}

impl Told {
    /// Reads the answer to a call with these SKUs (rules.md 19).
    pub(in crate::job) fn read(body: &[u8], skus: &[Sku]) -> Self {
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

    /// Why the entry was refused, if it was.
    pub(in crate::job) fn refused(&self, entry: usize) -> Option<&str> {
        match self {
            Told::Unclear(_) => None,
            Told::Refused(refused) => {
                refused.iter().find(|(index, _)| *index == entry).map(|(_, why)| why.as_str())
            }
        }
    }
}

/// *Update quantity on hand*: the entries that were done are facts and ours; the writes of all are over, unless nobody
/// can tell which is which. `cells` stand in the order of the entries.
pub(in crate::job) async fn quantities_answered(
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

/// *Update product*: done, its cells hold what they held, as our write; refused, they were not written. An answer that
/// says neither leaves them claimed.
pub(in crate::job) async fn product_updated(
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

/// The cells of a call in the order of its entries, as an answer counts them.
pub(in crate::job) async fn in_order(
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
