//! The transport between the daemon and the sandbox, and a dock with it.

use super::support::Dock;
use crate::support::outsider::quoted;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use tallyd::client::{HttpTransport, PlatformRequest, PlatformResponse, SendFuture, Transport};
use tallyd::model::{JobKind, Operation};

/// An odd answer to a read of balances.
#[derive(Clone, Debug)]
pub enum Odd {
    /// The record of a SKU is missing.
    Lacks(String),
    /// The record of a SKU is unreadable.
    Unreadable(String),
    /// The record of a SKU has a number as its SKU.
    Numbered(String),
    /// The quantity of one stock level is null.
    Null(String, i64),
    /// One warehouse is missing in the record of a SKU.
    Unlinked(String, i64),
    /// No records, if at most this many SKUs were asked for.
    Silent(usize),
    /// The record of a SKU stands twice; the second one has more units in each stock level.
    Twice(String, i64),
    /// A stock level stands twice in its record, the second time with more units.
    LevelTwice(String, i64, i64),
}

/// Rules for requests and answers on their way.
#[derive(Default)]
struct Rules {
    /// Oddities, and the number of answers that each still applies to.
    odd: Vec<(Odd, usize)>,
    /// Stock levels that balances show with another quantity, or not at all.
    shown: BTreeMap<(String, i64), Option<i64>>,
    left_out: BTreeSet<String>,
    /// SKUs whose entries never reach the platform.
    lost: BTreeSet<String>,
    /// Message that replaces the answers to updates.
    words: Option<String>,
    /// True if balances are refused after an update was answered.
    is_blind: bool,
    is_updated: bool,
}

pub struct Between {
    http: HttpTransport,
    rules: Mutex<Rules>,
}

impl Transport for Between {
    fn send(&self, mut request: PlatformRequest) -> SendFuture<'_> {
        let operation = request.operation;
        if operation == Operation::UpdateQuantityOnHand {
            self.lose_entries(&mut request);
        }
        Box::pin(async move {
            let asked = request.body.as_deref().and_then(|body| serde_json::from_slice::<Value>(body).ok());
            let mut response = self.http.send(request).await?;
            match operation {
                Operation::GetProductBalances => {
                    self.show(&mut response);
                    let asked = asked.and_then(|asked| Some(asked["skus"].as_array()?.len()));
                    self.make_odd(asked.unwrap_or(0), &mut response);
                }
                Operation::UpdateQuantityOnHand => self.say(&mut response),
                _ => {}
            }
            Ok(response)
        })
    }
}

impl Between {
    fn lose_entries(&self, request: &mut PlatformRequest) {
        let rules = self.rules.lock().unwrap();
        let mut entries: Vec<Value> = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
        entries.retain(|entry| !rules.lost.contains(entry["Sku"].as_str().unwrap()));
        request.body = Some(serde_json::to_vec(&entries).unwrap());
    }

    fn show(&self, response: &mut PlatformResponse) {
        let rules = self.rules.lock().unwrap();
        if rules.is_blind && rules.is_updated {
            *response = PlatformResponse { status: 404, ..PlatformResponse::default() };
            return;
        }
        let mut products: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
        products.retain(|product| !rules.left_out.contains(product["Sku"].as_str().unwrap()));
        for product in &mut products {
            let sku = product["Sku"].as_str().unwrap().to_owned();
            let levels = product["Warehouses"].as_array_mut().unwrap();
            let rule = |level: &Value| {
                let warehouse = super::support::whole(&level["WarehouseId"]);
                rules.shown.get(&(sku.clone(), warehouse)).copied()
            };
            levels.retain(|level| rule(level) != Some(None));
            for level in levels {
                if let Some(Some(quantity)) = rule(level) {
                    level["QuantityOnHand"] = json!(quantity);
                }
            }
        }
        response.body = serde_json::to_vec(&products).unwrap();
    }

    fn make_odd(&self, asked: usize, response: &mut PlatformResponse) {
        let mut rules = self.rules.lock().unwrap();
        rules.odd.retain(|(_, times)| *times > 0);
        if response.status != 200 || rules.odd.is_empty() {
            return;
        }
        let mut products: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
        for (odd, times) in &mut rules.odd {
            if odd.befalls(asked, &mut products) {
                *times -= 1;
            }
        }
        response.body = serde_json::to_vec(&products).unwrap();
    }

