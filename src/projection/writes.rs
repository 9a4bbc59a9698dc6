//! Projection of our own writes: the claim, and the answer to the write.
//!
//! The stock levels of a write and the facts used are read from the mirror at the claim's position. They
//! therefore follow from the journal alone. A plan made on other facts is not sent.

use super::creates::project_product;
use crate::client::wire::{
    self, MalformedBody, Product, QuantityUpdate, StoredRequest, UpdateStatus, WriteAnswer, WriteOutcome,
};
use crate::model::{ExchangeId, Operation, Position, Sku, Timestamp};
use crate::store::{StockLevelWrite, StoreError, WriteTransaction};

/// Claims the stock levels that a request writes and returns them in the request's order. `None` if another
/// call in flight or in doubt writes one of them.
pub(crate) async fn project_claim<E: From<StoreError> + From<MalformedBody>>(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    request: StoredRequest<'_>,
) -> Result<Option<Vec<StockLevelWrite>>, E> {
    let levels = match request.operation {
        Operation::UpdateQuantityOnHand => {
            let entries = request.quantities()?;
            let entries: Vec<_> = entries.iter().map(|e| (&e.sku, e.warehouse_id, e.quantity)).collect();
            write.stock_level_writes_of_entries(&entries).await?
        }
        Operation::UpdateProduct => {
            let (id, sku) = request.product()?;
            write.stock_level_writes_of_update(id, &sku).await?
        }
        _ => Vec::new(),
    };
    let is_claimed = levels.is_empty() || write.stock_level_claim(exchange, &levels).await?;
    Ok(is_claimed.then_some(levels))
}

#[derive(Debug)]
pub(crate) enum ParsedQuantityAnswer {
    /// Answer that does not identify its entries, with its messages. It decides nothing of the call.
    Unclear(String),
    /// Refused entries with their reasons; all others took effect.
    Refused(Vec<(usize, String)>),
}

impl ParsedQuantityAnswer {
    /// Parses the answer to a call with these SKUs (docs/rules.md 12).
    pub(crate) fn parse(body: &[u8], skus: &[Sku]) -> Self {
        match wire::decode_update(body) {
            Ok(update) if update.status == UpdateStatus::Success => ParsedQuantityAnswer::Refused(Vec::new()),
            Ok(update) => {
                let refused = wire::attribute_messages(&update, skus);
                refused.map_or_else(|| Self::Unclear(update.messages.join("; ")), Self::Refused)
            }
            Err(_) => ParsedQuantityAnswer::Unclear(String::new()),
        }
    }

    pub(crate) fn refusal_of(&self, entry: usize) -> Option<&str> {
        let ParsedQuantityAnswer::Refused(refused) = self else { return None };
        refused.iter().find(|(index, _)| *index == entry).map(|(_, why)| why.as_str())
    }
}

/// Projects the answer to a quantity update, unless it is unclear: all writes of the call are completed, and
/// those that took effect are facts and count in the own delta. `levels` are in the entries' order.
pub(crate) async fn project_quantity_answer(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    (ended, sent_at): (Position, Timestamp),
    levels: &[StockLevelWrite],
    answer: &ParsedQuantityAnswer,
) -> Result<(), StoreError> {
    if matches!(answer, ParsedQuantityAnswer::Unclear(_)) {
        return Ok(());
    }
    let done = levels.iter().enumerate().filter(|(entry, _)| answer.refusal_of(*entry).is_none());
    let done: Vec<StockLevelWrite> = done.map(|(_, level)| level.clone()).collect();
    write.stock_level_writes_complete(exchange, ended, sent_at, &done).await
}

/// Projects the answer to an update of a product. After a success its stock levels keep their quantities, as
/// our own write. After a refusal nothing was written. An answer that is neither leaves them claimed.
pub(crate) async fn project_product_answer(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    (ended, sent_at): (Position, Timestamp),
    levels: &[StockLevelWrite],
    answer: &WriteAnswer<Product>,
) -> Result<(), StoreError> {
    if answer.outcome() == WriteOutcome::Refused {
        return write.stock_level_writes_complete(exchange, ended, sent_at, &[]).await;
    }
    if answer.was_successful != Some(true) {
        return Ok(());
    }
    if let Some(product) = answer.applied_record() {
        project_product(write, exchange, sent_at, product).await?;
    }
    write.stock_level_writes_complete(exchange, ended, sent_at, levels).await
}

/// Returns the stock levels of a call in the order of its entries, to which the indexes of the answer refer.
pub(crate) async fn levels_in_order(
    write: &mut WriteTransaction,
    entries: &[QuantityUpdate],
    open: &[StockLevelWrite],
) -> Result<Vec<StockLevelWrite>, StoreError> {
    let entries: Vec<_> = entries.iter().map(|e| (&e.sku, e.warehouse_id, e.quantity)).collect();
    let now = write.stock_level_writes_of_entries(&entries).await?;
    let claimed = |now: &StockLevelWrite| {
        open.iter().find(|open| (open.product, open.warehouse_id) == (now.product, now.warehouse_id)).cloned()
    };
    Ok(now.iter().filter_map(claimed).collect())
}
