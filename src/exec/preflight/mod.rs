//! Reads of the platform for preflights and for the checks of changes in doubt.
//!
//! Each read is recorded like any other. Its result has the time of its request, which is the age of the
//! facts.

mod creates;

pub(crate) use creates::{CreateBody, product_key};

use super::call::{AnsweredExchange, PREFLIGHT_ATTEMPTS};
use super::pager::{ProjectPage, list_name, project_to};
use super::{JobContext, JobError};
use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, InvalidRequest, MalformedBody, PageParams, ProductKey};
use crate::model::{
    ExchangeId, Lane, Moment, OrderId, OrderLine, RunId, ShipmentId, Sku, StorefrontId, Timestamp,
};
use crate::projection;
use crate::reconcile::product_update::{self, ShownFields};
use crate::reconcile::tracking::ItemFact;
use crate::store::PlatformList;
use std::collections::BTreeSet;

/// Limit of pages of a list. It stops a platform that pages without an end.
const PAGES_MAX: u32 = 100;

#[derive(Clone, Debug)]
pub(crate) struct TimedRead<T> {
    /// Exchange of the read; of several pages the first.
    pub(crate) exchange: ExchangeId,
    /// Time at which the first request was sent.
    pub(crate) sent_at: Timestamp,
    /// The time since boot of that request.
    pub(crate) sent_moment: Moment,
    pub(crate) records: T,
}

impl<T> TimedRead<T> {
    pub(crate) fn from_answer(answer: &AnsweredExchange, records: T) -> Self {
        Self { exchange: answer.id, sent_at: answer.sent_at, sent_moment: answer.sent_moment, records }
    }

    /// Returns stored records, without an exchange or a time.
    pub(crate) fn of_stored(records: T) -> Self {
        Self { exchange: ExchangeId(0), sent_at: Timestamp(0), sent_moment: Moment(0), records }
    }

    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> TimedRead<U> {
        let Self { exchange, sent_at, sent_moment, records } = self;
        TimedRead { exchange, sent_at, sent_moment, records: convert(records) }
    }

    pub(crate) fn with_records<U>(self, records: U) -> TimedRead<U> {
        self.map(|_| records)
    }
}

/// Origin of a read: run and priority class.
#[derive(Clone, Copy)]
pub(crate) struct ReadOrigin<'a> {
    pub(crate) context: &'a JobContext,
    pub(crate) run: RunId,
    pub(crate) lane: Lane,
}

#[derive(Clone, Debug)]
pub(crate) struct OrderSnapshot {
    pub(crate) lines: Vec<OrderLine>,
    /// True if another line could not be read.
    pub(crate) has_unreadable: bool,
    /// True if no line is beyond the answer.
    pub(crate) is_complete: bool,
}

/// Reads and records the lines of an order. Fails if lines came and none of them is readable.
pub(crate) async fn read_order(
    origin: ReadOrigin<'_>,
    order: OrderId,
) -> Result<TimedRead<OrderSnapshot>, JobError> {
    let context = origin.context;
    let what = format!("the lines of order {order}");
    let request = wire::get_order_line_items(order);
    let decode = |body: &_| wire::decode_order_line_items(body, order);
    let (answer, decoded) = origin.read_entry_page(&order.to_string(), &what, &request, decode).await?;
    let mut write = context.begin_recording(&answer).await?;
    projection::project_order_lines(&mut write, answer.id, answer.sent_at, order, &decoded).await?;
    write.commit().await?;
    let lines: Vec<OrderLine> = decoded.records.iter().map(|item| item.to_order_line(order)).collect();
    if lines.is_empty() {
        require_readable(&what, &decoded)?;
    }
    let has_unreadable = !decoded.parked.is_empty();
    let is_complete = !decoded.has_more() && !decoded.counts_more_than(lines.len() + decoded.parked.len());
    Ok(TimedRead::from_answer(&answer, OrderSnapshot { lines, has_unreadable, is_complete }))
}

/// Reads and records the items of a shipment, all pages. Fails if an item is unreadable, because a tracking
/// number must not go to a part of a shipment only.
pub(crate) async fn read_shipment(
    origin: ReadOrigin<'_>,
    shipment: ShipmentId,
) -> Result<TimedRead<Vec<wire::ShipmentItem>>, JobError> {
    let request = |paging| wire::shipment_line_items(shipment, paging);
    let project: &ProjectPage<_> = &move |(write, answer, page)| {
        let (id, sent_at) = (answer.id, answer.sent_at);
        Box::pin(projection::project_shipment_items(write, id, sent_at, shipment, page))
    };
    let list = PlatformList::ShipmentItems(shipment);
    let decode = |body: &_| wire::decode_shipment_line_items(body, shipment);
    origin.read_pages(list, request, decode, |item| item.id.0, Some(project)).await
}

