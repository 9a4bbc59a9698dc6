//! Projection of the journal into the mirror, with the functions of the live path.
//!
//! It reads no configuration, clock or change (docs/rules.md 37). Times come from the exchange, the subject
//! of a request from the request, and decisions of the live path about facts from events. An accepted answer
//! that the live path did not apply is marked in the journal (`exchange.set_aside`); such an answer is left
//! out here.

use crate::client::wire::{self, Asked, Malformed};
use crate::journal::Outcome;
use crate::model::{Position, Timestamp};
use crate::projection::{self, ProjectionError};
use crate::store::{
    Asking, CELL_ENDED, CELL_LANDED, Decided, Ending, Entry, KIT_DENIED, LIST_COMPLETE, LIST_MISSING,
    PAST_FORGOTTEN, SKU_LEARNT, StoreError, Write,
};

/// Version of the projection with its records and decoders (docs/rules.md 40). It must grow with each change
/// after which the same journal leads to other facts. The daemon then starts again behind a snapshot
/// (`upgrade.rs`).
pub const FOLD: i64 = 5;

/// Applies an entry.
pub(super) async fn entry(write: &mut Write, entry: &Entry) -> Result<(), ProjectionError> {
    write.position_set(entry.position()).await?;
    match entry {
        Entry::Begun(asking) => {
            let asked = asked(asking)?;
            projection::claimed(write, asking.id, &asked).await?;
        }
        Entry::Ended(asking, ending) => {
            let asked = asked(asking)?;
            match ended(write, asking, ending, &asked).await {
                Err(Folding::Unreadable(why)) => return Err(damaged(asking, &why)),
                Err(Folding::Store(error)) => return Err(error.into()),
                Ok(()) => {}
            }
        }
        Entry::Decided(event) => decided(write, event).await?,
        Entry::Again(asking, ending, _) => again(write, asking, ending).await?,
    }
    Ok(())
}

/// Applies an exchange again whose parked records this version may understand.
pub(super) async fn again(
    write: &mut Write,
    asking: &Asking,
    ending: &Ending,
) -> Result<(), ProjectionError> {
    let asked = asked(asking)?;
    let parked = write.parked_take(asking.id).await?;
    match ended(write, asking, ending, &asked).await {
        Ok(()) => Ok(()),
        Err(Folding::Store(error)) => Err(error.into()),
        // Nothing of the answer is applied, and its records stay parked.
        Err(Folding::Unreadable(_)) => {
            for row in parked {
                let record = usize::try_from(row.record).unwrap_or(usize::MAX);
                write.exchange_park(asking.id, record, &row.why, &row.raw).await?;
            }
            Ok(())
        }
    }
}

fn asked(asking: &Asking) -> Result<Asked, ProjectionError> {
    Asked::read(asking.operation, &asking.target, &asking.body).map_err(|why| damaged(asking, &why))
}

fn damaged(asking: &Asking, why: &Malformed) -> ProjectionError {
    ProjectionError::Damaged(format!(
        "cannot fold exchange {} ({}) in again: {why}; its body is missing or the database is damaged: \
         see tallyd journal show {}",
        asking.id, asking.operation, asking.id
    ))
}

/// Failure to apply an answer.
enum Folding {
    Unreadable(Malformed),
    Store(StoreError),
}

impl From<Malformed> for Folding {
    fn from(why: Malformed) -> Self {
        Self::Unreadable(why)
    }
}

