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
    /// Products without their warehouses: the field is missing, null or misspelt.
    NoWarehouses,
    /// The last answer of the operation about another subject.
    Foreign,
    /// A record of a list is removed between two pages.
    MovingTotal,
}

impl Oddity {
    pub const ALL: [Oddity; 5] =
        [Oddity::Lack, Oddity::Unreadable, Oddity::Empty, Oddity::Twice, Oddity::Float];

    /// Oddities of the kind `fields`.
    pub const FIELDS: [Oddity; 3] = [Oddity::NoWarehouses, Oddity::Foreign, Oddity::MovingTotal];

    /// Returns true if the answer hides records that exist, so that a rule may count them as gone.
    pub fn hides(self) -> bool {
        matches!(self, Oddity::Lack | Oddity::Unreadable | Oddity::Empty | Oddity::Twice)
    }
}

impl Odd {
    /// Rewrites an answer to a read; returns the oddity applied.
    pub fn rewrite(
        &mut self,
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
            && self.substituted.is_empty()
            && self.moved.is_empty();
        if is_plain {
            return None;
        }
        let mut said: Value = serde_json::from_slice(&answer.body).ok()?;
        self.show_orders(request, &mut said);
        let odd = self.rates.iter().find(|(_, share)| random.percent(**share)).map(|(odd, _)| *odd);
        let odd = match odd {
            _ if self.second_page(request, &mut said) => Some(Oddity::MovingTotal),
            Some(Oddity::Foreign) => self.foreign(request, &mut said).then_some(Oddity::Foreign),
            Some(Oddity::MovingTotal) => self.first_page(request, &mut said).then_some(Oddity::MovingTotal),
            odd => odd.filter(|odd| odd.befalls(request.operation, &mut said, random)),
        };
        if odd.is_none() && self.rates.contains_key(&Oddity::Foreign) && names_its_subject(request.operation)
        {
            self.last.insert(request.operation.as_str(), (subject(request), said.clone()));
        }
        answer.body = said.to_string().into_bytes();
        odd
    }

    /// Replaces the answer by the last one of the operation about another subject; returns false if there is none.
    fn foreign(&self, request: &PlatformRequest, said: &mut Value) -> bool {
        let other = self.last.get(request.operation.as_str()).filter(|(of, _)| *of != subject(request));
        if let Some((_, other)) = other {
            *said = other.clone();
        }
        other.is_some()
    }

    /// Cuts the first page of a list in two; returns false if it has one record.
    fn first_page(&mut self, request: &PlatformRequest, said: &mut Value) -> bool {
        let total = said.get("pagination").and_then(|page| page["TotalNumberOfEntries"].as_i64());
        let records = said.get_mut("data").and_then(Value::as_array_mut);
        let (Some(total), Some(records)) = (total, records) else { return false };
        if page_number(request) != "1" || records.len() < 2 || i64::try_from(records.len()) != Ok(total) {
            return false;
        }
        let rest = records.split_off(records.len() / 2);
        said["pagination"]["TotalNumberOfPages"] = 2.into();
        self.moved.insert(subject(request), (total - 1, rest[1..].to_vec()));
        true
    }

    /// Answers the second page of a cut list, without the record that moved to the first page meanwhile.
    fn second_page(&mut self, request: &PlatformRequest, said: &mut Value) -> bool {
        if page_number(request) != "2" {
            return false;
        }
        let Some((total, rest)) = self.moved.remove(&subject(request)) else {
            return false;
        };
        said["pagination"]["TotalNumberOfEntries"] = total.into();
        said["pagination"]["TotalNumberOfPages"] = 2.into();
        said["data"] = rest.into();
        true
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
            Oddity::NoWarehouses => return no_warehouses(operation, records, random),
            Oddity::Float | Oddity::Foreign | Oddity::MovingTotal => {}
        }
        let left = i64::try_from(records.len()).unwrap();
        // Some answers state the number of all entries, some do not.
        if total > left && random.percent(50) {
            said["pagination"]["TotalNumberOfEntries"] = left.into();
        }
        true
    }
}

/// Returns true if each record of the operation names the subject that was asked for.
fn names_its_subject(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::GetOrderLineItems
            | Operation::WarehouseAllocation
            | Operation::ShipmentLineItems
            | Operation::ListListingTemplates
            | Operation::TopSelling
    )
}

