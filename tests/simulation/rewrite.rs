//! Odd answers, made of the platform's own answers.
//!
//! Records are missing, unreadable or doubled with different numbers; or there are no records. Whole numbers
//! written with a decimal point are valid.

use super::audit::whole;
use super::odd::Odd;
use super::random::Random;
use serde_json::{Value, json};
use tallyd::client::{PlatformRequest, PlatformResponse};
use tallyd::model::{CallEffect, Operation};

/// Form of an odd answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// Records that were asked for, or a warehouse of one, are missing.
    Lack,
    /// A record is unreadable.
    Unreadable,
    /// The answer is empty.
    Empty,
    /// A record stands there twice, with different numbers.
    Twice,
    /// Whole numbers have a decimal point.
    Float,
}

impl Oddity {
    pub const ALL: [Oddity; 5] =
        [Oddity::Lack, Oddity::Unreadable, Oddity::Empty, Oddity::Twice, Oddity::Float];
}

impl Odd {
    /// Rewrites an answer to a read; returns the oddity applied.
    pub fn rewrite(
        &self,
        request: &PlatformRequest,
        answer: &mut PlatformResponse,
        random: &mut Random,
    ) -> Option<Oddity> {
        if answer.status != 200 || request.operation.effect() == CallEffect::Write {
            return None;
        }
        let is_plain = self.rates.is_empty()
            && self.emptied.is_empty()
            && self.closed.is_empty()
            && self.substituted.is_empty();
        if is_plain {
            return None;
        }
        let mut said: Value = serde_json::from_slice(&answer.body).ok()?;
        self.show_orders(request, &mut said);
        let odd = self.rates.iter().find(|(_, share)| random.percent(**share)).map(|(odd, _)| *odd);
        let odd = odd.filter(|odd| odd.befalls(request.operation, &mut said, random));
        answer.body = said.to_string().into_bytes();
        odd
    }

    /// Applies cancelled orders, shipments made elsewhere, and allocations of a substitute.
    fn show_orders(&self, request: &PlatformRequest, said: &mut Value) {
        match request.operation {
            Operation::GetOrderLineItems => {
                let asked = super::audit::json(request.body.as_deref().unwrap_or_default());
                let order = whole(&asked["OrderId"]);
                if self.emptied.contains(&order) {
                    said["data"] = json!([]);
                    said["pagination"]["TotalNumberOfEntries"] = 0.into();
                }
                for line in said["data"].as_array_mut().into_iter().flatten() {
                    if self.closed.contains(&order) {
                        line["QuantityNotTiedToShipment"] = 0.into();
                    }
                }
            }
            Operation::WarehouseAllocation => {
                let of = |order: &i64| request.path.contains(&format!("/orders/{order}/"));
                if let Some((_, (sku, product))) = self.substituted.iter().find(|(order, _)| of(order)) {
                    for allocation in said["data"].as_array_mut().into_iter().flatten() {
                        allocation["SkuNumber"] = sku.as_str().into();
                        allocation["ProductId"] = (*product).into();
                    }
                }
            }
            _ => {}
        }
    }
}

impl Oddity {
    /// Applies the oddity to the answer; returns false if the answer has nothing to apply it to.
    fn befalls(self, operation: Operation, said: &mut Value, random: &mut Random) -> bool {
        if self == Oddity::Float {
            *said = with_points(said.take());
            return true;
        }
        let total =
            said.get("pagination").map_or(0, |page| page["TotalNumberOfEntries"].as_i64().unwrap_or(0));
        let list = if said.is_array() { &mut *said } else { &mut said["data"] };
        let Some(records) = list.as_array_mut().filter(|records| !records.is_empty()) else { return false };
        match self {
            Oddity::Lack => lack(operation, records, random),
            Oddity::Unreadable => {
                let at = index(records.len(), random);
                spoil(operation, &mut records[at], random);
            }
            Oddity::Empty => records.clear(),
            Oddity::Twice => twice(operation, records, random),
            Oddity::Float => {}
        }
        let left = i64::try_from(records.len()).unwrap();
        // Some answers state the number of all entries, some do not.
        if total > left && random.percent(50) {
            said["pagination"]["TotalNumberOfEntries"] = left.into();
        }
        true
    }
}

fn index(len: usize, random: &mut Random) -> usize {
    usize::try_from(random.between(0, i64::try_from(len).unwrap() - 1)).unwrap()
}

/// Removes some of the records, at least one; or one warehouse of a product.
fn lack(operation: Operation, records: &mut Vec<Value>, random: &mut Random) {
    let at = index(records.len(), random);
    if operation == Operation::GetProductBalances && random.percent(20) {
        let links = records[at]["Warehouses"].as_array_mut().filter(|links| links.len() > 1);
        if let Some(links) = links {
            links.remove(index(links.len(), random));
            return;
        }
    }
    records.remove(at);
    records.retain(|_| !random.percent(30));
}

