//! Reads of the platform for preflights and for the checks of changes in doubt.
//!
//! Each read is recorded like any other. Its result has the time of its request, which is the age of the
//! facts.

mod creates;
mod product;
mod template;
mod warehouse;

pub(crate) use creates::{Create, sku_subject};

use super::call::{Answer, LOOK_ATTEMPTS};
use super::{Context, JobError};
use crate::client::Request;
use crate::client::wire::{self, Decoded, Invalid, Malformed, Paging, ProductKey};
use crate::model::{
    ExchangeId, Lane, Moment, OrderId, OrderLine, RunId, ShipmentId, Sku, StorefrontId, Timestamp,
};
use crate::projection;
use crate::reconcile::shipment::OrderFact;
use crate::reconcile::tracking::Item;
use crate::reconcile::update::{self, Shown};
use crate::store::{Durability, ListOf};

/// Limit of pages of a list. It stops a platform that pages without an end.
const PAGES_MAX: u32 = 100;

/// Result of a read.
#[derive(Clone, Debug)]
pub(crate) struct Seen<T> {
    /// Exchange of the read; of several pages the first.
    pub(crate) exchange: ExchangeId,
    /// Time at which the first request was sent.
    pub(crate) sent_at: Timestamp,
    /// The time since boot of that request.
    pub(crate) sent_moment: Moment,
    /// Records of the read.
    pub(crate) what: T,
}

impl<T> Seen<T> {
    fn of(answer: &Answer, what: T) -> Self {
        Self { exchange: answer.id, sent_at: answer.sent_at, sent_moment: answer.sent_moment, what }
    }

    /// Converts the records.
    pub(crate) fn map<U>(self, told: impl FnOnce(T) -> U) -> Seen<U> {
        let Self { exchange, sent_at, sent_moment, what } = self;
        Seen { exchange, sent_at, sent_moment, what: told(what) }
    }

    /// Replaces the records.
    pub(crate) fn with<U>(self, what: U) -> Seen<U> {
        Seen { exchange: self.exchange, sent_at: self.sent_at, sent_moment: self.sent_moment, what }
    }
}

/// Origin of a read: run and priority class.
#[derive(Clone, Copy)]
pub(crate) struct Looker<'a> {
    pub(crate) context: &'a Context,
    pub(crate) run: RunId,
    pub(crate) lane: Lane,
}

/// Lines of an order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) lines: Vec<OrderLine>,
    is_complete: bool,
}

impl Order {
    /// Returns the order as the fact for a plan.
    pub(crate) fn fact(&self) -> OrderFact<'_> {
        match (self.is_complete, self.lines.is_empty()) {
            (false, _) => OrderFact::Incomplete,
            (true, true) => OrderFact::Unknown,
            (true, false) => OrderFact::Known(&self.lines),
        }
    }
}

/// Reads and records the lines of an order.
pub(crate) async fn order(looker: Looker<'_>, order: OrderId) -> Result<Seen<Order>, JobError> {
    let context = looker.context;
    let what = format!("the lines of order {order}");
    let request = wire::get_order_line_items(order);
    let (answer, decoded) =
        looker.page_of(&order.to_string(), &what, &request, wire::decode_order_line_items).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    projection::order_lines(&mut write, answer.id, answer.sent_at, order, &decoded).await?;
    write.commit().await?;
    whole(&what, &decoded)?;
    let is_complete = decoded.is_complete();
    let lines = decoded.records.iter().map(|item| item.line(order)).collect();
    Ok(Seen::of(&answer, Order { lines, is_complete }))
}

/// Reads and records the items of a shipment, all pages. Fails if an item is unreadable, because a tracking
/// number must not go to a part of a shipment only.
pub(crate) async fn shipment(
    looker: Looker<'_>,
    shipment: ShipmentId,
) -> Result<Seen<Vec<wire::ShipmentItem>>, JobError> {
    let mut pages = Pages::of(format!("the items of shipment {shipment}"));
    loop {
        let request = wire::shipment_line_items(shipment, pages.paging);
        let id = shipment.to_string();
        let decode = wire::decode_shipment_line_items;
        let (answer, page) = looker.page_of(&id, &pages.what, &request, decode).await?;
        let mut write = looker.context.store.begin(Durability::Normal).await?;
        looker.context.exchange_end(&mut write, &answer).await?;
        projection::shipment_items(&mut write, answer.id, answer.sent_at, shipment, &page).await?;
        if let Some(ids) = pages.whole_with(&page, |item| item.id.0) {
            write.list_complete(ListOf::ShipmentItems(shipment), &ids, answer.sent_at).await?;
        }
        write.commit().await?;
        if let Some(seen) = pages.take(&answer, page)? {
            return Ok(seen);
        }
    }
}

