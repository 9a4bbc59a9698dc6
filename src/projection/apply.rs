//! Projection of the journal into the mirror, with the functions of the live path.
//!
//! It reads no configuration, clock or change (docs/rules.md 21). Times come from the exchange, the
//! subject of a request from the request, and decisions of the live path about facts from events. An
//! accepted answer that the live path did not apply is marked in the journal (`exchange.is_ignored`); such
//! an answer is left out here.

use crate::client::wire::{self, MalformedBody, ParsedRequest};
use crate::journal::ExchangeOutcome;
use crate::model::{ExchangeId, Operation, Position, Timestamp};
use crate::projection::{self, ProjectionError, project_list};
use crate::store::{ExchangeDetail, ExchangeRow, JournalEntry, PlatformList, StoreError, WriteTransaction};
use ExchangeOutcome::{NotSent, Refused, Rejected, Throttled};

/// Version of the projection with its records and decoders (docs/rules.md 21). It must grow with each change
/// after which the same journal leads to other facts; `upgrade.rs` then begins behind a snapshot.
pub(crate) const PROJECTION_VERSION: i64 = 11;

pub(super) async fn apply_entry(
    write: &mut WriteTransaction,
    entry: &JournalEntry,
) -> Result<(), ProjectionError> {
    write.position_set(entry.position()).await?;
    match entry {
        JournalEntry::Begun(begun) => {
            let id = ExchangeId(begun.exchange.id);
            projection::project_claim(write, id, &parse_request(begun)?).await.map(drop)?;
        }
        JournalEntry::Ended(ended) => {
            let parsed = parse_request(ended)?;
            apply_answer(write, ended, &parsed).await.map_err(|error| match error {
                ApplyError::Unreadable(why) => damaged_exchange(ended, &why),
                ApplyError::Store(error) => error.into(),
            })?;
        }
        JournalEntry::Event(event) => {
            let (at, detail) = (Timestamp(event.at_ms), event.detail.as_deref());
            write.apply_event((Position(event.position), at), &event.kind, &event.subject, detail).await?;
        }
    }
    Ok(())
}

fn parse_request(begun: &ExchangeDetail) -> Result<ParsedRequest, ProjectionError> {
    let ExchangeRow { operation, target, .. } = &begun.exchange;
    let unknown = || StoreError::UnknownValue("an operation", operation.clone());
    let body = begun.request_body()?.unwrap_or_default();
    ParsedRequest::parse_request(Operation::from_code(operation).ok_or_else(unknown)?, target, &body)
        .map_err(|why| damaged_exchange(begun, &why))
}

fn damaged_exchange(of: &ExchangeDetail, why: &MalformedBody) -> ProjectionError {
    let ExchangeRow { id, operation, .. } = &of.exchange;
    ProjectionError::Damaged(format!(
        "cannot project exchange {id} ({operation}): {why}; its body is missing or the database is damaged: \
         see tallyd journal show {id}"
    ))
}