pub(crate) fn tracking_items(items: &[wire::ShipmentItem]) -> Vec<ItemFact> {
    let item = |item: &wire::ShipmentItem| ItemFact {
        item_id: item.id,
        line_item_id: Some(item.line_item_id),
        is_shipped: item.is_shipped().unwrap_or(false),
        tracking_number: item.tracking_number.clone(),
    };
    items.iter().map(item).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct LookupProduct {
    pub(crate) id: i64,
    pub(crate) sku: Sku,
    pub(crate) total_units: Option<i64>,
    pub(in crate::exec) is_linked: bool,
    /// All other fields that the lookup shows.
    pub(crate) shown_fields: ShownFields,
}

/// Returns the product's fields other than quantities.
pub(crate) fn shown_fields(product: &wire::ProductBalance<'_>) -> ShownFields {
    let mut fields = vec![
        (product_update::SKU_FIELD.to_owned(), Some(product.sku.to_string())),
        (product_update::UPC_FIELD.to_owned(), product.upc.as_deref().map(|upc| upc.trim().to_owned())),
    ];
    for link in &product.warehouses {
        let is_active = link.is_active.map(|is_active| is_active.to_string());
        fields.push((product_update::link_active_field(link.warehouse_id), is_active));
        let sku = link.warehouse_sku.as_deref().map(|sku| sku.trim().to_owned());
        fields.push((product_update::link_sku_field(link.warehouse_id), sku));
    }
    let answer =
        |(name, value): (String, Option<String>)| Some((name, value.filter(|value| !value.is_empty())?));
    fields.into_iter().filter_map(answer).collect()
}

pub(super) fn products_request(skus: &[Sku]) -> Result<PlatformRequest, InvalidRequest> {
    let ids: Vec<String> = skus.iter().map(ToString::to_string).collect();
    wire::get_products(ProductKey::Sku, &ids)
}

pub(super) fn templates_request(storefront: StorefrontId, name: &str, page: PageParams) -> PlatformRequest {
    wire::list_listing_templates(storefront, Some(name.trim()), page)
}

pub(crate) async fn read_products(
    origin: ReadOrigin<'_>,
    skus: &[Sku],
) -> Result<TimedRead<Vec<LookupProduct>>, JobError> {
    let ReadOrigin { context, run, lane } = origin;
    let request = products_request(skus)?;
    let answer = context.read_within(PREFLIGHT_ATTEMPTS, run, lane, "the products by SKU", &request).await?;
    let decoded = context.decode_or_ignore(&answer, wire::decode_products(&answer.reply.body)).await?;
    let is_whole = require_readable("the products by SKU", &decoded);
    let found = decoded.records.iter().map(|product| {
        let sku = product.sku.clone();
        Ok(LookupProduct {
            id: product.id.ok_or_else(|| unidentified(&format!("the product `{sku}`"), "id"))?.0,
            sku,
            total_units: total_units(product),
            is_linked: !product.warehouses.is_empty(),
            shown_fields: shown_fields(product),
        })
    });
    let found: Result<Vec<LookupProduct>, JobError> = found.collect();
    let mut write = context.begin_recording(&answer).await?;
    projection::project_found_products(&mut write, answer.id, answer.sent_at, decoded).await?;
    write.commit().await?;
    is_whole?;
    Ok(TimedRead::from_answer(&answer, found?))
}

fn total_units(product: &wire::ProductBalance<'_>) -> Option<i64> {
    let sum = product.warehouses.iter().map(|link| link.quantity_on_hand).sum();
    (!product.warehouses.is_empty()).then_some(sum).or(product.quantity_on_hand)
}

/// Reads and records the list of warehouses, all pages.
pub(crate) async fn read_warehouses(
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<wire::Warehouse>>, JobError> {
    let project: &ProjectPage<_> = &project_to(PlatformList::Warehouses);
    let (list, decode) = (PlatformList::Warehouses, wire::decode_warehouses);
    origin.read_pages(list, wire::list_warehouses, decode, |row| row.id.0, Some(project)).await
}

/// Reads the listing templates whose name contains `name`, all pages.
pub(super) async fn read_templates(
    origin: ReadOrigin<'_>,
    storefront: StorefrontId,
    name: &str,
) -> Result<TimedRead<Vec<wire::ListingTemplate>>, JobError> {
    let request = |paging| templates_request(storefront, name, paging);
    let list = PlatformList::Templates(storefront);
    let decode = |body: &_| wire::decode_listing_templates(body, storefront);
    origin.read_pages(list, request, decode, |row| row.id, None).await
}

impl ReadOrigin<'_> {
    /// Reads a list to its last page. `project` records a page; without it the answers are ignored.
    ///
    /// Fails if a part is unreadable, or if the platform counts more records than came, because an absent
    /// record may be among the rest.
    async fn read_pages<T>(
        self,
        list: PlatformList,
        request: impl Fn(PageParams) -> PlatformRequest,
        decode: impl Fn(&[u8]) -> Result<DecodedAnswer<T>, MalformedBody>,
        id: fn(&T) -> i64,
        project: Option<&ProjectPage<T>>,
    ) -> Result<TimedRead<Vec<T>>, JobError> {
        let (context, name) = (self.context, list_name(list));
        let shipment = match list {
            PlatformList::ShipmentItems(shipment) => Some(shipment.to_string()),
            _ => None,
        };
        let (mut paging, mut read, mut total) = (PageParams::FIRST, None::<TimedRead<Vec<T>>>, None);
        loop {
            let asked = request(paging);
            let (answer, page) = match &shipment {
                Some(shipment) => self.read_entry_page(shipment, &name, &asked, &decode).await?,
                None => self.read_page(&name, &asked, &decode).await?,
            };
            let earlier: BTreeSet<i64> = read.iter().flat_map(|read| &read.records).map(id).collect();
            let brought_nothing = page.records.iter().all(|record| earlier.contains(&id(record)));
            let goes_on = page.may_have_more() && !brought_nothing;
            if let Some(project) = project {
                let mut write = context.begin_recording(&answer).await?;
                project((&mut write, &answer, &page)).await?;
                let ids: Vec<i64> = earlier.into_iter().chain(page.records.iter().map(id)).collect();
                let is_whole = !goes_on && page.parked.is_empty();
                if shipment.is_some() && is_whole && !ids.is_empty() {
                    write.list_complete(list, &ids, answer.sent_at).await?;
                }
                write.commit().await?;
            } else {
                context.exchange_end_ignored(&answer).await?;
            }
            require_readable(&name, &page)?;
            let mut seen = read.unwrap_or_else(|| TimedRead::from_answer(&answer, Vec::new()));
            let came = seen.records.len() + page.records.len();
            let is_cut = goes_on && paging.number() >= PAGES_MAX;
            let has_moved = page.note_total(&mut total);
            if is_cut || has_moved || (!goes_on && page.counts_more_than(came)) {
                return Err(JobError::Implausible(format!(
                    "the platform returned {came} of {name}, and has more or changed the list meanwhile, so the answer \
                     decides nothing"
                )));
            }
            seen.records.extend(page.records);
            if !goes_on {
                return Ok(seen);
            }
            (read, paging) = (Some(seen), paging.next_page());
        }
    }

    /// Reads and decodes a page. The caller commits the answer.
    async fn read_page<T>(
        &self,
        what: &str,
        request: &PlatformRequest,
        decode: impl Fn(&[u8]) -> Result<DecodedAnswer<T>, MalformedBody>,
    ) -> Result<(AnsweredExchange, DecodedAnswer<T>), JobError> {
        let Self { context, run, lane } = *self;
        context.read_decoded(PREFLIGHT_ATTEMPTS, run, lane, what, request, decode).await
    }

    /// Reads a page about a single order or shipment. Counts its failures, which may quarantine it.
    async fn read_entry_page<T>(
        &self,
        entry: &str,
        what: &str,
        request: &PlatformRequest,
        decode: impl Fn(&[u8]) -> Result<DecodedAnswer<T>, MalformedBody>,
    ) -> Result<(AnsweredExchange, DecodedAnswer<T>), JobError> {
        let page = self.read_page(what, request, decode).await;
        match &page {
            Ok(_) => drop(self.context.record_success(request.operation, &[entry]).await?),
            Err(error) => {
                if let Some(why) = error.entry_failure() {
                    self.context.record_failure(request.operation, &[entry], &why).await?;
                }
            }
        }
        page
    }
}

/// Returns the error of a record without a readable id or name. It may be the one that a call created.
pub(super) fn unidentified(record: &str, lacking: &str) -> JobError {
    JobError::Implausible(format!(
        "{record} came without a readable {lacking}, so the answer decides nothing"
    ))
}

/// Fails if a part of the answer is unreadable. An absent record may be that part.
fn require_readable<T>(what: &str, decoded: &DecodedAnswer<T>) -> Result<(), JobError> {
    match decoded.parked.first() {
        Some(parked) => Err(JobError::Implausible(format!(
            "a part of {what} is unreadable ({}), so the answer decides nothing",
            parked.why
        ))),
        None => Ok(()),
    }
}