impl From<StoreError> for Folding {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn ended(write: &mut Write, asking: &Asking, ending: &Ending, asked: &Asked) -> Result<(), Folding> {
    let accepted = ending.verdict == Outcome::Accepted.as_str();
    match asked {
        Asked::Allocation(order, line) if ending.status == Some(404) => {
            projection::allocations(write, asking.id, asking.sent_at, (*order, *line), None).await?;
        }
        Asked::Quantities(_) | Asked::Product(..) if !accepted => not_done(write, asking, ending).await?,
        _ if !accepted => {}
        Asked::Quantities(_) | Asked::Product(..) => written(write, asking, ending, asked).await?,
        Asked::Shipments(_) | Asked::NewProduct | Asked::NewWarehouse => {
            made(write, asking, ending, asked).await?;
        }
        _ => read(write, asking, ending, asked).await?,
    }
    Ok(())
}

/// Releases the stock levels of a write that proved to have no effect. A write of unknown outcome keeps its
/// claim.
async fn not_done(write: &mut Write, asking: &Asking, ending: &Ending) -> Result<(), StoreError> {
    let proved = [Outcome::Rejected, Outcome::Throttled, Outcome::Refused, Outcome::NotSent];
    if proved.iter().any(|outcome| outcome.as_str() == ending.verdict) {
        write.cell_conclude(asking.id, ending.position, asking.sent_at, &[]).await?;
    }
    Ok(())
}

/// Applies answers to writes of stock levels.
async fn written(
    write: &mut Write,
    asking: &Asking,
    ending: &Ending,
    asked: &Asked,
) -> Result<(), StoreError> {
    let when: (Position, Timestamp) = (ending.position, asking.sent_at);
    let open = write.cell_writes_open(asking.id).await?;
    match asked {
        Asked::Quantities(entries) => {
            let skus: Vec<_> = entries.iter().map(|entry| entry.sku.clone()).collect();
            let told = projection::Told::read(&ending.body, &skus);
            let cells = projection::in_order(write, entries, &open).await?;
            projection::quantities_answered(write, asking.id, when, &cells, &told).await
        }
        _ => match wire::decode_product_answer(&ending.body) {
            Ok(told) => projection::product_updated(write, asking.id, when, &open, &told).await,
            Err(_) => Ok(()),
        },
    }
}

/// Applies answers to creates. An unreadable one left its change in doubt and brings no fact.
async fn made(write: &mut Write, asking: &Asking, ending: &Ending, asked: &Asked) -> Result<(), StoreError> {
    let (id, at, body) = (asking.id, asking.sent_at, &ending.body);
    match asked {
        Asked::Shipments(orders) => {
            let records = wire::decode_created_shipments(body).map(|decoded| decoded.records);
            projection::shipments_made(write, id, at, orders, &records.unwrap_or_default()).await
        }
        Asked::NewProduct => {
            match wire::decode_product_answer(body).ok().as_ref().and_then(|told| told.done()) {
                Some(product) => projection::product_made(write, id, at, product).await,
                None => Ok(()),
            }
        }
        _ => match wire::decode_created_warehouse(body).ok().as_ref().and_then(|told| told.done()) {
            Some(warehouse) => projection::warehouse_made(write, id, warehouse).await,
            None => Ok(()),
        },
    }
}

/// Applies answers to reads.
async fn read(write: &mut Write, asking: &Asking, ending: &Ending, asked: &Asked) -> Result<(), Folding> {
    let (id, at, body) = (asking.id, asking.sent_at, &ending.body);
    match asked {
        Asked::Balances(skus) => {
            let page = projection::facts(wire::decode_balances(body)?);
            projection::balances(write, id, (at, Some(asking.sent_moment)), skus, &page).await?;
        }
        Asked::Products => {
            projection::products_found(write, id, at, wire::decode_products(body)?).await?;
        }
        Asked::OrderLines(order) => {
            let lines = wire::decode_order_line_items(body)?;
            projection::order_lines(write, id, at, *order, &lines).await?;
        }
        Asked::Allocation(order, line) => {
            let found = wire::decode_allocations(body)?;
            projection::allocations(write, id, at, (*order, *line), Some(&found)).await?;
        }
        Asked::ShipmentItems(shipment) => {
            let items = wire::decode_shipment_line_items(body)?;
            projection::shipment_items(write, id, at, *shipment, &items).await?;
        }
        Asked::KitComponents(kit) => {
            projection::kit_components(write, id, at, *kit, &wire::decode_kit_components(body)?).await?;
        }
        Asked::TopSelling(month) => {
            projection::top_selling(write, id, at, *month, &wire::decode_top_selling(body)?).await?;
        }
        Asked::BusinessHealth => {
            projection::business_health(write, id, at, &wire::decode_business_health(body)?).await?;
        }
        Asked::WorkQueue => {
            projection::work_queue(write, id, at, &wire::decode_work_queue(body)?).await?;
        }
        _ => list(write, asking, ending, asked).await?,
    }
    Ok(())
}

/// Applies pages of lists. Answers to trackings and new templates bring no facts; the next read does.
async fn list(write: &mut Write, asking: &Asking, ending: &Ending, asked: &Asked) -> Result<(), Folding> {
    let (id, body) = (asking.id, &ending.body);
    match asked {
        Asked::Warehouses => {
            projection::warehouses(write, id, &wire::decode_warehouses(body)?).await?;
        }
        Asked::Suppliers => {
            projection::suppliers(write, id, &wire::decode_suppliers(body)?).await?;
        }
        Asked::Storefronts => {
            projection::storefronts(write, id, &wire::decode_storefronts(body)?).await?;
        }
        Asked::Templates(storefront) => {
            let page = wire::decode_listing_templates(body)?;
            projection::listing_templates(write, id, *storefront, &page).await?;
        }
        _ => {}
    }
    Ok(())
}

async fn decided(write: &mut Write, event: &Decided) -> Result<(), StoreError> {
    let detail = event.detail.as_deref().unwrap_or("null");
    match event.kind.as_str() {
        LIST_MISSING | LIST_COMPLETE => {
            write.list_refold(&event.kind, &event.subject, detail, Timestamp(event.at_ms)).await
        }
        CELL_LANDED | CELL_ENDED => write.cell_refold(&event.kind, detail, Position(event.position)).await,
        PAST_FORGOTTEN => write.past_refold(detail).await,
        KIT_DENIED => write.kit_refold(&event.subject, detail, Timestamp(event.at_ms)).await,
        SKU_LEARNT => write.learnt_sku_refold(&event.subject, detail).await,
        // All other events change no facts.
        _ => Ok(()),
    }
}
