//! Projection of the journal into the mirror, with the functions of the live path.
//!
//! It reads no configuration, clock or change (docs/rules.md 37). Times come from the exchange, the subject
//! of a request from the request, and decisions of the live path about facts from events. An accepted answer
//! that the live path did not apply is marked in the journal (`exchange.set_aside`); such an answer is left
//! out here.

use crate::client::wire::{self, MalformedBody, ParsedRequest};
use crate::journal::ExchangeOutcome;
use crate::model::{Position, Timestamp};
use crate::projection::{self, ProjectionError};
use crate::store::{
    HISTORY_PRUNED, JournalEntry, JournalEvent, KIT_DENIED, LIST_COMPLETE, LIST_MISSING, RecordedEnd,
    RecordedRequest, SKU_DISCOVERED, StoreError, WRITE_ENDED, WRITE_TOOK_EFFECT, WriteTransaction,
};

/// Version of the projection with its records and decoders (docs/rules.md 40). It must grow with each change
/// after which the same journal leads to other facts. The daemon then starts again behind a snapshot
/// (`upgrade.rs`).
pub const PROJECTION_VERSION: i64 = 5;

/// Applies an entry.
pub(super) async fn apply_entry(
    write: &mut WriteTransaction,
    entry: &JournalEntry,
) -> Result<(), ProjectionError> {
    write.position_set(entry.position()).await?;
    match entry {
        JournalEntry::Begun(asking) => {
            let asked = parse_request(asking)?;
            projection::project_claim(write, asking.id, &asked).await?;
        }
        JournalEntry::Ended(asking, ending) => {
            let asked = parse_request(asking)?;
            match apply_answer(write, asking, ending, &asked).await {
                Err(ApplyError::Unreadable(why)) => return Err(damaged_exchange(asking, &why)),
                Err(ApplyError::Store(error)) => return Err(error.into()),
                Ok(()) => {}
            }
        }
        JournalEntry::Event(event) => apply_event(write, event).await?,
        JournalEntry::Reapplied(asking, ending, _) => apply_again(write, asking, ending).await?,
    }
    Ok(())
}

/// Applies an exchange again whose parked records this version may understand.
pub(super) async fn apply_again(
    write: &mut WriteTransaction,
    asking: &RecordedRequest,
    ending: &RecordedEnd,
) -> Result<(), ProjectionError> {
    let asked = parse_request(asking)?;
    let parked = write.parked_remove(asking.id).await?;
    match apply_answer(write, asking, ending, &asked).await {
        Ok(()) => Ok(()),
        Err(ApplyError::Store(error)) => Err(error.into()),
        // Nothing of the answer is applied, and its records stay parked.
        Err(ApplyError::Unreadable(_)) => {
            for row in parked {
                let record = usize::try_from(row.record).unwrap_or(usize::MAX);
                write.exchange_park(asking.id, record, &row.why, &row.raw).await?;
            }
            Ok(())
        }
    }
}

fn parse_request(asking: &RecordedRequest) -> Result<ParsedRequest, ProjectionError> {
    ParsedRequest::parse_request(asking.operation, &asking.target, &asking.body)
        .map_err(|why| damaged_exchange(asking, &why))
}

fn damaged_exchange(asking: &RecordedRequest, why: &MalformedBody) -> ProjectionError {
    ProjectionError::Damaged(format!(
        "cannot fold exchange {} ({}) in again: {why}; its body is missing or the database is damaged: \
         see tallyd journal show {}",
        asking.id, asking.operation, asking.id
    ))
}

/// Failure to apply an answer.
enum ApplyError {
    Unreadable(MalformedBody),
    Store(StoreError),
}

