//! Projection of an accepted answer into the mirror: one function per operation, shared by the live path and
//! replay.
//!
//! The functions read no configuration, clock or change; times come from the exchange. Unreadable records are
//! parked one by one with their exchange, and counted.

mod kits;
mod lists;
mod orders;
mod reports;
mod written;

pub(super) use kits::kit_components;
pub(super) use lists::{listing_templates, storefronts, suppliers, warehouses};
pub(super) use orders::{allocations, order_lines, shipment_items};
pub(super) use reports::{business_health, top_selling};
mod delivered;

pub(super) use delivered::{
    product_made, products_found, shipment_of, shipment_record, shipments_made, warehouse_made,
};
pub(super) use written::{Told, claimed, in_order, product_updated, quantities_answered};

use super::call::Answer;
use super::{Context, JobError};
use crate::client::wire::{self, Decoded, ProductBalance, WorkQueue};
use crate::model::{ExchangeId, Moment, Quantity, Sku, Timestamp, time};
use crate::reconcile::brake;
use crate::store::{
    BalanceFact, BalancePage, BalancesRecorded, CellBalance, Durability, MismatchRow, StoreError, Unread,
    WorkQueueCounts, WorkQueueMoved, Write,
};
use crate::telemetry::event;
use serde_json::json;
use std::collections::BTreeSet;

/// Result of recording an answer.
#[derive(Debug)]
pub(super) enum Looked {
    /// The answer is recorded.
    Taken(BalancesRecorded),
    /// None of several known SKUs came. The answer decides nothing and is not applied.
    Emptied {
        /// Number of known SKUs in the request.
        known: u64,
        /// True if no other known SKU could be asked for beside.
        ///
        /// Such an answer is recorded as one that shows nothing and proves nothing. An operator then sees
        /// since when the SKU is not shown.
        is_alone: bool,
    },
}

impl Looked {
    /// Returns true if the request should be repeated with other known SKUs beside it.
    pub(super) fn wants_witnesses(&self) -> bool {
        matches!(self, Looked::Emptied { is_alone: false, .. })
    }

    /// Returns true if something of the request came.
    pub(super) fn shows_some(&self) -> bool {
        matches!(self, Looked::Taken(recorded) if !recorded.is_silent)
    }

    /// Returns success if the answer was recorded. An answer that decides nothing is a failed read.
    pub(super) fn told(self) -> Result<(), JobError> {
        match self {
            Looked::Taken(_) | Looked::Emptied { is_alone: true, .. } => Ok(()),
            Looked::Emptied { .. } => self.plausible().map(drop),
        }
    }

    /// Returns the record of the answer. An answer without any known SKU is a failed read.
    pub(super) fn plausible(self) -> Result<BalancesRecorded, JobError> {
        match self {
            Looked::Taken(recorded) => Ok(recorded),
            Looked::Emptied { known, .. } => Err(JobError::Implausible(format!(
                "the service returned none of {known} known SKUs; nothing was changed; \
                 see whether the account is the right one: tallyd check --online"
            ))),
        }
    }
}

/// Records a page of balances and fixes the base of counts that waited for a read (docs/rules.md 3).
///
/// # Errors
/// An answer without any of the known SKUs is a failed read.
pub(super) async fn balances_page(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
) -> Result<BalancesRecorded, JobError> {
    balances_look(context, answer, asked).await?.plausible()
}

/// Records a page of few SKUs, which may be requested again with others beside them.
pub(super) async fn balances_look(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
) -> Result<Looked, JobError> {
    if repeats(context, answer, asked).await? {
        return Ok(Looked::Taken(BalancesRecorded::default()));
    }
    first_balances_look(context, answer, asked).await
}

/// Records a page of SKUs that were never asked for, so that the answer cannot equal a stored one.
pub(super) async fn first_balances_look(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
) -> Result<Looked, JobError> {
    let decoded = context.decoded(answer, wire::decode_balances(&answer.reply.body)).await?;
    if !decoded.parked.is_empty() || !came_nothing(asked, &decoded) {
        return Ok(Looked::Taken(balances_keep(context, answer, asked, decoded).await?));
    }
    let (known, others) = context.store.product_known(asked).await?;
    if !brake::looks_emptied(known, 0) {
        return Ok(Looked::Taken(balances_keep(context, answer, asked, decoded).await?));
    }
    let is_alone = known == 1 && !others;
    if is_alone {
        balances_keep(context, answer, asked, decoded).await?;
    } else {
        context.end_alone(answer).await?;
    }
    Ok(Looked::Emptied { known, is_alone })
}

/// Returns true if an answer contains no record of the requested SKUs, compared by case key.
fn came_nothing(asked: &[Sku], decoded: &Decoded<ProductBalance<'_>>) -> bool {
    if decoded.records.is_empty() {
        return true;
    }
    let asked: BTreeSet<String> = asked.iter().map(Sku::fold).collect();
    !decoded.records.iter().any(|record| asked.contains(&record.sku.fold()))
}

