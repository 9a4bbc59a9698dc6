//! Looks at the service before a send and after one whose answer is lost. Each is recorded as a fact like any read,
//! and tells when its request was sent: what it shows is as old as that.

use crate::client::Request;
use crate::client::wire::{self, Decoded, Invalid, Malformed, Paging, ProductKey};
use crate::job::call::{Answer, LOOK_ATTEMPTS};
use crate::job::{Context, JobError, record};
use crate::model::{
    ExchangeId, Lane, Moment, OrderId, OrderLine, RunId, ShipmentId, Sku, StorefrontId, Timestamp,
};
use crate::reconcile::shipment::OrderFact;
use crate::reconcile::tracking::Item;
use crate::reconcile::update::{self, Shown};
use crate::store::{Durability, ListOf};

/// No shipment or list has so many pages; a service that pages for ever is stopped here.
const PAGES_MAX: u32 = 100;

/// What a look showed.
#[derive(Clone, Debug)]
pub(in crate::job) struct Seen<T> {
    /// Its exchange; of several pages the first one's.
    pub(in crate::job) exchange: ExchangeId,
    /// When that was sent.
    pub(in crate::job) sent_at: Timestamp,
    /// The same since boot.
    pub(in crate::job) sent_moment: Moment,
    /// What it showed.
    pub(in crate::job) what: T,
}

impl<T> Seen<T> {
    fn of(answer: &Answer, what: T) -> Self {
        Self { exchange: answer.id, sent_at: answer.sent_at, sent_moment: answer.sent_moment, what }
    }

    /// The same look with what is made of what it showed.
    pub(in crate::job) fn map<U>(self, told: impl FnOnce(T) -> U) -> Seen<U> {
        let Self { exchange, sent_at, sent_moment, what } = self;
        Seen { exchange, sent_at, sent_moment, what: told(what) }
    }

    /// The same look, told in another way.
    pub(in crate::job) fn with<U>(self, what: U) -> Seen<U> {
        Seen { exchange: self.exchange, sent_at: self.sent_at, sent_moment: self.sent_moment, what }
    }
}

/// Who looks, and how urgently.
#[derive(Clone, Copy)]
pub(in crate::job) struct Looker<'a> {
    pub(in crate::job) context: &'a Context,
    pub(in crate::job) run: RunId,
    pub(in crate::job) lane: Lane,
}

/// An order's lines.
#[derive(Clone, Debug)]
pub(in crate::job) struct Order {
    pub(in crate::job) lines: Vec<OrderLine>,
    is_complete: bool,
}

impl Order {
    /// The order as a plan takes it.
    pub(in crate::job) fn fact(&self) -> OrderFact<'_> {
        match (self.is_complete, self.lines.is_empty()) {
            (false, _) => OrderFact::Incomplete,
            (true, true) => OrderFact::Unknown,
            (true, false) => OrderFact::Known(&self.lines),
        }
    }
}

/// *Get line items of a sales order*.
pub(in crate::job) async fn order(looker: Looker<'_>, order: OrderId) -> Result<Seen<Order>, JobError> {
    let context = looker.context;
    let what = format!("the lines of order {order}");
    let request = wire::get_order_line_items(order);
    let (answer, decoded) =
        looker.page_of(&order.to_string(), &what, &request, wire::decode_order_line_items).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    record::order_lines(&mut write, answer.id, answer.sent_at, order, &decoded).await?;
    write.commit().await?;
    whole(&what, &decoded)?;
    let is_complete = decoded.is_complete();
    let lines = decoded.records.iter().map(|item| item.line(order)).collect();
    Ok(Seen::of(&answer, Order { lines, is_complete }))
}

/// *Get shipment line items*, all pages. An item that cannot be read makes the look fail: a tracking number must not
/// go to a part of a shipment because the rest was unreadable.
pub(in crate::job) async fn shipment(
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
        record::shipment_items(&mut write, answer.id, answer.sent_at, shipment, &page).await?;
        if let Some(ids) = pages.whole_with(&page, |item| item.id.0) {
            write.list_complete(ListOf::ShipmentItems(shipment), &ids, answer.sent_at).await?;
        }
        write.commit().await?;
        if let Some(seen) = pages.take(&answer, page)? {
            return Ok(seen);
        }
    }
}

