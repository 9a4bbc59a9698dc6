//! The auditor of the full world: plain maps, without any code of the daemon.
//!
//! They are kept from the events of the trade and from the calls at the platform. A violation is added to
//! `violations` at once; the trial reads that after every step.
//!
//! The auditor uses the interface (docs/interface.md) and the window that docs/reliability.md admits between
//! a read and the write that follows from it. It does not use the daemon's reasons.

mod creates;
mod levels;
mod quota;
mod shipments;
mod told;

pub use self::creates::Creates;
pub use self::levels::{Effect, Fate, Levels};
pub use self::quota::Quota;
pub use self::shipments::{Content, SentShipments};
pub use self::told::Told;

use super::audit::{json, text, whole};
use super::books::Level;
use super::odd::How;
use super::rewrite::Oddity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tallyd::client::{PlatformRequest, PlatformResponse};
use tallyd::model::{self, Operation};

/// State of the auditor, by subject.
#[derive(Debug, Default)]
pub struct Auditor {
    pub violations: Vec<String>,
    pub quota: Quota,
    pub levels: Levels,
    pub creates: Creates,
    pub parcels: SentShipments,
    pub told: Told,
    /// Odd answers, and calls that failed for an entry or because the platform failed.
    pub odd_answers: BTreeMap<Oddity, i64>,
    pub failed: i64,
    /// Last time, by operation, of an answer that hid records that exist.
    pub hidden_ms: BTreeMap<&'static str, i64>,
    /// Products created for the daemon, as the platform described them last.
    pub products: BTreeMap<String, Value>,
    /// Allowed age, ms, of the fact that a write rests on, at the send: the admitted window.
    pub window_ms: i64,
    /// True if the platform does not know the daemon's key.
    pub is_wrong_key: bool,
    /// True if reads come from a replica whose delay may hide our own last write.
    pub is_late: bool,
    sent: usize,
    sent_with_wrong_key: BTreeSet<usize>,
}

impl Auditor {
    /// Records a request that is sent; returns its number.
    pub fn sent(&mut self, request: &PlatformRequest, at_ms: i64, is_lost: bool) -> usize {
        self.sent += 1;
        let (call, since) = (self.sent, at_ms - self.window_ms);
        if self.is_wrong_key {
            self.sent_with_wrong_key.insert(call);
        }
        let body = json(request.body.as_deref().unwrap_or_default());
        match request.operation {
            Operation::UpdateQuantityOnHand => {
                for entry in list(&body) {
                    let level = self.level(entry);
                    self.levels.sent(call, &level, whole(&entry["Quantity"]), since, is_lost, self.is_late);
                }
            }
            Operation::UpdateProduct => {
                for link in list(&body["Warehouses"]).filter(|link| link["QuantityOnHand"].is_number()) {
                    let level = (text(&body["Sku"]), whole(&link["WarehouseId"]));
                    let units = whole(&link["QuantityOnHand"]);
                    self.levels.sent(call, &level, units, since, is_lost, self.is_late);
                }
            }
            _ => {}
        }
        call
    }

    /// Records an answer that reached the daemon.
    pub fn told(&mut self, request: &PlatformRequest, answer: &PlatformResponse, calendar_ms: i64) {
        if answer.status == 200 && Told::concerns(request.operation) {
            let asked = json(request.body.as_deref().unwrap_or_default());
            let levels = &self.levels;
            let spelled = |level: Level| (levels.canonical(&level.0), level.1);
            self.told.heard(request.operation, &asked, &json(&answer.body), calendar_ms, spelled);
        }
    }

    /// Records an odd answer.
    pub fn twisted(&mut self, operation: Operation, oddity: Oddity, at_ms: i64) {
        *self.odd_answers.entry(oddity).or_default() += 1;
        if oddity.hides() {
            self.hidden_ms.insert(operation.as_str(), at_ms);
        }
    }

    /// Records a failed call without effect.
    ///
    /// The daemon learns of it if the failure is a refusal and the answer arrived.
    pub fn failed(&mut self, operation: Operation, how: How, is_told: bool, call: usize) {
        self.failed += 1;
        let writes = matches!(operation, Operation::UpdateQuantityOnHand | Operation::UpdateProduct);
        if writes && how.is_refusal() && is_told {
            self.levels.not_done(call);
        }
    }

    /// Returns the stock level of an entry, in the platform's spelling.
    fn level(&self, entry: &Value) -> Level {
        (self.levels.canonical(&text(&entry["Sku"])), whole(&entry["WarehouseId"]))
    }