/// Returns true if the mirror holds the same answer already. The exchange is then ended without parsing its
/// body.
async fn repeats(context: &Context, answer: &Answer, asked: &[Sku]) -> Result<bool, JobError> {
    let Some(first) = asked.first() else { return Ok(false) };
    let (exchange_id, observed_at, digest) = (answer.id, answer.sent_at, answer.digest);
    let unread = Unread { exchange_id, observed_at, first, digest };
    if !context.store.reading_may_repeat(&unread).await? {
        return Ok(false);
    }
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, answer).await?;
    if !write.reading_repeat(&unread).await? {
        return Ok(false);
    }
    fix_bases_and_commit(context, answer, write).await?;
    Ok(true)
}

/// Records the products of a lookup, which are balances too. Returns their SKUs.
pub(super) async fn products_page(context: &Context, answer: &Answer) -> Result<Vec<Sku>, JobError> {
    let decoded = context.decoded(answer, wire::decode_products(&answer.reply.body)).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, answer).await?;
    let found = products_found(&mut write, answer.id, answer.sent_at, decoded).await?;
    fix_bases_and_commit(context, answer, write).await?;
    Ok(found)
}

async fn balances_keep(
    context: &Context,
    answer: &Answer,
    asked: &[Sku],
    decoded: Decoded<ProductBalance<'_>>,
) -> Result<BalancesRecorded, JobError> {
    // Parsing and compression come before the write lock, because pages are written one after the other.
    let decoded = facts(decoded);
    answer.pack();
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, answer).await?;
    let when = (answer.sent_at, Some(answer.sent_moment));
    let recorded = balances(&mut write, answer.id, when, asked, &decoded).await?;
    for row in &recorded.mismatched {
        let subject = format!("{} in warehouse {}", row.sku, row.warehouse_id);
        let told = json!({"mine": row.written, "theirs": row.shown, "exchange": answer.id});
        write.event_append(context.now(), event::CONFLICT_OPENED, &subject, Some(&told.to_string())).await?;
    }
    fix_bases_and_commit(context, answer, write).await?;
    tell(&recorded);
    Ok(recorded)
}

fn tell(recorded: &BalancesRecorded) {
    for MismatchRow { sku, warehouse_id, written, shown } in &recorded.mismatched {
        let theirs = shown.map_or_else(|| "nothing".into(), |shown| shown.to_string());
        tracing::warn!(
            event = event::CONFLICT_OPENED,
            sku,
            warehouse = warehouse_id,
            mine = written,
            theirs = shown,
            "the service accepted {written} for {sku} in warehouse {warehouse_id} and two looks show {theirs}; \
             look at the product there, then count it: tallyd quantity set"
        );
    }
    if recorded.agreed > 0 {
        let conflicts = recorded.agreed;
        tracing::info!(
            event = event::CONFLICT_CLOSED,
            conflicts,
            "{conflicts} conflict(s) closed: the service shows what was written"
        );
    }
}

async fn fix_bases_and_commit(context: &Context, answer: &Answer, write: Write) -> Result<(), JobError> {
    let max_base_age = time::millis(context.settings().quantities.max_base_age);
    Ok(write.outbox_fix_bases(answer.id, answer.sent_at, max_base_age).await?)
}

/// Records *Get product balances* and *Get products by SKU or UPC*.
///
/// Without the moment of the request, missing products do not count as absent.
pub(super) async fn balances(
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
pub(super) fn facts(decoded: Decoded<ProductBalance<'_>>) -> Decoded<BalanceFact<'_>> {
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

/// Records *Work queue*. Returns the changed counts.
pub(super) async fn work_queue(
    write: &mut Write,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    queue: &WorkQueue,
) -> Result<WorkQueueMoved, StoreError> {
    let counts: WorkQueueCounts = [
        queue.new_purchase_orders,
        queue.submitted_purchase_orders,
        queue.partially_received_purchase_orders,
        queue.open_work_orders,
        queue.awaiting_payment_sales_orders,
        queue.paid_in_process_sales_orders,
        queue.cancelled_sales_orders,
        queue.paid_ready_to_ship_sales_orders,
        queue.low_inventory_products,
        queue.unshipped_sales_orders,
        queue.unshipped_drop_ship_orders,
        queue.queued_listings,
    ];
    write.mirror_work_queue(exchange_id, observed_at, &counts).await
}

/// Stores the parked records of an answer.
async fn park<T>(write: &mut Write, exchange: ExchangeId, decoded: &Decoded<T>) -> Result<(), StoreError> {
    for record in &decoded.parked {
        write.exchange_park(exchange, record.index, &record.why, &record.raw).await?;
        if let Some(subject) = record.subject() {
            write.parked_name(exchange, record.index, &subject).await?;
        }
    }
    if let Some(first) = decoded.parked.first() {
        tracing::warn!(
            event = event::RECORD_PARKED,
            exchange = exchange.0,
            records = decoded.parked.len(),
            "{} record(s) of an answer made no sense and were kept aside; the first: {}",
            decoded.parked.len(),
            crate::model::cut_reason(first.why.as_str())
        );
    }
    Ok(())
}