/// Returns the items as the facts for a tracking plan.
pub(crate) fn tracked(items: &[wire::ShipmentItem]) -> Vec<Item> {
    let item = |item: &wire::ShipmentItem| Item {
        item_id: item.id,
        line_item_id: Some(item.line_item_id),
        is_shipped: item.is_shipped().unwrap_or(false),
        tracking_number: item.tracking_number.clone(),
    };
    items.iter().map(item).collect()
}

/// Product of a lookup by SKU.
#[derive(Clone, Debug)]
pub(crate) struct FoundProduct {
    pub(crate) id: i64,
    pub(crate) sku: Sku,
    pub(crate) upc: Option<String>,
    /// Units over all warehouses.
    pub(crate) total: Option<i64>,
    /// True if the product is linked to a warehouse.
    pub(in crate::exec) is_linked: bool,
    /// All other fields that the lookup shows.
    pub(crate) shown: Shown,
}

/// Returns the product's fields other than quantities.
pub(crate) fn shown(product: &wire::ProductBalance<'_>) -> Shown {
    let mut fields = vec![
        (update::SKU.to_owned(), Some(product.sku.to_string())),
        (update::UPC.to_owned(), product.upc.as_deref().map(|upc| upc.trim().to_owned())),
    ];
    for link in &product.warehouses {
        let is_active = link.is_active.map(|is_active| is_active.to_string());
        fields.push((update::is_active_in(link.warehouse_id), is_active));
        let sku = link.warehouse_sku.as_deref().map(|sku| sku.trim().to_owned());
        fields.push((update::sku_in(link.warehouse_id), sku));
    }
    let told =
        |(name, value): (String, Option<String>)| Some((name, value.filter(|value| !value.is_empty())?));
    fields.into_iter().filter_map(told).collect()
}

/// Builds the request of [`products`].
pub(super) fn products_request(skus: &[Sku]) -> Result<Request, Invalid> {
    let ids: Vec<String> = skus.iter().map(ToString::to_string).collect();
    wire::get_products(ProductKey::Sku, &ids)
}

/// Builds a request of [`warehouses`].
pub(super) fn warehouses_request(page: Paging) -> Request {
    wire::list_warehouses(page)
}

/// Builds a request of [`templates`].
pub(super) fn templates_request(storefront: StorefrontId, name: &str, page: Paging) -> Request {
    wire::list_listing_templates(storefront, Some(name.trim()), page)
}

/// Looks up products by SKU and records them.
pub(crate) async fn products(looker: Looker<'_>, skus: &[Sku]) -> Result<Seen<Vec<FoundProduct>>, JobError> {
    let Looker { context, run, lane } = looker;
    let request = products_request(skus).map_err(|why| JobError::Implausible(why.to_string()))?;
    let answer = context.read_within(LOOK_ATTEMPTS, run, lane, "the products by SKU", &request).await?;
    let decoded = context.decoded(&answer, wire::decode_products(&answer.reply.body)).await?;
    let is_whole = whole("the products by SKU", &decoded);
    let found = decoded.records.iter().map(|product| FoundProduct {
        id: product.id.map_or(0, |id| id.0),
        sku: product.sku.clone(),
        upc: product.upc.as_deref().map(str::to_owned),
        total: total(product),
        is_linked: !product.warehouses.is_empty(),
        shown: shown(product),
    });
    let found = found.collect();
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    projection::products_found(&mut write, answer.id, answer.sent_at, decoded).await?;
    write.commit().await?;
    is_whole?;
    Ok(Seen::of(&answer, found))
}

/// Returns the units of a product over all warehouses, if the answer shows them.
fn total(product: &wire::ProductBalance<'_>) -> Option<i64> {
    let sum = product.warehouses.iter().map(|link| link.quantity_on_hand).sum();
    (!product.warehouses.is_empty()).then_some(sum).or(product.quantity_on_hand)
}

/// Reads and records the list of warehouses, all pages.
pub(crate) async fn warehouses(looker: Looker<'_>) -> Result<Seen<Vec<wire::Warehouse>>, JobError> {
    let mut pages = Pages::of("the warehouses".into());
    loop {
        let request = warehouses_request(pages.paging);
        let (answer, page) = looker.page(&pages.what, &request, wire::decode_warehouses).await?;
        let mut write = looker.context.store.begin(Durability::Normal).await?;
        looker.context.exchange_end(&mut write, &answer).await?;
        projection::warehouses(&mut write, answer.id, &page).await?;
        write.commit().await?;
        if let Some(seen) = pages.take(&answer, page)? {
            return Ok(seen);
        }
    }
}

