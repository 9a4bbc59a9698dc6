//! Projection of the journal into the mirror, with the functions of the live path.
//!
//! It reads no configuration, clock or change (docs/rules.md 21). Times come from the exchange, the
//! subject of a request from the request, and decisions of the live path about facts from events. An
//! accepted answer that the live path did not apply is marked in the journal (`exchange.is_ignored`); such
//! an answer is left out here.

use crate::client::wire::{self, MalformedBody, StoredRequest};
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
            apply_claim(write, begun).await.map_err(|error| error.in_exchange(begun))
        }
        JournalEntry::Ended(ended) => {
            apply_answer(write, ended).await.map_err(|error| error.in_exchange(ended))
        }
        JournalEntry::Event(event) => {
            let (at, detail) = (Timestamp(event.at_ms), event.detail.as_deref());
            let position = Position(event.position);
            Ok(write.apply_event((position, at), &event.kind, &event.subject, detail).await?)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error(transparent)]
    Unreadable(#[from] MalformedBody),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ApplyError {
    fn in_exchange(self, exchange: &ExchangeDetail) -> ProjectionError {
        let ExchangeRow { id, operation, .. } = &exchange.exchange;
        match self {
            Self::Store(error) => error.into(),
            Self::Unreadable(why) => ProjectionError::Damaged(format!(
                "cannot project exchange {id} ({operation}): {why}; its body is missing or the database is damaged: \
                 see tallyd journal show {id}"
            )),
        }
    }
}

fn stored_request<'a>(exchange: &'a ExchangeRow, body: &'a [u8]) -> Result<StoredRequest<'a>, StoreError> {
    let ExchangeRow { operation, target, .. } = exchange;
    let unknown = || StoreError::UnknownValue("an operation", operation.clone());
    Ok(StoredRequest { operation: Operation::from_code(operation).ok_or_else(unknown)?, target, body })
}

async fn apply_claim(write: &mut WriteTransaction, begun: &ExchangeDetail) -> Result<(), ApplyError> {
    let body = begun.request_body()?.unwrap_or_default();
    let request = stored_request(&begun.exchange, &body)?;
    projection::project_claim(write, ExchangeId(begun.exchange.id), request).await.map(drop)
}

/// Applies an answer. An unreadable answer to a create left its change in doubt and brings no fact.
async fn apply_answer(write: &mut WriteTransaction, ended: &ExchangeDetail) -> Result<(), ApplyError> {
    let (id, end) = (ExchangeId(ended.exchange.id), ended.end());
    let at = Timestamp(ended.exchange.sent_ms);
    let verdict = ended.exchange.verdict.as_deref().and_then(ExchangeOutcome::from_code);
    let (asked, body) =
        (ended.request_body()?.unwrap_or_default(), &ended.response_body()?.unwrap_or_default());
    let request = stored_request(&ended.exchange, &asked)?;
    match (request.operation, verdict) {
        (Operation::WarehouseAllocation, _) if ended.exchange.status == Some(404) => {
            projection::project_allocations(write, id, at, request.order_line()?, None).await?;
        }
        // A write that proved to have no effect releases its stock levels; an unknown outcome keeps the claim.
        (
            Operation::UpdateQuantityOnHand | Operation::UpdateProduct,
            Some(Rejected | Throttled | Refused | NotSent),
        ) => write.stock_level_writes_complete(id, end, at, &[]).await?,
        (_, verdict) if verdict != Some(ExchangeOutcome::Accepted) => {}
        (Operation::UpdateQuantityOnHand, _) => {
            let (entries, open) = (request.quantities()?, write.stock_level_writes_open(id).await?);
            let skus: Vec<_> = entries.iter().map(|entry| entry.sku.clone()).collect();
            let answer = projection::ParsedQuantityAnswer::parse(body, &skus);
            let levels = projection::levels_in_order(write, &entries, &open).await?;
            projection::project_quantity_answer(write, id, (end, at), &levels, &answer).await?;
        }
        (Operation::UpdateProduct, _) => {
            let ((product, _), open) = (request.product()?, write.stock_level_writes_open(id).await?);
            if let Ok(answer) = wire::decode_product_update(body, product) {
                projection::project_product_answer(write, id, (end, at), &open, &answer).await?;
            }
        }
        (Operation::CreateShipments, _) => {
            let records = wire::decode_created_shipments(body).map(|decoded| decoded.records);
            let (orders, records) = (request.shipped_orders()?, records.unwrap_or_default());
            projection::project_created_shipments(write, id, at, &orders, &records).await?;
        }
        (Operation::CreateProduct, _) => {
            if let Ok(answer) = wire::decode_product_answer(body)
                && let Some(product) = answer.applied_record()
            {
                projection::project_product(write, id, at, product).await?;
            }
        }
        (Operation::CreateWarehouse, _) => {
            if let Ok(answer) = wire::decode_created_warehouse(body)
                && let Some(warehouse) = answer.applied_record()
            {
                write.mirror_list(PlatformList::Warehouses, id, &[warehouse]).await?;
            }
        }
        // Answers to trackings and new templates bring no facts; the next read does.
        (Operation::SubmitTracking | Operation::CreateListingTemplate, _) => {}
        _ => apply_read_answer(write, (id, at), body, request).await?,
    }
    Ok(())
}

