//! Projection of balances: *Get product balances*, and the balances of *Get products by SKU or UPC*.

use super::park_records;
use crate::client::wire::{DecodedAnswer, ProductBalance};
use crate::model::{ExchangeId, Sku, Timestamp};
use crate::store::{BalancePage, BalancesRecorded, StoreError, WriteTransaction};
use std::collections::BTreeSet;

/// Records *Get product balances* and *Get products by SKU or UPC*.
pub(crate) async fn project_balances(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    requested: &[Sku],
    decoded: &DecodedAnswer<ProductBalance<'_>>,
) -> Result<BalancesRecorded, StoreError> {
    park_records(write, exchange_id, decoded).await?;
    let (products, is_whole) = (&decoded.records[..], decoded.parked.is_empty());
    let (unreadable, hides) = unreadable_skus(decoded);
    let page = BalancePage {
        exchange_id,
        observed_at,
        requested,
        products,
        unreadable: &unreadable,
        has_unnamed_record: hides,
        is_whole,
    };
    write.mirror_balances(&page).await
}

/// Returns the SKUs of records parked as a whole. The flag is true if one of them has no readable SKU.
fn unreadable_skus(decoded: &DecodedAnswer<ProductBalance<'_>>) -> (Vec<Sku>, bool) {
    if decoded.parked.is_empty() {
        return (Vec::new(), false);
    }
    // Of two records of a SKU, one may be readable.
    let came: BTreeSet<&str> = decoded.records.iter().map(|record| record.sku.as_str()).collect();
    let (mut skus, mut hides) = (Vec::new(), false);
    for parked in &decoded.parked {
        match &parked.sku {
            Some(sku) if came.contains(sku.as_str()) => {}
            Some(sku) => skus.push(sku.clone()),
            None => hides = true,
        }
    }
    (skus, hides)
}
