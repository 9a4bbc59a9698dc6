//! The auditor: observes every call at the platform, keeps the ground truth of the goods, and judges at the
//! end.
//!
//! It reads requests and answers as docs/interface.md describes them, with a JSON reader and no code of the
//! daemon.

use super::auditor::Auditor;
use super::books::Books;
use super::calls::Calls;
use super::odd::How;
use super::rewrite::Oddity;
use super::storm::Mishap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use tallyd::client::{PlatformRequest, PlatformResponse};
use tallyd::model::{CallEffect, Operation};

/// State that the auditor gathered from the calls.
#[derive(Debug, Default)]
pub struct Audit {
    pub books: Books,
    pub calls: Calls,
    /// Shipments that the platform made, by order: their ids and units.
    pub shipped: BTreeMap<i64, Vec<(i64, i64)>>,
    /// Tracking numbers that the platform accepted, by shipment.
    pub tracked: BTreeMap<i64, Vec<String>>,
    /// Faults of calls that change something, with their counts.
    pub mishaps: BTreeMap<Mishap, usize>,
    /// Hash over every effect in order; a seed must reproduce it.
    pub fingerprint: u64,
    /// Auditor of a full world; it judges after each step.
    pub full: Option<Auditor>,
}

impl Audit {
    /// Records that a request was sent; returns its number in a full world.
    pub fn sent(&mut self, request: &PlatformRequest, at_ms: i64, is_lost: bool) -> usize {
        self.full.as_mut().map_or(0, |full| full.sent(request, at_ms, is_lost))
    }

    pub fn arrived(&mut self, operation: Operation, at_ms: i64) -> usize {
        let Some(full) = &mut self.full else { return self.calls.arrived(operation.as_str(), at_ms) };
        let broken = full.quota.arrived(operation.as_str(), at_ms);
        full.violations.extend(broken);
        0
    }

    pub fn befell(&mut self, operation: Operation, mishap: Option<Mishap>) {
        if let Some(mishap) = mishap.filter(|_| operation.effect() == CallEffect::Write) {
            *self.mishaps.entry(mishap).or_default() += 1;
        }
    }

    pub fn left(&mut self, operation: Operation, call: usize, at_ms: i64) {
        match &mut self.full {
            Some(full) => full.quota.left(operation.as_str()),
            None => self.calls.left(call, at_ms),
        }
    }

    /// Records an answer that reached the daemon while its host's calendar showed `calendar_ms`.
    pub fn told(&mut self, request: &PlatformRequest, answer: &PlatformResponse, calendar_ms: i64) {
        if let Some(full) = &mut self.full {
            full.told(request, answer, calendar_ms);
        }
    }

    /// Records that the platform failed the call without any effect.
    pub fn failed(&mut self, operation: Operation, how: How, is_told: bool, call: usize) {
        if let Some(full) = &mut self.full {
            full.failed(operation, how, is_told, call);
        }
    }

    /// Counts an answer that was made odd.
    pub fn twisted(&mut self, operation: Operation, oddity: Option<Oddity>, at_ms: i64) {
        if let (Some(full), Some(oddity)) = (&mut self.full, oddity) {
            full.twisted(operation, oddity, at_ms);
        }
    }

    /// Records an answer on its way that shows an order's lines, or none.
    pub fn showed_order(&mut self, request: &PlatformRequest, answer: &PlatformResponse, at_ms: i64) {
        let Some(full) = &mut self.full else { return };
        if request.operation != Operation::GetOrderLineItems {
            return;
        }
        if json(&answer.body)["data"].as_array().is_none_or(Vec::is_empty) {
            let asked = json(request.body.as_deref().unwrap_or_default());
            full.parcels.has_news(whole(&asked["OrderId"]), at_ms);
        }
    }

    /// Rewrites an answer to the one of a replica that lags behind.
    pub fn as_of(&self, at_ms: i64, answer: &mut PlatformResponse) {
        if let Some(full) = &self.full {
            full.as_of(at_ms, answer);
        }
    }

    /// Records the effects of a call at the platform.
    pub fn done(&mut self, request: &PlatformRequest, answer: &PlatformResponse, call: usize, at_ms: i64) {
        let body = request.body.as_deref().unwrap_or_default();
        let text = String::from_utf8_lossy(body);
        let mut hasher = DefaultHasher::new();
        (self.fingerprint, request.operation, &request.path, body, answer.status).hash(&mut hasher);
        self.fingerprint = hasher.finish();
        if let Some(full) = &mut self.full {
            return full.done(request, answer, call, at_ms);
        }
        assert_ne!(answer.status, 400, "the daemon sent what makes no sense: {text}");
        if answer.status != 200 {
            return;
        }
        let (asked, said) = (json(body), json(&answer.body));
        match request.operation {
            Operation::UpdateQuantityOnHand => self.quantities(&asked, &said),
            Operation::CreateShipments => self.shipments(&said),
            Operation::SubmitTracking => self.trackings(&said),
            _ => {}
        }
    }

    fn quantities(&mut self, asked: &Value, said: &Value) {
        assert_eq!(said["status"], "Success", "the shop knows every SKU of these changes: {said}");
        for entry in asked.as_array().unwrap() {
            let level = (text(&entry["Sku"]), whole(&entry["WarehouseId"]));
            self.books.written(&level, whole(&entry["Quantity"]));
        }
    }

    fn shipments(&mut self, said: &Value) {
        for made in said["data"].as_array().unwrap().iter().filter(|made| made["WasSuccessful"] == true) {
            let items = made["Shipment"]["Items"].as_array().unwrap();
            let units = items.iter().map(|item| whole(&item["QuantityShipped"])).sum();
            let of_order = self.shipped.entry(whole(&made["Request"]["OrderId"])).or_default();
            of_order.push((whole(&made["Shipment"]["Id"]), units));
        }
    }

    fn trackings(&mut self, said: &Value) {
        for made in said["data"].as_array().unwrap().iter().filter(|made| made["WasSuccessful"] == true) {
            let request = &made["Request"];
            let own = request["TrackingNumber"].as_str().map(str::to_owned);
            let lines = request["LineItems"].as_array().into_iter().flatten();
            let of_lines = lines.filter_map(|line| line["TrackingNumber"].as_str().map(str::to_owned));
            let numbers = self.tracked.entry(whole(&request["ShipmentId"])).or_default();
            numbers.extend(own.into_iter().chain(of_lines));
        }
    }
}

pub fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// Returns the text of a value, or an empty string.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a whole number that the platform wrote as `28` or `28.0`.
pub fn whole(value: &Value) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "ids and quantities of a simulation are small")]
    let whole = value.as_f64().unwrap() as i64;
    whole
}
