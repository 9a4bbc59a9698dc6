//! The tracked SKUs and orders: what a person names, and the sentence about it.

use super::{DecisionSentences, ViewError, write_and_commit};
use crate::model::{OrderId, Sku, counted};
use crate::store::Store;

pub(crate) fn parse_sku(text: &str) -> Result<Sku, ViewError> {
    Sku::new(text).map_err(|error| ViewError::Invalid(format!("`{text}`: {error}")))
}

pub(crate) async fn track_skus(store: &Store, skus: &[Sku]) -> DecisionSentences {
    let new = write_and_commit(store, async |write| write.tracked_sku_add(skus).await).await?;
    Ok(vec![format!("{} newly tracked, {} already tracked", counted(new, "SKU"), skus.len() as u64 - new)])
}

pub(crate) async fn untrack_skus(store: &Store, skus: &[Sku]) -> DecisionSentences {
    let removed = write_and_commit(store, async |write| write.tracked_sku_remove(skus).await).await?;
    Ok(vec![format!("{} no longer tracked", counted(removed, "SKU"))])
}

/// Tracks orders. With `again`, orders already tracked are read now, closed ones too.
pub(crate) async fn track_orders(store: &Store, orders: &[OrderId], again: bool) -> DecisionSentences {
    let new = write_and_commit(store, async |write| {
        let new = write.tracked_order_add(orders).await?;
        if again {
            write.order_read_request_add(orders).await?;
        }
        Ok(new)
    });
    let new = new.await?;
    let known = orders.len() as u64 - new;
    let read = if again && known > 0 { "; known orders are read again" } else { "" };
    Ok(vec![format!("{} newly tracked, {known} already tracked{read}", counted(new, "order"))])
}

pub(crate) async fn untrack_orders(store: &Store, orders: &[OrderId]) -> DecisionSentences {
    let removed = write_and_commit(store, async |write| write.tracked_order_remove(orders).await).await?;
    Ok(vec![format!("{} no longer tracked", counted(removed, "order"))])
}
