//! Checks of changes in doubt, by the reads of a preflight.
//!
//! Many stock levels are read per call. Results are stored with the changes.

use super::case::{Case, NOT_RETURNED, TrackingClaim, UpdateClaim, What};
use super::summary::Tally;
use crate::client::wire::{self, Decoded, ProductBalance};
use crate::exec::balances_reader::Parts;
use crate::exec::preflight::{self, Create, Looker, Seen};
use crate::exec::{Context, JobError};
use crate::model::{ExchangeId, Lane, LineItemId, OrderId, RunId, ShipmentItemId, Sku, Timestamp, WishId};
use crate::reconcile::create::{Found, fold};
use crate::store::{Durability, StoreError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Checks each of these cases once. A case that cannot be read now is left to the next run.
pub(super) async fn at(
    context: &Context,
    run: RunId,
    cases: &[&Case],
    tally: &mut Tally,
) -> Result<(), JobError> {
    let looker = Looker { context, run, lane: Lane::Push };
    let is_cell = |case: &&Case| matches!(case.what, What::Cell { .. });
    let cells: Vec<&Case> = cases.iter().copied().filter(is_cell).collect();
    at_cells(looker, &cells, tally).await?;
    for case in cases {
        noted(at_one(looker, case).await, tally)?;
    }
    Ok(())
}

/// Counts the reads of a check. A failed read is noted and does not stop other checks.
pub(super) fn noted(look: Result<u64, JobError>, tally: &mut Tally) -> Result<(), JobError> {
    match look {
        Ok(looks) => tally.looks += looks,
        Err(error @ (JobError::GivenUp { .. } | JobError::Rejected { .. } | JobError::Implausible(_))) => {
            tally.note(error.to_string());
        }
        Err(error @ (JobError::Stopped | JobError::Refused(_) | JobError::Store(_))) => return Err(error),
    }
    Ok(())
}

/// Checks many stock levels per read. Their values are evidence and not facts, because they are claimed;
/// values of other stock levels are facts. An unreadable SKU does not block the others.
async fn at_cells(looker: Looker<'_>, cases: &[&Case], tally: &mut Tally) -> Result<(), JobError> {
    let Looker { context, run, lane } = looker;
    let skus: BTreeSet<&Sku> = cases.iter().filter_map(|case| sku(case)).collect();
    let skus: Vec<Sku> = skus.into_iter().cloned().collect();
    let mut parts = Parts::new(context, run, lane, &skus, context.settings().skus_per_call);
    while let Some((answer, page)) = parts.next_page().await? {
        let decoded = wire::decode_balances(&answer.reply.body);
        let decoded = decoded.map_err(|why| JobError::Implausible(why.to_string()))?;
        let mut looks = Vec::new();
        for case in cases.iter().filter(|case| sku(case).is_some_and(|sku| page.contains(sku))) {
            if let Some(shown) = shown(case, &decoded) {
                looks.extend(case.wishes.iter().map(|wish| (*wish, shown.clone())));
            }
        }
        keep(context, answer.id, answer.sent_at, &looks).await?;
    }
    tally.looks += parts.pages;
    parts.unread.into_iter().for_each(|why| tally.note(format!("cannot read all cells in doubt: {why}")));
    Ok(())
}

/// Returns the SKU of a stock level in doubt.
fn sku(case: &Case) -> Option<&Sku> {
    match &case.what {
        What::Cell { sku, .. } => Some(sku),
        What::Shipment { .. } | What::Tracking(_) | What::Update(_) | What::Create { .. } | What::Lost => {
            None
        }
    }
}

/// Returns the result of a check for storage. It is a quantity, null for a product without the warehouse, or
/// [`NOT_RETURNED`]. `None` if the product was read only in part, or may be among the unreadable records.
fn shown(case: &Case, decoded: &Decoded<ProductBalance<'_>>) -> Option<Value> {
    let What::Cell { sku, write, .. } = &case.what else { return None };
    let Some(product) = decoded.records.iter().find(|product| product.sku == *sku) else {
        return decoded.parked.is_empty().then(|| json!(NOT_RETURNED));
    };
    let cell = product.warehouses.iter().find(|cell| cell.warehouse_id.0 == write.warehouse_id);
    match cell {
        Some(cell) => Some(json!(cell.quantity_on_hand)),
        None => (product.warehouses_parked == 0).then_some(Value::Null),
    }
}

async fn at_one(looker: Looker<'_>, case: &Case) -> Result<u64, JobError> {
    let Seen { exchange, sent_at, what, .. } = match &case.what {
        What::Shipment { order, .. } => left_of(looker, *order).await?,
        What::Tracking(claim) => numbers_of(looker, claim).await?,
        What::Create { body, .. } => match Create::of(body) {
            Some(create) => namesakes(looker, create).await?,
            None => return Ok(0),
        },
        // Checked with the other stock levels, or not at all.
        What::Cell { .. } | What::Lost => return Ok(0),
        What::Update(claim) if claim.skus().is_empty() => return Ok(0),
        What::Update(claim) => updated(looker, claim).await?,
    };
    let looks: Vec<(WishId, Value)> = case.wishes.iter().map(|wish| (*wish, what.clone())).collect();
    keep(looker.context, exchange, sent_at, &looks).await?;
    Ok(1)
}

/// Reads the quantity left of each line of an order, where the platform shows it.
async fn left_of(looker: Looker<'_>, order: OrderId) -> Result<Seen<Value>, JobError> {
    let seen = preflight::order(looker, order).await?;
    let left = seen.what.lines.iter().filter_map(|line| Some((line.line_item_id, line.quantity_left?)));
    let left: BTreeMap<LineItemId, i64> = left.collect();
    Ok(seen.with(json!(left)))
}

/// Reads the tracking number of each item of a shipment.
async fn numbers_of(looker: Looker<'_>, claim: &TrackingClaim) -> Result<Seen<Value>, JobError> {
    let seen = preflight::shipment(looker, claim.shipment_id).await?;
    let numbers = seen.what.iter().map(|item| (item.id, item.tracking_number.clone()));
    let numbers: BTreeMap<ShipmentItemId, Option<String>> = numbers.collect();
    Ok(seen.with(json!(numbers)))
}

/// Reads the product after an update. Null if the platform shows it under neither SKU.
async fn updated(looker: Looker<'_>, claim: &UpdateClaim) -> Result<Seen<Value>, JobError> {
    let skus: Vec<Sku> = claim.skus().into_iter().filter_map(|sku| Sku::new(sku).ok()).collect();
    let seen = preflight::products(looker, &skus).await?;
    let product = seen.what.iter().find(|product| product.id == claim.product_id);
    let shown = json!(product.map(|product| &product.shown));
    Ok(seen.with(shown))
}

/// Reads the records under the name. Null if there are none and the answer lacks other known records too.
async fn namesakes(looker: Looker<'_>, create: Create<'_>) -> Result<Seen<Value>, JobError> {
    let is_ours = |found: &Found| fold(&found.name) == fold(create.name());
    let mut seen = create.look(looker).await?.map(Some);
    if !seen.what.iter().flatten().any(is_ours) {
        seen = create.look_beside_others(looker).await?;
    }
    Ok(seen.map(|found| json!(found.map(|found| found.into_iter().filter(is_ours).collect::<Vec<_>>()))))
}

async fn keep(
    context: &Context,
    exchange: ExchangeId,
    sent_at: Timestamp,
    looks: &[(WishId, Value)],
) -> Result<(), StoreError> {
    let mut write = context.store.begin(Durability::Normal).await?;
    write.look_keep(exchange, sent_at, looks).await?;
    write.commit().await
}
