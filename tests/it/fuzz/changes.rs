//! Bodies of changes: any JSON of any kind is a typed body or a reason and a sentence.
//!
//! Invariant of an accepted body: the sandbox does not answer its request with 400, because nothing else checks the
//! body before it is sent. Ids of the account replace other ids in the body, because the existence of a warehouse is
//! a question of facts and not of the body.

use super::choices::Choices;
use super::shop::{Shop, block_on, known};
use crate::client::PlatformRequest;
use crate::client::wire;
use crate::model::{OrderLine, Quantity, ShipmentId, ShipmentItemId, WarehouseId};
use crate::outbox::{
    ChangeBody, ChangeKind, CreateBody, CreatedThing, LineRef, ProductUpdate, Reason, ShipmentCreate,
    ShipmentRef, TrackingSubmit, parse_body,
};
use crate::reconcile::{ChangePlan, shipments, tracking};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Names of fields and values, for the changed places.
const WORDS: &[&str] = &[
    "sku",
    "warehouse_id",
    "quantity",
    "seen",
    "counted_at",
    "delta",
    "order_id",
    "lines",
    "line_item_id",
    "shipment_id",
    "shipment_key",
    "carrier_id",
    "tracking_number",
    "tracking_url",
    "shipped_date",
    "estimated_delivery_date",
    "Sku",
    "Name",
    "Id",
    "Type",
    "Kit",
    "Product",
    "Warehouses",
    "WarehouseId",
    "QuantityOnHand",
    "Identifiers",
    "UPC",
    "Images",
    "Url",
    "DisplayOrder",
    "GlobalListingAttributes",
    "Price",
    "Condition",
    "New",
    "SupplierInformation",
    "SupplierId",
    "IsVariation",
    "IsParent",
    "IsActive",
    "Body",
    "StorefrontId",
    "ContactInformation",
    "Address",
    "IsResidential",
    "2026-10-15",
    "2026-10-15T12:00:00+02:00",
    "2026-02-30",
    "true",
    "",
    " ",
    "A-100",
    "\u{0}",
    "ß",
];
/// Inputs that share an account; the records that they create must not slow down later inputs.
const INPUTS_A_SHOP: u32 = 200;

thread_local! {
    static SHOP: RefCell<Option<(Shop, u32)>> = const { RefCell::new(None) };
}

fn kind_of(body: &ChangeBody) -> ChangeKind {
    match body {
        ChangeBody::QuantitySet(_) => ChangeKind::QuantitySet,
        ChangeBody::QuantityAdjust(_) => ChangeKind::QuantityAdjust,
        ChangeBody::ShipmentCreate(_) => ChangeKind::ShipmentCreate,
        ChangeBody::TrackingSubmit(_) => ChangeKind::TrackingSubmit,
        ChangeBody::Create(create) => create.kind(),
        ChangeBody::ProductUpdate(_) => ChangeKind::ProductUpdate,
    }
}

/// Reads one change and sends its request.
pub(crate) fn check(data: &[u8]) {
    let mut choices = Choices::new(data);
    let kind = choices.of(ChangeKind::ALL);
    let body = body(kind, &mut choices);
    match parse_body(kind.as_str(), &body) {
        Ok(body) => {
            assert_eq!(kind_of(&body), kind);
            let Some(request) = request(&body) else { return };
            SHOP.with_borrow_mut(|shop| block_on(sent(shop, &request, &body)));
        }
        Err(refused) => {
            assert_eq!(refused.reason, Reason::BadBody, "{refused:?}");
            assert!(!refused.detail.trim().is_empty(), "refused without a sentence");
            assert_eq!(parse_body(kind.as_str(), &body), Err(refused), "two readings of one body");
        }
    }
}

/// Returns raw bytes, or a valid body with up to three places changed.
fn body(kind: ChangeKind, choices: &mut Choices<'_>) -> String {
    if choices.below(4) == 3 {
        return String::from_utf8_lossy(choices.rest()).into_owned();
    }
    let mut good = good(kind);
    for _ in 0..choices.below(4) {
        choices.change(&mut good, WORDS);
    }
    good.to_string()
}