/// Applies answers to reads.
async fn apply_read_answer(
    write: &mut WriteTransaction,
    (id, at): (ExchangeId, Timestamp),
    body: &[u8],
    request: StoredRequest<'_>,
) -> Result<(), ApplyError> {
    match request.operation {
        Operation::GetProductBalances => {
            let page = wire::decode_balances(body)?;
            projection::project_balances(write, id, at, &request.skus()?, &page).await?;
        }
        Operation::GetProducts => {
            projection::project_found_products(write, id, at, wire::decode_products(body)?).await?;
        }
        Operation::GetOrderLineItems => {
            let order = request.order()?;
            let lines = wire::decode_order_line_items(body, order)?;
            projection::project_order_lines(write, id, at, order, &lines).await?;
        }
        Operation::WarehouseAllocation => {
            let (order, line) = request.order_line()?;
            let found = wire::decode_allocations(body, line)?;
            projection::project_allocations(write, id, at, (order, line), Some(&found)).await?;
        }
        Operation::ShipmentLineItems => {
            let shipment = request.path_id(0)?;
            let items = wire::decode_shipment_line_items(body, shipment)?;
            projection::project_shipment_items(write, id, at, shipment, &items).await?;
        }
        Operation::KitComponents => {
            let components = wire::decode_kit_components(body)?;
            projection::project_kit_components(write, id, at, request.path_id(0)?, &components).await?;
        }
        Operation::TopSelling => {
            let month = request.month()?;
            let sellers = wire::decode_top_selling(body, month)?;
            projection::project_top_selling(write, id, at, month, &sellers).await?;
        }
        Operation::BusinessHealth => {
            projection::project_business_health(write, id, at, &wire::decode_business_health(body)?).await?;
        }
        Operation::WorkQueue => {
            write.mirror_work_queue(id, at, &wire::decode_work_queue(body)?).await?;
        }
        Operation::ListWarehouses => {
            project_list(write, id, PlatformList::Warehouses, &wire::decode_warehouses(body)?).await?;
        }
        Operation::ListSuppliers => {
            project_list(write, id, PlatformList::Suppliers, &wire::decode_suppliers(body)?).await?;
        }
        Operation::ListStorefronts => {
            project_list(write, id, PlatformList::Storefronts, &wire::decode_storefronts(body)?).await?;
        }
        Operation::ListListingTemplates => {
            let storefront = request.path_id(0)?;
            let page = wire::decode_listing_templates(body, storefront)?;
            project_list(write, id, PlatformList::Templates(storefront), &page).await?;
        }
        // The writes, whose answers `apply_answer` projects.
        _ => {}
    }
    Ok(())
}