impl From<MalformedBody> for ApplyError {
    fn from(why: MalformedBody) -> Self {
        Self::Unreadable(why)
    }
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn apply_answer(
    write: &mut WriteTransaction,
    asking: &RecordedRequest,
    ending: &RecordedEnd,
    asked: &ParsedRequest,
) -> Result<(), ApplyError> {
    let accepted = ending.verdict == ExchangeOutcome::Accepted.as_str();
    match asked {
        ParsedRequest::Allocation(order, line) if ending.status == Some(404) => {
            projection::project_allocations(write, asking.id, asking.sent_at, (*order, *line), None).await?;
        }
        ParsedRequest::Quantities(_) | ParsedRequest::Product(..) if !accepted => {
            apply_no_effect(write, asking, ending).await?
        }
        _ if !accepted => {}
        ParsedRequest::Quantities(_) | ParsedRequest::Product(..) => {
            apply_write_answer(write, asking, ending, asked).await?
        }
        ParsedRequest::Shipments(_) | ParsedRequest::NewProduct | ParsedRequest::NewWarehouse => {
            apply_create_answer(write, asking, ending, asked).await?;
        }
        _ => apply_read_answer(write, asking, ending, asked).await?,
    }
    Ok(())
}

/// Releases the stock levels of a write that proved to have no effect. A write of unknown outcome keeps its
/// claim.
async fn apply_no_effect(
    write: &mut WriteTransaction,
    asking: &RecordedRequest,
    ending: &RecordedEnd,
) -> Result<(), StoreError> {
    let proved = [
        ExchangeOutcome::Rejected,
        ExchangeOutcome::Throttled,
        ExchangeOutcome::Refused,
        ExchangeOutcome::NotSent,
    ];
    if proved.iter().any(|outcome| outcome.as_str() == ending.verdict) {
        write.stock_level_writes_complete(asking.id, ending.position, asking.sent_at, &[]).await?;
    }
    Ok(())
}

/// Applies answers to writes of stock levels.
async fn apply_write_answer(
    write: &mut WriteTransaction,
    asking: &RecordedRequest,
    ending: &RecordedEnd,
    asked: &ParsedRequest,
) -> Result<(), StoreError> {
    let when: (Position, Timestamp) = (ending.position, asking.sent_at);
    let open = write.stock_level_writes_open(asking.id).await?;
    match asked {
        ParsedRequest::Quantities(entries) => {
            let skus: Vec<_> = entries.iter().map(|entry| entry.sku.clone()).collect();
            let answer = projection::ParsedQuantityAnswer::parse(&ending.body, &skus);
            let levels = projection::levels_in_order(write, entries, &open).await?;
            projection::project_quantity_answer(write, asking.id, when, &levels, &answer).await
        }
        _ => match wire::decode_product_answer(&ending.body) {
            Ok(answer) => projection::project_product_answer(write, asking.id, when, &open, &answer).await,
            Err(_) => Ok(()),
        },
    }
}

/// Applies answers to creates. An unreadable one left its change in doubt and brings no fact.
async fn apply_create_answer(
    write: &mut WriteTransaction,
    asking: &RecordedRequest,
    ending: &RecordedEnd,
    asked: &ParsedRequest,
) -> Result<(), StoreError> {
    let (id, at, body) = (asking.id, asking.sent_at, &ending.body);
    match asked {
        ParsedRequest::Shipments(orders) => {
            let records = wire::decode_created_shipments(body).map(|decoded| decoded.records);
            projection::project_created_shipments(write, id, at, orders, &records.unwrap_or_default()).await
        }
        ParsedRequest::NewProduct => {
            match wire::decode_product_answer(body).ok().as_ref().and_then(|answer| answer.applied_record()) {
                Some(product) => projection::project_product(write, id, at, product).await,
                None => Ok(()),
            }
        }
        _ => {
            match wire::decode_created_warehouse(body)
                .ok()
                .as_ref()
                .and_then(|answer| answer.applied_record())
            {
                Some(warehouse) => projection::project_created_warehouse(write, id, warehouse).await,
                None => Ok(()),
            }
        }
    }
}

/// Applies answers to reads.
async fn apply_read_answer(
    write: &mut WriteTransaction,
    asking: &RecordedRequest,
    ending: &RecordedEnd,
    asked: &ParsedRequest,
) -> Result<(), ApplyError> {
    let (id, at, body) = (asking.id, asking.sent_at, &ending.body);
    match asked {
        ParsedRequest::Balances(skus) => {
            let page = projection::balance_facts(wire::decode_balances(body)?);
            projection::project_balances(write, id, (at, Some(asking.sent_moment)), skus, &page).await?;
        }
        ParsedRequest::Products => {
            projection::project_found_products(write, id, at, wire::decode_products(body)?).await?;
        }
        ParsedRequest::OrderLines(order) => {
            let lines = wire::decode_order_line_items(body)?;
            projection::project_order_lines(write, id, at, *order, &lines).await?;
        }
        ParsedRequest::Allocation(order, line) => {
            let found = wire::decode_allocations(body)?;
            projection::project_allocations(write, id, at, (*order, *line), Some(&found)).await?;
        }
        ParsedRequest::ShipmentItems(shipment) => {
            let items = wire::decode_shipment_line_items(body)?;
            projection::project_shipment_items(write, id, at, *shipment, &items).await?;
        }
        ParsedRequest::KitComponents(kit) => {
            projection::project_kit_components(write, id, at, *kit, &wire::decode_kit_components(body)?)
                .await?;
        }
        ParsedRequest::TopSelling(month) => {
            projection::project_top_selling(write, id, at, *month, &wire::decode_top_selling(body)?).await?;
        }
        ParsedRequest::BusinessHealth => {
            projection::project_business_health(write, id, at, &wire::decode_business_health(body)?).await?;
        }
        ParsedRequest::WorkQueue => {
            projection::project_work_queue(write, id, at, &wire::decode_work_queue(body)?).await?;
        }
        _ => apply_list_page(write, asking, ending, asked).await?,
    }
    Ok(())
}

/// Applies pages of lists. Answers to trackings and new templates bring no facts; the next read does.
async fn apply_list_page(
    write: &mut WriteTransaction,
    asking: &RecordedRequest,
    ending: &RecordedEnd,
    asked: &ParsedRequest,
) -> Result<(), ApplyError> {
    let (id, body) = (asking.id, &ending.body);
    match asked {
        ParsedRequest::Warehouses => {
            projection::project_warehouses(write, id, &wire::decode_warehouses(body)?).await?;
        }
        ParsedRequest::Suppliers => {
            projection::project_suppliers(write, id, &wire::decode_suppliers(body)?).await?;
        }
        ParsedRequest::Storefronts => {
            projection::project_storefronts(write, id, &wire::decode_storefronts(body)?).await?;
        }
        ParsedRequest::Templates(storefront) => {
            let page = wire::decode_listing_templates(body)?;
            projection::project_listing_templates(write, id, *storefront, &page).await?;
        }
        _ => {}
    }
    Ok(())
}

async fn apply_event(write: &mut WriteTransaction, event: &JournalEvent) -> Result<(), StoreError> {
    let detail = event.detail.as_deref().unwrap_or("null");
    match event.kind.as_str() {
        LIST_MISSING | LIST_COMPLETE => {
            write.apply_list_event(&event.kind, &event.subject, detail, Timestamp(event.at_ms)).await
        }
        WRITE_TOOK_EFFECT | WRITE_ENDED => {
            write.apply_write_event(&event.kind, detail, Position(event.position)).await
        }
        HISTORY_PRUNED => write.apply_history_event(detail).await,
        KIT_DENIED => write.apply_kit_event(&event.subject, detail, Timestamp(event.at_ms)).await,
        SKU_DISCOVERED => write.apply_discovered_sku_event(&event.subject, detail).await,
        // All other events change no facts.
        _ => Ok(()),
    }
}