fn good(kind: ChangeKind) -> Value {
    let shop = known();
    match kind {
        ChangeKind::QuantitySet => {
            json!({"sku": "FUZZ-1", "warehouse_id": shop.warehouses[0], "quantity": 7, "seen": 9,
            "counted_at": "2026-10-15T12:00:00Z"})
        }
        ChangeKind::QuantityAdjust => {
            json!({"sku": "FUZZ-1", "warehouse_id": shop.warehouses[0], "delta": -3})
        }
        ChangeKind::ShipmentCreate => {
            json!({"order_id": shop.order, "lines": [{"line_item_id": shop.line, "quantity": 1}]})
        }
        ChangeKind::TrackingSubmit => {
            json!({"shipment_id": shop.shipment, "carrier_id": 2, "tracking_number": "1Z001",
            "tracking_url": "https://t.example/1", "shipped_date": "2026-10-15",
            "lines": [{"line_item_id": shop.item, "estimated_delivery_date": "2026-10-18T12:00:00"}]})
        }
        ChangeKind::ProductCreate => {
            json!({"Sku": "NEW-1", "Name": "New", "Type": "Product", "QuantityOnHand": 3,
            "Identifiers": {"UPC": "4", "EAN": "", "ISBN": null}, "IsDropshipped": false, "IsFireArm": true,
            "GlobalListingAttributes": {"Price": 9.5, "Condition": "New", "SoldAsName": "S"},
            "Images": [{"MIMEType": "image/png", "Url": "https://i.example/2.png", "DisplayOrder": 1}],
            "Warehouses": [{"WarehouseId": shop.warehouses[0], "QuantityOnHand": 3, "Aisle": "A", "SKU": "X",
                "IsActive": true}],
            "SupplierInformation": {"SupplierId": shop.supplier, "Sku": "S", "Price": 4}})
        }
        ChangeKind::ProductUpdate => shop.product.clone(),
        ChangeKind::WarehouseCreate => {
            json!({"Name": "Annex", "AccountNumber": "7", "Type": "Dropship", "Note": "n",
            "ContactInformation": {"FullName": "A B", "Phone": "1", "Address": {"City": "Bath", "IsResidential": false}}})
        }
        ChangeKind::ListingTemplateCreate => {
            json!({"StorefrontId": shop.storefront, "Name": "Large", "Body": "<b>x</b>"})
        }
    }
}

/// Returns the request of a body, or `None` if the facts cannot allow it.
fn request(body: &ChangeBody) -> Option<PlatformRequest> {
    match body {
        ChangeBody::QuantitySet(set) => {
            Some(update(set.stock_level.sku.clone(), set.stock_level.warehouse_id, set.quantity))
        }
        ChangeBody::QuantityAdjust(adjust) => {
            let target = Quantity(adjust.delta.saturating_add(40));
            (0..=Quantity::MAX.0)
                .contains(&target.0)
                .then(|| update(adjust.stock_level.sku.clone(), adjust.stock_level.warehouse_id, target))
        }
        ChangeBody::ShipmentCreate(change) => shipments(change),
        ChangeBody::TrackingSubmit(change) => trackings(change),
        ChangeBody::Create(change) => {
            let body = Value::from(change.fields.clone());
            Some(match change.thing {
                CreatedThing::Product(_) => wire::create_product(&of_the_shop(body)),
                CreatedThing::Warehouse(_) => wire::create_warehouse(&body),
                CreatedThing::Template(storefront, _) => wire::create_listing_template(storefront, &body),
            })
        }
        ChangeBody::ProductUpdate(change) => product(change),
    }
}

fn update(sku: crate::model::Sku, warehouse_id: WarehouseId, quantity: Quantity) -> PlatformRequest {
    wire::update_quantity_on_hand(&[wire::QuantityUpdate { sku, quantity, warehouse_id }])
}

/// Builds the request for an order with enough left of every line that the change names.
fn shipments(change: &ShipmentCreate) -> Option<PlatformRequest> {
    let line = |line_item_id| OrderLine {
        order_id: change.order_id,
        line_item_id,
        sku: None,
        product_id: None,
        quantity_sold: Quantity::MAX.0,
        quantity_left: Some(Quantity::MAX.0),
        unit_price: None,
        supplier_id: None,
        warehouse_id: None,
    };
    let named: Vec<OrderLine> = change.lines.iter().flatten().map(|named| line(named.line_item_id)).collect();
    let lines = if named.is_empty() { vec![line(crate::model::LineItemId(known().line))] } else { named };
    let known = shipments::OrderSnapshot { lines, has_unreadable: false, is_complete: true };
    let ChangePlan::Send(claimed) = shipments::plan_shipment(change, Some(&known), false) else {
        panic!("enough is left of every line: {change:?}")
    };
    let line = |line: &shipments::ClaimedLine| wire::ShipmentOrderLine {
        line_item_id: line.line_item_id,
        quantity: line.quantity,
    };
    let order =
        wire::ShipmentOrder { order_id: change.order_id, lines: Some(claimed.iter().map(line).collect()) };
    Some(wire::create_shipments(&[order]))
}