    /// Records that the daemon was killed: every message on its way to or from it is lost.
    pub fn daemon_died(&mut self) {
        self.levels.all_lost();
    }

    /// Records the effects of a call, or its refusal.
    pub fn done(&mut self, request: &PlatformRequest, answer: &PlatformResponse, call: usize, at_ms: i64) {
        if answer.status == 200 && request.operation.effect() == model::CallEffect::Read {
            if request.operation == Operation::ShipmentLineItems {
                let shipment = request.path.split('/').find_map(|part| part.parse().ok());
                shipment.into_iter().for_each(|shipment| self.parcels.looked(shipment, at_ms));
            }
            return;
        }
        let asked = json(request.body.as_deref().unwrap_or_default());
        let said = json(&answer.body);
        if answer.status == 400 && !self.sent_with_wrong_key.contains(&call) {
            self.violations.push(format!("{} was answered 400: {asked}: {said}", request.operation.as_str()));
        }
        if answer.status != 200 {
            return;
        }
        match request.operation {
            Operation::UpdateQuantityOnHand => self.quantities(call, &asked, &said, at_ms),
            Operation::UpdateProduct => self.updated(call, &said["data"], at_ms),
            Operation::CreateShipments => {
                let entries = list(&said["data"]).filter(|made| made["WasSuccessful"] == true);
                entries.for_each(|made| self.violations.extend(self.parcels.made(made, at_ms)));
            }
            Operation::SubmitTracking => {
                let entries = list(&said["data"]).filter(|made| made["WasSuccessful"] == true);
                entries.for_each(|made| self.violations.extend(self.parcels.tracked(&made["Request"])));
            }
            Operation::CreateProduct if said["data"]["WasSuccessful"] == true => {
                let product = &said["data"]["Product"];
                self.violations.extend(self.creates.made("product", &text(&product["Sku"])));
                self.products.insert(text(&product["Sku"]), product.clone());
                for link in list(&product["Warehouses"]) {
                    let level = (text(&product["Sku"]), whole(&link["WarehouseId"]));
                    self.levels.known(&level, whole(&link["QuantityOnHand"]), at_ms);
                }
            }
            Operation::CreateWarehouse => {
                self.violations.extend(self.creates.made("warehouse", &text(&said["data"]["Name"])));
            }
            Operation::CreateListingTemplate if said["WasSuccessful"] == true => {
                let name = text(&said["ListingTemplate"]["Name"]);
                self.violations.extend(self.creates.made("template", &name));
            }
            _ => {}
        }
    }

    fn quantities(&mut self, call: usize, asked: &Value, said: &Value, at_ms: i64) {
        let failed: BTreeSet<usize> = list(&said["messages"]).filter_map(failed_index).collect();
        for (index, entry) in list(asked).enumerate().filter(|(index, _)| !failed.contains(index)) {
            debug_assert!(index < 25, "the platform takes no more");
            let level = self.level(entry);
            self.levels.arrived(call, &level, whole(&entry["Quantity"]), at_ms);
        }
    }

    fn updated(&mut self, call: usize, data: &Value, at_ms: i64) {
        if data["WasSuccessful"] != true {
            return;
        }
        for link in list(&data["Product"]["Warehouses"]) {
            let level = (text(&data["Product"]["Sku"]), whole(&link["WarehouseId"]));
            self.levels.arrived(call, &level, whole(&link["QuantityOnHand"]), at_ms);
        }
    }

    /// Rewrites an answer of balances to the quantities at an earlier time.
    pub fn as_of(&self, at_ms: i64, answer: &mut PlatformResponse) {
        let mut said = json(&answer.body);
        for product in said.as_array_mut().into_iter().flatten() {
            let sku = text(&product["Sku"]);
            let Some(links) = product["Warehouses"].as_array_mut() else { continue };
            let (mut sum, mut is_known) = (0, true);
            for link in links {
                let level = (sku.clone(), whole(&link["WarehouseId"]));
                match self.levels.shown(&level, at_ms) {
                    Some(quantity) => link["QuantityOnHand"] = quantity.into(),
                    None => is_known = false,
                }
                sum += whole(&link["QuantityOnHand"]);
            }
            if is_known {
                product["QuantityOnHand"] = sum.into();
            }
        }
        if said.is_array() {
            answer.body = said.to_string().into_bytes();
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the index of the entry that a message of the platform names.
fn failed_index(message: &Value) -> Option<usize> {
    let rest = message.as_str()?.strip_prefix("Index ")?;
    rest.split(':').next()?.parse().ok()
}