/// Returns the request without its page.
fn subject(request: &PlatformRequest) -> String {
    let query: Vec<String> = request
        .query
        .iter()
        .filter(|(name, _)| !is_paging(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let body = super::audit::json(request.body.as_deref().unwrap_or_default());
    format!("{} {} {}", request.path, query.join("&"), body["OrderId"])
}

fn is_paging(name: &str) -> bool {
    ["pageNumber", "resultsPerPage"].contains(&name)
}

fn page_number(request: &PlatformRequest) -> &str {
    let number = request.query.iter().find(|(name, _)| *name == "pageNumber");
    number.map_or("1", |(_, value)| value.as_str())
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

/// Removes the warehouses of a product, and of some others; returns false for records of another kind.
fn no_warehouses(operation: Operation, records: &mut [Value], random: &mut Random) -> bool {
    if !matches!(operation, Operation::GetProductBalances | Operation::GetProducts) {
        return false;
    }
    let at = index(records.len(), random);
    for (number, record) in records.iter_mut().enumerate() {
        if number != at && random.percent(70) {
            continue;
        }
        let fields = record.as_object_mut().expect("a record is an object");
        let links = fields.remove("Warehouses").unwrap_or_default();
        match random.between(1, 3) {
            1 => {}
            2 => drop(fields.insert("Warehouses".into(), Value::Null)),
            _ => drop(fields.insert("Warehouse".into(), links)),
        }
    }
    true
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
    for oddity in Oddity::ALL.into_iter().chain([Oddity::NoWarehouses]) {
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
            Oddity::Unreadable
            | Oddity::Float
            | Oddity::NoWarehouses
            | Oddity::Foreign
            | Oddity::MovingTotal => 3..4,
        };
        assert!(expected.contains(&now.as_array().unwrap().len()), "{oddity:?}: {now}");
    }
}

#[test]
fn a_record_that_moves_between_two_pages_is_shown_by_none() {
    let page = |number: &str| PlatformRequest {
        operation: Operation::ListSuppliers,
        path: "/api/suppliers".into(),
        query: vec![("pageNumber".into(), number.into()), ("resultsPerPage".into(), "200".into())],
        body: None,
    };
    let said = |data: Value, total: i64| json!({"status": "Success", "pagination": {"TotalNumberOfEntries": total, "TotalNumberOfPages": 1}, "data": data});
    let mut odd = Odd::default();
    odd.rates.insert(Oddity::MovingTotal, 100);
    let mut read = |number, said: Value| {
        let mut answer =
            PlatformResponse { status: 200, body: said.to_string().into(), ..PlatformResponse::default() };
        assert_eq!(
            odd.rewrite(&page(number), &mut answer, &mut Random::new(1, "odd")),
            Some(Oddity::MovingTotal)
        );
        super::audit::json(&answer.body)
    };
    let first = read("1", said(json!([{"Id": 1}, {"Id": 2}, {"Id": 3}, {"Id": 4}]), 4));
    let second = read("2", said(json!([]), 4));
    assert_eq!(
        (&first["data"], &first["pagination"]["TotalNumberOfEntries"]),
        (&json!([{"Id": 1}, {"Id": 2}]), &4.into())
    );
    assert_eq!(
        (&second["data"], &second["pagination"]["TotalNumberOfEntries"]),
        (&json!([{"Id": 4}]), &3.into())
    );
}

#[test]
fn an_answer_about_another_subject_is_one_that_was_given_before() {
    let lines = |order: i64| PlatformRequest {
        operation: Operation::GetOrderLineItems,
        path: "/api/orders/getOrderLineItems".into(),
        query: Vec::new(),
        body: Some(json!({"OrderId": order}).to_string().into_bytes()),
    };
    let said = |order: i64| json!({"data": [{"SalesOrderId": order}]});
    let mut odd = Odd::default();
    odd.rates.insert(Oddity::Foreign, 100);
    let mut read = |order: i64| {
        let mut answer = PlatformResponse {
            status: 200,
            body: said(order).to_string().into(),
            ..PlatformResponse::default()
        };
        let befell = odd.rewrite(&lines(order), &mut answer, &mut Random::new(1, "odd"));
        (befell, super::audit::json(&answer.body))
    };
    assert_eq!(read(1), (None, said(1)), "there is no other answer yet");
    assert_eq!(read(2), (Some(Oddity::Foreign), said(1)));
    assert_eq!(read(1), (None, said(1)), "its own answer is not another's");
}