/// Makes a field of a record unreadable.
fn spoil(operation: Operation, record: &mut Value, random: &mut Random) {
    let is_product = matches!(operation, Operation::GetProductBalances | Operation::GetProducts);
    let fields: &[&str] = match operation {
        _ if is_product => &["QuantityOnHand", "Sku", "Warehouses", "Id", "UPC"],
        Operation::GetOrderLineItems => &["OrderLineItemId", "QuantityNotTiedToShipment", "QuantitySold"],
        Operation::WarehouseAllocation => &["QuantityAllocated", "WarehouseId", "ProductId"],
        Operation::ShipmentLineItems => &["Id", "QuantityShipped", "TrackingNumber"],
        Operation::ListWarehouses => &["Id", "Name", "AccountNumber"],
        Operation::ListListingTemplates => &["Id", "Name", "Body"],
        _ => &["Id"],
    };
    if is_product && random.percent(40) {
        let links = record["Warehouses"].as_array_mut().filter(|links| !links.is_empty());
        if let Some(links) = links {
            let at = index(links.len(), random);
            let (field, value) =
                random.pick(&[("QuantityOnHand", Value::Null), ("IsActive", Value::from("many"))]).clone();
            links[at][field] = value;
            return;
        }
    }
    let field = *random.pick(fields);
    record[field] = match record[field] {
        // A number is a readable name, but no SKU.
        Value::String(_) if field == "Sku" => 17.into(),
        Value::String(_) => serde_json::json!({"odd": true}),
        _ => "many".into(),
    };
}

/// Doubles a record with other numbers, or a warehouse within a record.
fn twice(operation: Operation, records: &mut Vec<Value>, random: &mut Random) {
    let at = index(records.len(), random);
    let mut again = records[at].clone();
    let number = match operation {
        Operation::GetProductBalances | Operation::GetProducts => "QuantityOnHand",
        Operation::GetOrderLineItems => "QuantityNotTiedToShipment",
        Operation::WarehouseAllocation => "QuantityAllocated",
        _ => "Name",
    };
    again[number] = other(&again[number]);
    if let Some(link) = again["Warehouses"].as_array_mut().and_then(|links| links.first_mut()) {
        link["QuantityOnHand"] = other(&link["QuantityOnHand"]);
        if random.percent(30) {
            let link = link.clone();
            records[at]["Warehouses"].as_array_mut().expect("it is a copy").push(link);
            return;
        }
    }
    records.insert(index(records.len() + 1, random), again);
}

fn other(value: &Value) -> Value {
    match value.as_f64() {
        Some(_) => (whole(value) + 7).into(),
        None => format!("not {}", value.as_str().unwrap_or_default()).into(),
    }
}

/// Writes every whole number as a float.
pub fn with_points(value: Value) -> Value {
    match value {
        #[allow(clippy::cast_precision_loss, reason = "numbers of a simulation are small")]
        Value::Number(number) => number.as_i64().map_or(Value::Number(number), |whole| (whole as f64).into()),
        Value::Array(list) => list.into_iter().map(with_points).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, with_points(value))).collect(),
        other => other,
    }
}

#[test]
fn each_oddity_changes_an_answer_as_it_says() {
    let product = |sku: &str, units: i64| json!({"Id": 1, "Sku": sku, "QuantityOnHand": units, "Warehouses": [{"WarehouseId": 5, "QuantityOnHand": units}]});
    let said = json!([product("A", 3), product("B", 4), product("C", 5)]);
    let request = PlatformRequest {
        operation: Operation::GetProductBalances,
        path: String::new(),
        query: Vec::new(),
        body: None,
    };
    for oddity in Oddity::ALL {
        let mut odd = Odd::default();
        odd.rates.insert(oddity, 100);
        let mut answer =
            PlatformResponse { status: 200, body: said.to_string().into(), ..PlatformResponse::default() };
        let befell = odd.rewrite(&request, &mut answer, &mut Random::new(1, "odd"));
        let now: Value = super::audit::json(&answer.body);
        assert_eq!(befell, Some(oddity));
        assert_ne!(now.to_string(), said.to_string(), "{oddity:?}");
        let expected = match oddity {
            Oddity::Lack => 0..3,
            Oddity::Empty => 0..1,
            Oddity::Twice => 3..5,
            Oddity::Unreadable | Oddity::Float => 3..4,
        };
        assert!(expected.contains(&now.as_array().unwrap().len()), "{oddity:?}: {now}");
    }
}
