//! Projection of balances: *Get product balances*, and the balances of *Get products by SKU or UPC*.

use super::park_records;
use crate::client::wire::{DecodedAnswer, ProductBalance};
use crate::model::{ExchangeId, Quantity, Sku, Timestamp};
use crate::store::{
    BalanceFact, BalancePage, BalancesRecorded, StockLevelFact, StoreError, WriteTransaction,
};
use std::collections::BTreeSet;

/// Records *Get product balances* and *Get products by SKU or UPC*.
pub(crate) async fn project_balances(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    requested: &[Sku],
    decoded: &DecodedAnswer<BalanceFact<'_>>,
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
fn unreadable_skus(decoded: &DecodedAnswer<BalanceFact<'_>>) -> (Vec<Sku>, bool) {
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

pub(crate) fn balance_facts(decoded: DecodedAnswer<ProductBalance<'_>>) -> DecodedAnswer<BalanceFact<'_>> {
    let DecodedAnswer { records, parked, page } = decoded;
    DecodedAnswer { records: records.into_iter().map(balance_fact).collect(), parked, page }
}

fn balance_fact(balance: ProductBalance<'_>) -> BalanceFact<'_> {
    let levels = balance.warehouses.into_iter().map(|level| StockLevelFact {
        warehouse_id: level.warehouse_id,
        quantity: Quantity(level.quantity_on_hand),
        warehouse_sku: level.warehouse_sku,
        is_active: level.is_active,
        include_in_sync: level.include_in_sync,
    });
    BalanceFact {
        sku: balance.sku,
        product_id: balance.id.map(|id| id.0),
        upc: balance.upc,
        total: balance.quantity_on_hand,
        stock_levels: levels.collect(),
        is_whole: true,
    }
}
