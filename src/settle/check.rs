//! Checks of changes in doubt, by the reads of a preflight, and reads of accepted writes.
//!
//! Many stock levels are read per call. Results are stored with the changes.

use super::SettleRun;
use super::case::{InDoubtCase, InDoubtRequest, NOT_RETURNED, TrackingClaim};
use crate::client::wire::{self, DecodedAnswer, ProductBalance};
use crate::exec::balances_reader::BalancesReader;
use crate::exec::preflight;
use crate::exec::quarantine::EntryRoute;
use crate::exec::reads::{ReadOrigin, TimedRead};
use crate::exec::{JobContext, JobError};
use crate::model::{
    ChangeId, ExchangeId, Lane, LineItemId, Operation, OrderId, ShipmentItemId, Sku, Timestamp, case_key,
};
use crate::outbox::CreateBody;
use crate::reconcile::creates::FoundRecord;
use crate::reconcile::product_update::UpdateClaim;
use crate::store::{Durability, StoreError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl SettleRun<'_> {
    /// Checks each of these cases once. A case that cannot be read now is left to the next run.
    pub(super) async fn check_cases(&mut self, cases: &[&InDoubtCase]) -> Result<(), JobError> {
        self.check_levels(cases).await?;
        for case in cases {
            self.summary.note_read(check_case(self.origin(Lane::Push), case).await)?;
        }
        Ok(())
    }

    /// Checks many stock levels per read. Their values are evidence and not facts, because they are claimed;
    /// values of other stock levels are facts. An unreadable SKU does not block the others.
    async fn check_levels(&mut self, cases: &[&InDoubtCase]) -> Result<(), JobError> {
        let context = self.context;
        let skus: BTreeSet<&Sku> = cases.iter().filter_map(|case| level_sku(case)).collect();
        let skus: Vec<Sku> = skus.into_iter().cloned().collect();
        let size = context.settings().skus_per_call;
        let mut reader = BalancesReader::new(self.origin(Lane::Push), &skus, size);
        while let Some((answer, page)) = reader.next_page().await? {
            let decoded = wire::decode_balances(&answer.reply.body)?;
            let mut checks = Vec::new();
            for case in cases.iter().filter(|case| level_sku(case).is_some_and(|sku| page.contains(sku))) {
                if let Some(shown) = level_result(case, &decoded) {
                    checks.extend(case.changes.iter().map(|change| (*change, shown.clone())));
                }
            }
            store_checks(context, answer.id, answer.sent_at, &checks).await?;
        }
        self.summary.note_pages(reader, "in doubt");
        Ok(())
    }

    /// Reads accepted writes back, many per read: zeros, stock levels without a confirmed write, a sample of
    /// the rest, and writes that an earlier read did not show. Every recorded read of balances is judged in
    /// the same way, so a poll that comes first serves as well.
    ///
    /// Changes wait for a doubted stock level, so its read is as urgent as a push. The other reads go behind
    /// the pushes.
    pub(super) async fn read_back(&mut self) -> Result<(), JobError> {
        let context = self.context;
        let (quarantine, operation) = (context.quarantine().await?, Operation::GetProductBalances);
        let mut due = context.store.readback_skus(context.now()).await?;
        due.retain(|(sku, _)| {
            !matches!(quarantine.read_route(operation, sku.as_str()), EntryRoute::Deferred(..))
        });
        for page in due.chunks(context.settings().skus_per_call) {
            let is_doubted = page.iter().any(|(_, is_doubted)| *is_doubted);
            let lane = if is_doubted { Lane::Push } else { Lane::Poll };
            let skus: Vec<Sku> = page.iter().map(|(sku, _)| sku.clone()).collect();
            let reader = BalancesReader::new(self.origin(lane), &skus, skus.len());
            self.summary.note_pages(reader.read_all().await?, "that were written");
            self.summary.may_unblock |= is_doubted;
        }
        Ok(())
    }
}

fn level_sku(case: &InDoubtCase) -> Option<&Sku> {
    let InDoubtRequest::Quantity { sku, .. } = &case.request else { return None };
    Some(sku)
}

