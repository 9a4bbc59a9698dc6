//! The tracked SKUs and orders: what a person names, and the sentence about it.

use super::write_and_commit;
use crate::model::{OrderId, Sku, counted};
use crate::store::{Store, StoreError};

pub(crate) async fn track_skus(store: &Store, skus: &[Sku]) -> Result<String, StoreError> {
    let new = write_and_commit(store, async |write| write.tracked_sku_add(skus).await).await?;
    Ok(format!("{} newly tracked, {} already tracked", counted(new, "SKU"), skus.len() as u64 - new))
}

pub(crate) async fn untrack_skus(store: &Store, skus: &[Sku]) -> Result<String, StoreError> {
    let removed = write_and_commit(store, async |write| write.tracked_sku_remove(skus).await).await?;
    Ok(format!("{} no longer tracked", counted(removed, "SKU")))
}

/// Tracks orders. With `again`, orders already tracked are read now, closed ones too.
pub(crate) async fn track_orders(
    store: &Store,
    orders: &[OrderId],
    again: bool,
) -> Result<String, StoreError> {
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
    Ok(format!("{} newly tracked, {known} already tracked{read}", counted(new, "order")))
}
