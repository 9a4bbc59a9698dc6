//! The time of the platform's last answer about each stock level: no fact of the mirror may be dated later.

use super::super::audit::{text, whole};
use super::super::books::Level;
use super::{failed_index, list};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tallyd::model::Operation;

/// Latest time of the host's calendar, by stock level, at which an answer that held it reached the daemon.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<Level, i64>);

impl Told {
    /// Returns true for operations whose answers hold quantities.
    pub fn concerns(operation: Operation) -> bool {
        matches!(
            operation,
            Operation::GetProductBalances
                | Operation::GetProducts
                | Operation::CreateProduct
                | Operation::UpdateProduct
                | Operation::UpdateQuantityOnHand
        )
    }

    /// Records an answer that reached the daemon. `spelled` gives the platform's spelling of a stock level.
    pub fn heard(
        &mut self,
        operation: Operation,
        asked: &Value,
        said: &Value,
        at_ms: i64,
        spelled: impl Fn(Level) -> Level,
    ) {
        let held: Vec<Level> = match operation {
            Operation::UpdateQuantityOnHand => {
                let failed: BTreeSet<usize> = list(&said["messages"]).filter_map(failed_index).collect();
                let done = list(asked).enumerate().filter(|(index, _)| !failed.contains(index));
                done.map(|(_, entry)| (text(&entry["Sku"]), whole(&entry["WarehouseId"]))).collect()
            }
            Operation::GetProductBalances => levels(list(said)),
            Operation::GetProducts => levels(list(&said["data"])),
            _ => levels(std::iter::once(&said["data"]["Product"])),
        };
        for level in held {
            self.said(spelled(level), at_ms);
        }
    }

    /// Records an observation of a stock level by an answer, or by a person at the platform.
    pub fn said(&mut self, level: Level, at_ms: i64) {
        let last = self.0.entry(level).or_insert(at_ms);
        *last = at_ms.max(*last);
    }

    /// Records that a stock level has another name.
    pub fn renamed(&mut self, from: &Level, to: &Level) {
        if let Some(at) = self.0.get(from).copied() {
            self.said(to.clone(), at);
        }
    }

    pub fn last(&self, level: &Level) -> Option<i64> {
        self.0.get(level).copied()
    }
}

/// Returns the readable stock levels of records and warehouses that stand there once.
fn levels<'a>(records: impl Iterator<Item = &'a Value>) -> Vec<Level> {
    let mut seen: BTreeMap<Level, usize> = BTreeMap::new();
    let mut skus: BTreeMap<String, usize> = BTreeMap::new();
    for record in records {
        let Some(sku) = record["Sku"].as_str() else { continue };
        *skus.entry(sku.to_owned()).or_default() += 1;
        let is_readable = |link: &&Value| {
            let [id, units, is_active] =
                ["WarehouseId", "QuantityOnHand", "IsActive"].map(|name| &link[name]);
            id.is_number() && units.is_number() && !is_active.is_string()
        };
        for link in list(&record["Warehouses"]).filter(is_readable) {
            *seen.entry((sku.to_owned(), whole(&link["WarehouseId"]))).or_default() += 1;
        }
    }
    seen.retain(|(sku, _), times| *times == 1 && skus[sku] == 1);
    seen.into_keys().collect()
}

#[test]
fn a_stock_level_is_heard_of_only_where_it_can_be_read_and_stands_there_once() {
    let level = |units: Value| serde_json::json!({"WarehouseId": 5, "QuantityOnHand": units});
    let record = |sku: &str, links: Value| serde_json::json!({"Id": 1, "Sku": sku, "Warehouses": links});
    let said = serde_json::json!([
        record("A", serde_json::json!([level(3.0.into())])),
        record("B", serde_json::json!([level("many".into())])),
        record("C", serde_json::json!([level(3.into()), level(4.into())])),
        record("D", serde_json::json!([level(3.into())])),
        record("D", serde_json::json!([level(4.into())])),
    ]);
    let mut answer = Told::default();
    answer.heard(Operation::GetProductBalances, &Value::Null, &said, 10, |level| level);
    answer.heard(Operation::GetProductBalances, &Value::Null, &serde_json::json!([]), 20, |level| level);
    let heard: Vec<Option<i64>> = ["A", "B", "C", "D"].map(|sku| answer.last(&(sku.to_owned(), 5))).into();
    assert_eq!(heard, [Some(10), None, None, None]);
}