    fn say(&self, response: &mut PlatformResponse) {
        let mut rules = self.rules.lock().unwrap();
        rules.is_updated = true;
        if let Some(words) = &rules.words {
            let answer = json!({"status": "Partial Success", "messages": [words], "data": ""});
            response.body = serde_json::to_vec(&answer).unwrap();
        }
    }
}

impl Odd {
    /// Makes an answer odd; returns false if it does not hold the record.
    fn befalls(&self, asked: usize, products: &mut Vec<Value>) -> bool {
        let before = products.len();
        match self {
            Odd::Lacks(sku) => products.retain(|product| product["Sku"] != json!(sku)),
            Odd::Silent(most) if asked <= *most => products.clear(),
            Odd::Silent(_) => {}
            Odd::Unreadable(sku)
            | Odd::Numbered(sku)
            | Odd::Null(sku, _)
            | Odd::Unlinked(sku, _)
            | Odd::Twice(sku, _)
            | Odd::LevelTwice(sku, ..) => {
                let Some(at) = products.iter().position(|product| product["Sku"] == json!(sku)) else {
                    return false;
                };
                return self.befalls_one(at, products);
            }
        }
        products.len() < before
    }

    fn befalls_one(&self, at: usize, products: &mut Vec<Value>) -> bool {
        let product = &mut products[at];
        let place = |product: &Value, warehouse: i64| {
            let levels = product["Warehouses"].as_array().unwrap();
            levels.iter().position(|level| super::support::whole(&level["WarehouseId"]) == warehouse).unwrap()
        };
        let more = |level: &mut Value, by: i64| {
            level["QuantityOnHand"] = json!(super::support::whole(&level["QuantityOnHand"]) + by);
        };
        match self {
            Odd::Unreadable(_) => product["QuantityOnHand"] = json!("many"),
            Odd::Numbered(_) => product["Sku"] = json!(17),
            Odd::Null(_, warehouse) => {
                let level = place(product, *warehouse);
                product["Warehouses"][level]["QuantityOnHand"] = Value::Null;
            }
            Odd::Unlinked(_, warehouse) => {
                let level = place(product, *warehouse);
                product["Warehouses"].as_array_mut().unwrap().remove(level);
            }
            Odd::Twice(_, by) => {
                let mut twin = product.clone();
                twin["Warehouses"].as_array_mut().unwrap().iter_mut().for_each(|level| more(level, *by));
                products.push(twin);
            }
            Odd::LevelTwice(_, warehouse, by) => {
                let mut twin = product["Warehouses"][place(product, *warehouse)].clone();
                more(&mut twin, *by);
                product["Warehouses"].as_array_mut().unwrap().push(twin);
            }
            Odd::Lacks(_) | Odd::Silent(_) => return false,
        }
        true
    }
}

/// A stock level with enough stock to be sold from.
#[derive(Clone, Debug)]
pub struct Level {
    pub sku: String,
    pub warehouse: i64,
    pub quantity: i64,
}

/// A dock with the transport in between.
pub struct Scene {
    dock: Dock,
    between: Arc<Between>,
}

impl Deref for Scene {
    type Target = Dock;
    fn deref(&self) -> &Dock {
        &self.dock
    }
}

impl Scene {
    pub async fn open() -> Self {
        Self::open_with("").await
    }

    /// Opens a scene with more lines for the configuration.
    pub async fn open_with(more: &str) -> Self {
        let mut between = None;
        let dock = Dock::open_with_over(more, |http| {
            let made = Arc::new(Between { http, rules: Mutex::default() });
            between = Some(Arc::clone(&made));
            Some(made)
        });
        let dock = dock.await;
        Self { dock, between: between.unwrap() }
    }

    /// Makes the next `times` answers with that record odd.
    pub fn odd(&self, odd: Odd, times: usize) {
        self.between.rules.lock().unwrap().odd.push((odd, times));
    }

    /// Ends the oddities.
    pub fn even(&self) {
        self.between.rules.lock().unwrap().odd.clear();
    }

