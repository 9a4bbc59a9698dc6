//! Every kind of change with the proof that it took effect once: the rows of the crash matrix.
//!
//! A new kind stands in no row at first, and `every_kind_is_killed_somewhere` fails.

use super::rig::{self, Moved};
use crate::support::World;
use crate::support::outsider::quoted;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tallyd::daemon::run_job;
use tallyd::model::{JobKind, RunTrigger};
use tallyd::outbox::ChangeKind;
use tallyd::sandbox::SandboxAnswer;

/// Changes that one life of the process delivers; kinds that share no call would only add up the events.
#[derive(Clone, Copy, Debug)]
pub enum Flow {
    Quantities,
    Creates,
    Shipping,
}

const FLOWS: [Flow; 3] = [Flow::Quantities, Flow::Creates, Flow::Shipping];

/// A change, and the expected state at the platform.
struct Row {
    key: &'static str,
    kind: &'static str,
    body: Value,
    proof: Proof,
}

enum Proof {
    /// The stock level has this quantity, and the mirror's own delta is the difference from the one before.
    Holds { sku: String, warehouse: i64, before: i64, after: i64 },
    /// The operation was carried out this many times, including the calls of the setup.
    Made(&'static str, usize),
    /// An update was carried out, and the stock levels of the SKU kept their quantities.
    Updated(String, Vec<i64>),
    /// The order is shipped in whole, in the single shipment with this id.
    Shipped(i64, i64),
    /// All items of the shipment carry the number.
    Tracked(i64, &'static str),
}

/// An account, its first mirror, and the changes of a flow.
pub struct Shop {
    pub world: World,
    rows: Vec<Row>,
}

impl Shop {
    pub async fn open(flow: Flow, clock: &Arc<Moved>) -> Self {
        let world = World::new().await;
        let daemon = rig::daemon(&world, "", clock).await;
        for kind in [JobKind::Warehouses, JobKind::Storefronts] {
            run_job(daemon.context(), kind, RunTrigger::Once).await.unwrap();
        }
        daemon.context().store.clone().close().await.unwrap();
        drop(daemon);
        let rows = flow.rows(&world).await;
        for row in &rows {
            world.change(row.key, row.kind, &row.body.to_string()).await;
        }
        Self { world, rows }
    }

    /// Asserts that each change is final and its effect is there once.
    pub async fn judge(&self, when: &str) {
        for row in &self.rows {
            let fate = self.world.fate(row.key).await;
            let answer = format!("{when}: {} {fate:?}", row.key);
            match (row.kind, fate.0.as_str()) {
                (_, "applied") => {}
                // It took effect, but only a person can tell which change made it; its tracking waits for
                // that.
                ("shipment.create", "in_doubt") => assert_eq!(fate.1, "landed_or_another", "{answer}"),
                ("tracking.submit", "pending") => {
                    assert_eq!(self.world.fate("ship").await.0, "in_doubt", "{answer}");
                    continue;
                }
                _ => panic!("{answer}"),
            }
            self.judge_proof(&row.proof, &answer).await;
        }
    }

    async fn judge_proof(&self, proof: &Proof, answer: &str) {
        let world = &self.world;
        match proof {
            Proof::Holds { sku, warehouse, before, after } => {
                assert_eq!(world.shop_level(sku, *warehouse).await, *after, "{answer}");
                let sql = format!(
                    "SELECT b.own_delta FROM balance b JOIN product p ON p.id = b.product \
                     WHERE p.sku = {} AND b.warehouse_id = {warehouse}",
                    quoted(sku)
                );
                assert_eq!(world.number(&sql).await, after - before, "{answer}: own delta");
            }
            Proof::Made(operation, times) => assert_eq!(made(world, operation), *times, "{answer}"),
            Proof::Updated(sku, before) => {
                assert!(made(world, UPDATE_PRODUCT) >= 1, "{answer}");
                assert_eq!(held(world, sku).await, *before, "{answer}");
            }
            Proof::Shipped(order, shipment) => {
                assert_eq!(left(world, *order).await, 0, "{answer}");
                assert!(!numbers(world, *shipment).await.is_empty(), "{answer}");
                assert_eq!(numbers(world, shipment + 1).await, [""; 0], "{answer}: a second parcel");
            }
            Proof::Tracked(shipment, number) => {
                let numbers = numbers(world, *shipment).await;
                assert!(!numbers.is_empty() && numbers.iter().all(|n| n == number), "{answer}: {numbers:?}");
            }
        }
    }
}

const UPDATE_PRODUCT: &str = "PUT /api/Inventory";

impl Flow {
    async fn rows(self, world: &World) -> Vec<Row> {
        match self {
            Flow::Quantities => quantities(world).await,
            Flow::Creates => creates(world).await,
            Flow::Shipping => shipping(world).await,
        }
    }
}

/// Returns stock levels of different products with enough stock.
async fn full_levels(world: &World) -> Vec<(String, i64, i64)> {
    let mut levels: Vec<_> = world.shop().await.into_iter().filter(|level| level.2 > 20).collect();
    levels.dedup_by(|a, b| a.0 == b.0);
    levels
}

/// Inserts two adjusts and a count, which share a call, and a product update.
async fn quantities(world: &World) -> Vec<Row> {
    let levels = full_levels(world).await;
    let level = |n: usize, name: &str, value: i64| {
        let (sku, warehouse, _) = &levels[n];
        json!({"sku": sku, "warehouse_id": warehouse, name: value})
    };
    let holds = |n: usize, after: i64| {
        let (sku, warehouse, before) = levels[n].clone();
        Proof::Holds { sku, warehouse, before, after }
    };
    let made = world.post("/api/Inventory", &json!({"Sku": "UPD-1", "Name": "Before"})).await;
    let mut update = made["data"]["Product"].clone();
    // The UPC shows in a lookup; a name alone would be left to a person.
    update["Name"] = "After".into();
    update["Identifiers"]["UPC"] = "777".into();
    let fields = update.as_object_mut().unwrap();
    fields.remove("QuantityOnHand");
    fields.retain(|_, value| !value.is_null());
    for link in update["Warehouses"].as_array_mut().unwrap() {
        link.as_object_mut().unwrap().remove("QuantityOnHand");
    }
    let updated = Proof::Updated("UPD-1".into(), held(world, "UPD-1").await);
    vec![
        Row {
            key: "less",
            kind: "quantity.adjust",
            body: level(0, "delta", -2),
            proof: holds(0, levels[0].2 - 2),
        },
        Row {
            key: "more",
            kind: "quantity.adjust",
            body: level(1, "delta", 5),
            proof: holds(1, levels[1].2 + 5),
        },
        Row { key: "count", kind: "quantity.set", body: level(2, "quantity", 19), proof: holds(2, 19) },
        Row { key: "update", kind: "product.update", body: update, proof: updated },
    ]
}

async fn creates(world: &World) -> Vec<Row> {
    let storefront = world.number("SELECT min(id) FROM storefront WHERE is_active").await;
    let template = json!({"StorefrontId": storefront, "Name": "Summer", "Body": "<b>x</b>"});
    let templates = "POST /api/storefronts/{storefrontid}/listingTemplates";
    let row = |key, kind, body, operation| Row { key, kind, body, proof: Proof::Made(operation, 1) };
    vec![
        row("house", "warehouse.create", json!({"Name": "Annex"}), "POST /api/Warehouses"),
        row("thing", "product.create", json!({"Sku": "MADE-1", "Name": "Made"}), "POST /api/Inventory"),
        row("page", "listing_template.create", template, templates),
    ]
}

/// Inserts a shipment with its tracking, and the tracking of an older shipment.
async fn shipping(world: &World) -> Vec<Row> {
    let levels = full_levels(world).await;
    let order = world.sandbox.place_order(&[(&levels[0].0, 2), (&levels[1].0, 1)]).await.unwrap();
    let earlier = world.sandbox.place_order(&[(&levels[2].0, 2)]).await.unwrap();
    let made = world.post("/api/Shipments/Create", &json!([{"OrderId": earlier}])).await;
    let shipment = whole(&made["data"][0]["Shipment"]["Id"]);
    let (ship, track, known) = (
        json!({"order_id": order}),
        json!({"shipment_key": "ship", "carrier_id": 1, "tracking_number": "1Z"}),
        json!({"shipment_id": shipment, "carrier_id": 1, "tracking_number": "2Z"}),
    );
    vec![
        Row { key: "ship", kind: "shipment.create", body: ship, proof: Proof::Shipped(order, shipment + 1) },
        Row { key: "track", kind: "tracking.submit", body: track, proof: Proof::Tracked(shipment + 1, "1Z") },
        Row { key: "known", kind: "tracking.submit", body: known, proof: Proof::Tracked(shipment, "2Z") },
    ]
}

/// Returns the number of calls of an operation that the platform carried out.
fn made(world: &World, operation: &str) -> usize {
    let calls = world.sandbox.logged_calls();
    calls.iter().filter(|call| call.operation == operation && call.status.is_some_and(|s| s < 300)).count()
}

/// Returns the platform's quantities of a SKU.
async fn held(world: &World, sku: &str) -> Vec<i64> {
    world.shop().await.into_iter().filter(|level| level.0 == sku).map(|level| level.2).collect()
}

/// Returns the units of an order that are in no shipment.
async fn left(world: &World, order: i64) -> i64 {
    let answer = world.post("/api/orders/getOrderLineItems", &json!({"OrderId": order})).await;
    answer["data"].as_array().unwrap().iter().map(|line| whole(&line["QuantityNotTiedToShipment"])).sum()
}

/// Returns the tracking numbers of a shipment's items at the platform; the ids are consecutive.
async fn numbers(world: &World, shipment: i64) -> Vec<String> {
    let request = axum::http::Request::get(format!("/api/Shipments/{shipment}/LineItems"))
        .header("svc-subscription-key", world.sandbox.integration_key())
        .header("gateway-subscription-key", world.sandbox.gateway_key())
        .body(axum::body::Bytes::new())
        .unwrap();
    let SandboxAnswer::Full(answer) = world.sandbox.core().handle_request(request).await else {
        panic!("no fault is on")
    };
    let answer: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let items = answer["data"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["TrackingNumber"].as_str().unwrap_or_default().to_owned()).collect()
}

fn whole(value: &Value) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "ids and quantities of a test are small")]
    let whole = value.as_f64().unwrap() as i64;
    whole
}

#[test]
fn every_kind_is_killed_somewhere() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let killed: BTreeSet<&str> = runtime.block_on(async {
        let mut killed = BTreeSet::new();
        for flow in FLOWS {
            killed.extend(Shop::open(flow, &Moved::new()).await.rows.iter().map(|row| row.kind));
        }
        killed
    });
    let kinds: BTreeSet<&str> = ChangeKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(killed, kinds);
}