/// The items as a tracking plan takes them.
pub(in crate::job) fn tracked(items: &[wire::ShipmentItem]) -> Vec<Item> {
    let item = |item: &wire::ShipmentItem| Item {
        item_id: item.id,
        line_item_id: Some(item.line_item_id),
        is_shipped: item.is_shipped().unwrap_or(false),
        tracking_number: item.tracking_number.clone(),
    };
    items.iter().map(item).collect()
}

/// A product as *Get products by SKU or UPC* shows it.
#[derive(Clone, Debug)]
pub(in crate::job) struct FoundProduct {
    pub(in crate::job) id: i64,
    pub(in crate::job) sku: Sku,
    pub(in crate::job) upc: Option<String>,
    /// Its units over all warehouses.
    pub(in crate::job) total: Option<i64>,
    /// True if it is linked to a warehouse.
    pub(in crate::job) is_linked: bool,
    /// All that the lookup shows of it beside quantities.
    pub(in crate::job) shown: Shown,
}

/// Product facts that a look shows beside quantities.
pub(in crate::job) fn shown(product: &wire::ProductBalance<'_>) -> Shown {
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

/// The request of [`products`].
pub(super) fn products_request(skus: &[Sku]) -> Result<Request, Invalid> {
    let ids: Vec<String> = skus.iter().map(ToString::to_string).collect();
    wire::get_products(ProductKey::Sku, &ids)
}

/// A request of [`warehouses`].
pub(super) fn warehouses_request(page: Paging) -> Request {
    wire::list_warehouses(page)
}

/// A request of [`templates`].
pub(super) fn templates_request(storefront: StorefrontId, name: &str, page: Paging) -> Request {
    wire::list_listing_templates(storefront, Some(name.trim()), page)
}

/// *Get products by SKU or UPC*, by SKU.
pub(in crate::job) async fn products(
    looker: Looker<'_>,
    skus: &[Sku],
) -> Result<Seen<Vec<FoundProduct>>, JobError> {
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
    record::products_found(&mut write, answer.id, answer.sent_at, decoded).await?;
    write.commit().await?;
    is_whole?;
    Ok(Seen::of(&answer, found))
}

/// The units of a product over all warehouses, as far as an answer tells.
fn total(product: &wire::ProductBalance<'_>) -> Option<i64> {
    let sum = product.warehouses.iter().map(|link| link.quantity_on_hand).sum();
    (!product.warehouses.is_empty()).then_some(sum).or(product.quantity_on_hand)
}

/// *List warehouses*, all pages.
pub(in crate::job) async fn warehouses(looker: Looker<'_>) -> Result<Seen<Vec<wire::Warehouse>>, JobError> {
    let mut pages = Pages::of("the warehouses".into());
    loop {
        let request = warehouses_request(pages.paging);
        let (answer, page) = looker.page(&pages.what, &request, wire::decode_warehouses).await?;
        let mut write = looker.context.store.begin(Durability::Normal).await?;
        looker.context.exchange_end(&mut write, &answer).await?;
        record::warehouses(&mut write, answer.id, &page).await?;
        write.commit().await?;
        if let Some(seen) = pages.take(&answer, page)? {
            return Ok(seen);
        }
    }
}

/// *List listing templates*, those whose name contains `name`, all pages.
pub(in crate::job) async fn templates(
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
    /// One page, read and decoded, not yet written down.
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

    /// A page about one order or shipment, which is set aside if calls for it alone fail again and again.
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

/// A list on its way, page by page.
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

    /// The ids of the whole list, where this page is its last and each record makes sense; an empty one says nothing.
    fn whole_with(&self, page: &Decoded<T>, id: impl Fn(&T) -> i64) -> Option<Vec<i64>> {
        let ids: Vec<i64> = self.listed.iter().chain(&page.records).map(id).collect();
        let is_whole = self.ends_with(page) && !page.has_more() && page.parked.is_empty();
        (is_whole && !ids.is_empty()).then_some(ids)
    }

    /// Takes a page that is written down; the whole list is returned with its last one. A list in which the platform counts
    /// more records than came is not whole: what looks absent may be among those.
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

/// Refuses to decide on an answer of which a part could not be read: what looks absent may be that part.
fn whole<T>(what: &str, decoded: &Decoded<T>) -> Result<(), JobError> {
    match decoded.parked.first() {
        Some(parked) => Err(JobError::Implausible(format!(
            "a part of {what} makes no sense ({}), so nothing is decided on it",
            parked.why
        ))),
        None => Ok(()),
    }
}