#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error(transparent)]
    Unreadable(#[from] MalformedBody),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Applies an answer. An unreadable answer to a create left its change in doubt and brings no fact.
async fn apply_answer(
    write: &mut WriteTransaction,
    ended: &ExchangeDetail,
    parsed: &ParsedRequest,
) -> Result<(), ApplyError> {
    let (id, end) = (ExchangeId(ended.exchange.id), ended.end());
    let at = Timestamp(ended.exchange.sent_ms);
    let verdict = ended.exchange.verdict.as_deref().and_then(ExchangeOutcome::from_code);
    let body = &ended.response_body()?.unwrap_or_default();
    match (parsed, verdict) {
        (ParsedRequest::Allocation(order, line), _) if ended.exchange.status == Some(404) => {
            projection::project_allocations(write, id, at, (*order, *line), None).await?;
        }
        // A write that proved to have no effect releases its stock levels; an unknown outcome keeps the claim.
        (
            ParsedRequest::Quantities(_) | ParsedRequest::Product(..),
            Some(Rejected | Throttled | Refused | NotSent),
        ) => write.stock_level_writes_complete(id, end, at, &[]).await?,
        (_, verdict) if verdict != Some(ExchangeOutcome::Accepted) => {}
        (ParsedRequest::Quantities(entries), _) => {
            let open = write.stock_level_writes_open(id).await?;
            let skus: Vec<_> = entries.iter().map(|entry| entry.sku.clone()).collect();
            let answer = projection::ParsedQuantityAnswer::parse(body, &skus);
            let levels = projection::levels_in_order(write, entries, &open).await?;
            projection::project_quantity_answer(write, id, (end, at), &levels, &answer).await?;
        }
        (ParsedRequest::Product(product, _), _) => {
            let open = write.stock_level_writes_open(id).await?;
            if let Ok(answer) = wire::decode_product_update(body, *product) {
                projection::project_product_answer(write, id, (end, at), &open, &answer).await?;
            }
        }
        (ParsedRequest::Shipments(orders), _) => {
            let records = wire::decode_created_shipments(body).map(|decoded| decoded.records);
            let records = records.unwrap_or_default();
            projection::project_created_shipments(write, id, at, orders, &records).await?;
        }
        (ParsedRequest::NewProduct, _) => {
            if let Ok(answer) = wire::decode_product_answer(body)
                && let Some(product) = answer.applied_record()
            {
                projection::project_product(write, id, at, product).await?;
            }
        }
        (ParsedRequest::NewWarehouse, _) => {
            if let Ok(answer) = wire::decode_created_warehouse(body)
                && let Some(warehouse) = answer.applied_record()
            {
                write.mirror_list(PlatformList::Warehouses, id, &[warehouse]).await?;
            }
        }
        _ => apply_read_answer(write, (id, at), body, parsed).await?,
    }
    Ok(())
}

/// Applies answers to reads. Answers to trackings and new templates bring no facts; the next read does.
async fn apply_read_answer(
    write: &mut WriteTransaction,
    (id, at): (ExchangeId, Timestamp),
    body: &[u8],
    parsed: &ParsedRequest,
) -> Result<(), ApplyError> {
    match parsed {
        ParsedRequest::Balances(skus) => {
            let page = projection::balance_facts(wire::decode_balances(body)?);
            projection::project_balances(write, id, at, skus, &page).await?;
        }
        ParsedRequest::Products => {
            projection::project_found_products(write, id, at, wire::decode_products(body)?).await?;
        }
        ParsedRequest::OrderLines(order) => {
            let lines = wire::decode_order_line_items(body, *order)?;
            projection::project_order_lines(write, id, at, *order, &lines).await?;
        }
        ParsedRequest::Allocation(order, line) => {
            let found = wire::decode_allocations(body, *line)?;
            projection::project_allocations(write, id, at, (*order, *line), Some(&found)).await?;
        }
        ParsedRequest::ShipmentItems(shipment) => {
            let items = wire::decode_shipment_line_items(body, *shipment)?;
            projection::project_shipment_items(write, id, at, *shipment, &items).await?;
        }
        ParsedRequest::KitComponents(kit) => {
            projection::project_kit_components(write, id, at, *kit, &wire::decode_kit_components(body)?)
                .await?;
        }
        ParsedRequest::TopSelling(month) => {
            let sellers = wire::decode_top_selling(body, *month)?;
            projection::project_top_selling(write, id, at, *month, &sellers).await?;
        }
        ParsedRequest::BusinessHealth => {
            projection::project_business_health(write, id, at, &wire::decode_business_health(body)?).await?;
        }
        ParsedRequest::WorkQueue => {
            write.mirror_work_queue(id, at, &wire::decode_work_queue(body)?).await?;
        }
        ParsedRequest::Warehouses => {
            project_list(write, id, PlatformList::Warehouses, &wire::decode_warehouses(body)?).await?;
        }
        ParsedRequest::Suppliers => {
            project_list(write, id, PlatformList::Suppliers, &wire::decode_suppliers(body)?).await?;
        }
        ParsedRequest::Storefronts => {
            project_list(write, id, PlatformList::Storefronts, &wire::decode_storefronts(body)?).await?;
        }
        ParsedRequest::Templates(storefront) => {
            let page = wire::decode_listing_templates(body, *storefront)?;
            project_list(write, id, PlatformList::Templates(*storefront), &page).await?;
        }
        // Answers to writes: `apply_answer` projects those that bring facts.
        ParsedRequest::Quantities(_)
        | ParsedRequest::Shipments(_)
        | ParsedRequest::Tracking
        | ParsedRequest::NewProduct
        | ParsedRequest::Product(..)
        | ParsedRequest::NewWarehouse
        | ParsedRequest::NewTemplate => {}
    }
    Ok(())
}