    /// Returns the dock, to run its daemon by itself.
    pub fn dock_mut(&mut self) -> &mut Dock {
        &mut self.dock
    }

    /// Tracks and reads the first `most` stock levels; no other SKU is known.
    pub async fn some_levels(&self, most: usize) -> Vec<Level> {
        let mut levels = self.stocked().await;
        levels.truncate(most);
        self.track(&levels).await;
        self.run(JobKind::Balances).await;
        levels
    }

    /// Tracks and reads stock levels of different products that have at least 20 units.
    pub async fn levels(&self) -> Vec<Level> {
        self.some_levels(usize::MAX).await
    }

    /// Returns them without a read.
    pub async fn stocked(&self) -> Vec<Level> {
        let stock = self.sandbox.stock_levels().await.unwrap();
        let mut levels: Vec<Level> = stock
            .into_iter()
            .filter(|row| row.quantity >= 20)
            .map(|row| Level { sku: row.sku, warehouse: row.warehouse_id, quantity: row.quantity })
            .collect();
        levels.dedup_by(|a, b| a.sku == b.sku);
        levels
    }

    async fn track(&self, levels: &[Level]) {
        self.track_skus(&levels.iter().map(|level| &level.sku).collect::<Vec<_>>()).await;
    }

    pub async fn set(&self, key: &str, level: &Level, quantity: i64) {
        let body = json!({"sku": level.sku, "warehouse_id": level.warehouse, "quantity": quantity});
        self.change(key, "quantity.set", body).await;
    }

    pub async fn adjust(&self, key: &str, level: &Level, delta: i64) {
        let body = json!({"sku": level.sku, "warehouse_id": level.warehouse, "delta": delta});
        self.change(key, "quantity.adjust", body).await;
    }

    /// Makes balances leave the product out.
    pub fn leave_out(&self, level: &Level) {
        self.between.rules.lock().unwrap().left_out.insert(level.sku.clone());
    }

    /// Makes balances show the stock level with `quantity`, or not at all.
    pub fn show(&self, level: &Level, quantity: Option<i64>) {
        let name = (level.sku.clone(), level.warehouse);
        self.between.rules.lock().unwrap().shown.insert(name, quantity);
    }

    /// Makes balances show the true quantities.
    pub fn show_all(&self) {
        self.between.rules.lock().unwrap().shown.clear();
    }

    /// Loses updates of these stock levels; the platform answers only this message.
    pub fn lose(&self, lost: &[&Level], words: &str) {
        let mut rules = self.between.rules.lock().unwrap();
        rules.lost = lost.iter().map(|level| level.sku.clone()).collect();
        rules.words = Some(words.to_owned());
    }

    /// Makes balances unreadable after an update, or readable again.
    pub fn blind(&self, is_blind: bool) {
        let mut rules = self.between.rules.lock().unwrap();
        (rules.is_blind, rules.is_updated) = (is_blind, false);
    }

    /// Delivers updates again, with the platform's own answers.
    pub fn restore(&self) {
        let mut rules = self.between.rules.lock().unwrap();
        (rules.lost, rules.words) = (BTreeSet::new(), None);
    }

    /// Returns the quantity at the platform.
    pub async fn holds(&self, level: &Level) -> i64 {
        self.level(&level.sku, level.warehouse).await
    }

    /// Returns the quantity in the view `stock`.
    pub async fn fact(&self, level: &Level) -> i64 {
        let (sku, warehouse) = (quoted(&level.sku), level.warehouse);
        self.number(&format!("SELECT quantity FROM stock WHERE sku = {sku} AND warehouse_id = {warehouse}"))
            .await
    }

    /// Returns (key, kind, mine, theirs, what to do) of every open conflict.
    pub async fn conflicts(&self) -> Vec<(String, String, String, Option<String>, String)> {
        let sql = "SELECT key, kind, mine, theirs, what_to_do FROM open_conflict ORDER BY key";
        self.outsider().await.rows(sql).await
    }

    /// Returns the time until the next check is due.
    pub async fn look_due_in_ms(&self) -> Option<i64> {
        let due = tallyd::settle::next_check_at(self.daemon().context()).await.unwrap();
        due.map(|due| due.0 - self.daemon().context().now().0)
    }
}