/// Reads the listing templates whose name contains `name`, all pages.
pub(super) async fn templates(
    looker: Looker<'_>,
    storefront: StorefrontId,
    name: &str,
) -> Result<Seen<Vec<wire::ListingTemplate>>, JobError> {
    let mut pages = Pages::of(format!("the listing templates of storefront {storefront}"));
    loop {
        let request = templates_request(storefront, name, pages.paging);
        let (answer, page) = looker.page(&pages.what, &request, wire::decode_listing_templates).await?;
        looker.context.end_alone(&answer).await?;
        if let Some(seen) = pages.take(&answer, page)? {
            return Ok(seen);
        }
    }
}

impl Looker<'_> {
    /// Reads and decodes a page. The caller commits the answer.
    async fn page<T>(
        &self,
        what: &str,
        request: &Request,
        decode: fn(&[u8]) -> Result<Decoded<T>, Malformed>,
    ) -> Result<(Answer, Decoded<T>), JobError> {
        let answer = self.context.read_within(LOOK_ATTEMPTS, self.run, self.lane, what, request).await?;
        let decoded = self.context.decoded(&answer, decode(&answer.reply.body)).await?;
        Ok((answer, decoded))
    }

    /// Reads a page about a single order or shipment. Counts its failures, which may quarantine it.
    async fn page_of<T>(
        &self,
        entry: &str,
        what: &str,
        request: &Request,
        decode: fn(&[u8]) -> Result<Decoded<T>, Malformed>,
    ) -> Result<(Answer, Decoded<T>), JobError> {
        let page = self.page(what, request, decode).await;
        match &page {
            Ok(_) => {
                self.context.worked(request.operation, &[entry]).await?;
            }
            Err(
                JobError::GivenUp { why, .. } | JobError::Rejected { why, .. } | JobError::Implausible(why),
            ) => {
                self.context.failed(request.operation, &[entry], why).await?;
            }
            Err(JobError::Stopped | JobError::Refused(_) | JobError::Store(_)) => {}
        }
        page
    }
}

/// List that is read page by page.
struct Pages<T> {
    what: String,
    paging: Paging,
    first: Option<(ExchangeId, Timestamp, Moment)>,
    listed: Vec<T>,
}

impl<T> Pages<T> {
    fn of(what: String) -> Self {
        Self { what, paging: Paging::FIRST, first: None, listed: Vec::new() }
    }

    fn ends_with(&self, page: &Decoded<T>) -> bool {
        let is_empty = page.records.is_empty() && page.parked.is_empty();
        !page.has_more() || is_empty || self.paging.number() >= PAGES_MAX
    }

    /// Returns the ids of the whole list. `None` unless this page is the last, each record is valid and the
    /// list is not empty.
    fn whole_with(&self, page: &Decoded<T>, id: impl Fn(&T) -> i64) -> Option<Vec<i64>> {
        let ids: Vec<i64> = self.listed.iter().chain(&page.records).map(id).collect();
        let is_whole = self.ends_with(page) && !page.has_more() && page.parked.is_empty();
        (is_whole && !ids.is_empty()).then_some(ids)
    }

    /// Adds a page that is recorded. Returns the whole list with the last page. Fails if the platform counts
    /// more records than came, because an absent record may be among the rest.
    fn take(&mut self, answer: &Answer, page: Decoded<T>) -> Result<Option<Seen<Vec<T>>>, JobError> {
        whole(&self.what, &page)?;
        let is_last = self.ends_with(&page);
        let came = self.listed.len() + page.records.len();
        if is_last && page.counts_more_than(came) {
            let what = &self.what;
            return Err(JobError::Implausible(format!(
                "the platform showed {came} of {what} and counts more, so nothing is decided on it"
            )));
        }
        let began = (answer.id, answer.sent_at, answer.sent_moment);
        let (exchange, sent_at, sent_moment) = *self.first.get_or_insert(began);
        self.listed.extend(page.records);
        self.paging = self.paging.next();
        Ok(is_last.then(|| Seen { exchange, sent_at, sent_moment, what: std::mem::take(&mut self.listed) }))
    }
}

/// Fails if a part of the answer is unreadable. An absent record may be that part.
fn whole<T>(what: &str, decoded: &Decoded<T>) -> Result<(), JobError> {
    match decoded.parked.first() {
        Some(parked) => Err(JobError::Implausible(format!(
            "a part of {what} makes no sense ({}), so nothing is decided on it",
            parked.why
        ))),
        None => Ok(()),
    }
}
