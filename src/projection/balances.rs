//! Projection of balances: *Get product balances*, and the balances of *Get products by SKU or UPC*.

use super::park;
use crate::client::wire::{Decoded, ProductBalance};
use crate::model::{ExchangeId, Moment, Quantity, Sku, Timestamp};
use crate::store::{BalanceFact, BalancePage, BalancesRecorded, CellBalance, StoreError, Write};
use std::collections::BTreeSet;

/// Records *Get product balances* and *Get products by SKU or UPC*.
///
/// Without the moment of the request, missing products do not count as absent.
pub(crate) async fn balances(
    write: &mut Write,
    exchange_id: ExchangeId,
    (observed_at, moment): (Timestamp, Option<Moment>),
    asked: &[Sku],
    decoded: &Decoded<BalanceFact<'_>>,
) -> Result<BalancesRecorded, StoreError> {
    park(write, exchange_id, decoded).await?;
    let (products, is_whole) = (&decoded.records[..], decoded.parked.is_empty());
    let (unreadable, hides) = unreadable(decoded);
    let page = BalancePage {
        exchange_id,
        observed_at,
        moment,
        asked,
        products,
        unreadable: &unreadable,
        hides,
        is_whole,
    };
    write.mirror_balances(&page).await
}

/// Returns the SKUs of records parked as a whole. The flag is true if one of them has no readable SKU.
fn unreadable(decoded: &Decoded<BalanceFact<'_>>) -> (Vec<Sku>, bool) {
    if decoded.parked.is_empty() {
        return (Vec::new(), false);
    }
    // A record with one parked part is among the read ones.
    let came: BTreeSet<&str> = decoded.records.iter().map(|record| record.sku.as_str()).collect();
    let (mut skus, mut hides) = (Vec::new(), false);
    for parked in &decoded.parked {
        match parked.sku.as_ref().and_then(|sku| Sku::new(sku.as_str()).ok()) {
            Some(sku) if came.contains(sku.as_str()) => {}
            Some(sku) => skus.push(sku),
            None => hides = true,
        }
    }
    (skus, hides)
}

/// Converts the records to facts of the mirror.
pub(crate) fn facts(decoded: Decoded<ProductBalance<'_>>) -> Decoded<BalanceFact<'_>> {
    let Decoded { records, parked, page, status, messages } = decoded;
    Decoded { records: records.into_iter().map(product).collect(), parked, page, status, messages }
}

fn product(balance: ProductBalance<'_>) -> BalanceFact<'_> {
    let cells = balance.warehouses.into_iter().map(|cell| CellBalance {
        warehouse_id: cell.warehouse_id,
        quantity: Quantity(cell.quantity_on_hand),
        warehouse_sku: cell.warehouse_sku,
        is_active: cell.is_active,
        include_in_sync: cell.include_in_sync,
    });
    BalanceFact {
        sku: balance.sku,
        product_id: balance.id.map(|id| id.0),
        upc: balance.upc,
        total: balance.quantity_on_hand,
        cells: cells.collect(),
        is_whole: balance.warehouses_parked == 0,
    }
}