/// Builds the request for a shipment with every item that the change names, none of them with a number.
fn trackings(change: &TrackingSubmit) -> Option<PlatformRequest> {
    let item = |line: LineRef| tracking::ItemFact {
        item_id: ShipmentItemId(line.raw_id()),
        line_item_id: Some(crate::model::LineItemId(line.raw_id())),
        is_shipped: false,
        tracking_number: None,
    };
    let named: Vec<_> = change.lines.iter().flatten().map(|line| item(line.line)).collect();
    let items =
        if named.is_empty() { vec![item(LineRef::Item(ShipmentItemId(known().item)))] } else { named };
    let ChangePlan::Send(entries) = tracking::plan_tracking(change, Some(&items)) else {
        panic!("no item carries a number: {change:?}")
    };
    let line = |entry: &tracking::TrackingItem| wire::ShipmentItemTracking {
        item_id: entry.item_id,
        carrier_id: entry.info.carrier_id,
        tracking_number: entry.info.tracking_number.clone(),
        tracking_url: entry.info.tracking_url.clone(),
        estimated_delivery_date: entry.info.estimated_delivery_date.clone(),
    };
    let shipment_id = match &change.shipment {
        ShipmentRef::Id(id) => *id,
        ShipmentRef::Key(_) => ShipmentId(known().shipment),
    };
    Some(wire::submit_tracking(&[wire::TrackingSubmission {
        shipment_id,
        carrier_id: change.info.carrier_id,
        tracking_number: None,
        tracking_url: None,
        shipped_date: change.shipped_date.clone(),
        lines: entries.iter().map(line).collect(),
    }]))
}

/// Builds the update, with the quantities that it names itself as facts.
fn product(change: &ProductUpdate) -> Option<PlatformRequest> {
    let links = change.fields.get("Warehouses").and_then(Value::as_array).into_iter().flatten();
    let fact = |link: &Value| {
        Some((
            WarehouseId(whole(&link["WarehouseId"])?),
            Quantity(whole(&link["QuantityOnHand"]).unwrap_or(0)),
        ))
    };
    let facts: BTreeMap<WarehouseId, Quantity> = links.filter_map(fact).collect();
    let total = change.fields.get("QuantityOnHand").and_then(whole).unwrap_or(0);
    let fields = change.with_quantities(&facts, Quantity(total));
    let fields = fields.unwrap_or_else(|why| panic!("its own quantities are the facts: {why}: {change:?}"));
    Some(wire::update_product(&of_the_shop(fields.into())))
}

fn whole(value: &Value) -> Option<i64> {
    crate::model::json_integer(value.as_number()?)
}

/// Returns the body with ids and prices of the account, and with no more links than the account has
/// warehouses.
fn of_the_shop(mut body: Value) -> Value {
    let warehouses = &known().warehouses;
    if let Some(links) = body.get_mut("Warehouses").and_then(Value::as_array_mut) {
        links.truncate(warehouses.len());
        links.iter_mut().zip(warehouses).for_each(|(link, id)| link["WarehouseId"] = json!(id));
    }
    if let Some(supplier) = body.pointer_mut("/SupplierInformation/SupplierId").filter(|id| !id.is_null()) {
        *supplier = json!(known().supplier);
    }
    // The interface has no limit for prices; the sandbox has one, so that its sums stay finite.
    for price in ["/GlobalListingAttributes/Price", "/SupplierInformation/Price"] {
        if let Some(price) =
            body.pointer_mut(price).filter(|price| price.as_f64().is_some_and(|price| price.abs() > 1e12))
        {
            *price = json!(1);
        }
    }
    body
}

async fn sent(shop: &mut Option<(Shop, u32)>, request: &PlatformRequest, body: &ChangeBody) {
    if shop.as_ref().is_none_or(|(_, inputs)| *inputs >= INPUTS_A_SHOP) {
        *shop = Some((Shop::open().await, 0));
    }
    let (shop, inputs) = shop.as_mut().unwrap();
    *inputs += 1;
    let skus: BTreeSet<String> = match body {
        ChangeBody::Create(CreateBody { thing: CreatedThing::Product(_), .. }) => {
            shop.core.all_skus().await.unwrap().iter().map(|sku| sku.trim().to_lowercase()).collect()
        }
        _ => BTreeSet::new(),
    };
    // The preflight would find it, so it is not created again (docs/rules.md 14).
    if body.sku().is_some_and(|sku| skus.contains(&sku.case_key())) {
        return;
    }
    let bytes = request.body.clone().unwrap_or_default();
    let answer = shop.call(request.operation.method(), &request.target(), bytes).await.unwrap();
    let status = answer.status().as_u16();
    assert!(matches!(status, 200 | 403), "{}: {status} {:?} to {body:?}", request.operation, answer.body());
}