/// Returns the result of a check for storage. It is a quantity, null for a product without the warehouse, or
/// [`NOT_RETURNED`]. `None` if the product may be among the unreadable records.
fn level_result(case: &InDoubtCase, decoded: &DecodedAnswer<ProductBalance<'_>>) -> Option<Value> {
    let InDoubtRequest::Quantity { sku, write, .. } = &case.request else { return None };
    let Some(product) = decoded.records.iter().find(|product| product.sku == *sku) else {
        return decoded.parked.is_empty().then(|| json!(NOT_RETURNED));
    };
    let level = product.warehouses.iter().find(|level| level.warehouse_id.0 == write.warehouse_id);
    Some(json!(level.map(|level| level.quantity_on_hand)))
}

async fn check_case(origin: ReadOrigin<'_>, case: &InDoubtCase) -> Result<u64, JobError> {
    let TimedRead { exchange, sent_at, records: what, .. } = match &case.request {
        InDoubtRequest::Shipment { order, .. } => read_left(origin, *order).await?,
        InDoubtRequest::Tracking(claim) => read_numbers(origin, claim).await?,
        InDoubtRequest::Create { create, .. } => read_namesakes(origin, create).await?,
        // Checked with the other stock levels, or not at all.
        InDoubtRequest::Quantity { .. } | InDoubtRequest::Unreadable => return Ok(0),
        InDoubtRequest::Update(claim) if claim.possible_skus().is_empty() => return Ok(0),
        InDoubtRequest::Update(claim) => read_updated(origin, claim).await?,
    };
    let checks: Vec<(ChangeId, Value)> = case.changes.iter().map(|change| (*change, what.clone())).collect();
    store_checks(origin.context, exchange, sent_at, &checks).await?;
    Ok(1)
}

/// Reads the quantity left of each line of an order, where the platform shows it.
async fn read_left(origin: ReadOrigin<'_>, order: OrderId) -> Result<TimedRead<Value>, JobError> {
    let seen = preflight::read_order(origin, order).await?;
    let left = seen.records.lines.iter().filter_map(|line| Some((line.line_item_id, line.quantity_left?)));
    let left: BTreeMap<LineItemId, i64> = left.collect();
    Ok(seen.with_records(json!(left)))
}

async fn read_numbers(origin: ReadOrigin<'_>, claim: &TrackingClaim) -> Result<TimedRead<Value>, JobError> {
    let seen = preflight::read_shipment(origin, claim.shipment_id).await?;
    let numbers = seen.records.iter().map(|item| (item.id, item.tracking_number.clone()));
    let numbers: BTreeMap<ShipmentItemId, Option<String>> = numbers.collect();
    Ok(seen.with_records(json!(numbers)))
}

/// Reads the product after an update. Null if the platform shows it under neither SKU.
async fn read_updated(origin: ReadOrigin<'_>, claim: &UpdateClaim) -> Result<TimedRead<Value>, JobError> {
    let skus: Vec<Sku> = claim.possible_skus().into_iter().filter_map(|sku| Sku::new(sku).ok()).collect();
    let seen = preflight::read_products(origin, &skus).await?;
    let product = seen.records.iter().find(|product| product.id == claim.product_id);
    let shown = json!(product.map(|product| &product.shown_fields));
    Ok(seen.with_records(shown))
}

/// Reads the records under the name. Null if there are none and the answer lacks other known records too.
async fn read_namesakes(origin: ReadOrigin<'_>, create: &CreateBody) -> Result<TimedRead<Value>, JobError> {
    let is_ours = |found: &FoundRecord| case_key(&found.name) == case_key(create.name());
    let mut seen = create.preflight_named(origin).await?.map(Some);
    if !seen.records.iter().flatten().any(is_ours) {
        seen = create.preflight_with_known(origin).await?;
    }
    Ok(seen.map(|found| json!(found.map(|found| found.into_iter().filter(is_ours).collect::<Vec<_>>()))))
}

async fn store_checks(
    context: &JobContext,
    exchange: ExchangeId,
    sent_at: Timestamp,
    checks: &[(ChangeId, Value)],
) -> Result<(), StoreError> {
    let mut write = context.store.begin_write(Durability::Normal).await?;
    write.in_doubt_check_store(exchange, sent_at, checks).await?;
    write.commit().await
}
