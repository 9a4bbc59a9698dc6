//! The sandbox's requests and answers, in process, agree with docs/openapi.yaml.
//!
//! These fail: a call or a status that the file does not list, a field that the file lacks, and a promised
//! field that is missing. Each listed status must occur here, so that the file promises nothing that never
//! comes. A third-party JSON-schema validator judges the schemas, and the judge itself is tried on planted
//! violations. The contract tests have the content of the answers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may end the test")]

pub(crate) mod interface;

use crate::sandbox::{SandboxAnswer, SandboxClock, SandboxCore, SandboxOptions};
use axum::body::Bytes;
use axum::http::{Request, Response};
use interface::{Interface, JSON};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const INTEGRATION_KEY: &str = "integration-key-of-the-tests";
const GATEWAY_KEY: &str = "gateway-key-of-the-tests";
const NOW_MS: i64 = 1_792_065_600_000; // 2026-10-15T12:00:00Z

/// A call of an operation: its path filled in, with its query, and its body.
#[derive(Clone)]
struct Call {
    name: &'static str,
    target: String,
    body: Option<Value>,
}

fn call(name: &'static str, body: Option<Value>) -> Call {
    let target = name.split_once(' ').unwrap().1.to_owned();
    Call { name, target, body }
}

fn get(name: &'static str, ids: &[&Value], query: &str) -> Call {
    let Call { mut target, .. } = call(name, None);
    for id in ids {
        let (open, close) = (target.find('{').unwrap(), target.find('}').unwrap());
        target.replace_range(open..=close, &id.to_string());
    }
    Call { name, target: format!("{target}{query}"), body: None }
}

/// A sandbox whose every answer is checked against the file.
struct Witness {
    interface: Interface,
    core: SandboxCore,
    seen: BTreeSet<(String, u16)>,
    /// Last call of each operation that was answered 200.
    good: BTreeMap<&'static str, Call>,
}

impl Witness {
    async fn over(options: SandboxOptions) -> Self {
        let options = SandboxOptions {
            integration_key: Some(INTEGRATION_KEY.to_owned()),
            gateway_key: Some(GATEWAY_KEY.to_owned()),
            skus: 20,
            ..options
        };
        let core = SandboxCore::open(&options, SandboxClock::from_source(|| NOW_MS)).await.unwrap();
        Self { interface: Interface::read(), core, seen: BTreeSet::new(), good: BTreeMap::new() }
    }

    /// Sends raw bytes and judges the answer.
    async fn send(&mut self, call: &Call, key: &str, media_type: &str, body: Vec<u8>) -> (u16, Value) {
        let request = Request::builder()
            .method(call.name.split_once(' ').unwrap().0)
            .uri(&call.target)
            .header("svc-subscription-key", key)
            .header("gateway-subscription-key", GATEWAY_KEY)
            .header("content-type", media_type)
            .body(Bytes::from(body))
            .unwrap();
        let SandboxAnswer::Full(answer) = self.core.handle_request(request).await else {
            panic!("{}: no answer", call.name)
        };
        let wrong = self.interface.judge(call.name, &answer);
        assert!(wrong.is_empty(), "{} {}: {wrong:#?}\n{:?}", call.name, answer.status(), answer.body());
        let status = answer.status().as_u16();
        self.seen.insert((call.name.to_owned(), status));
        (status, serde_json::from_slice(answer.body()).unwrap())
    }

    async fn sent(&mut self, call: &Call) -> (u16, Value) {
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
        self.send(call, INTEGRATION_KEY, JSON, body.into_bytes()).await
    }

    /// Sends a call as the file describes it and asserts an answer of 200.
    async fn ok(&mut self, call: Call) -> Value {
        let wrong = self.interface.judge_request(call.name, call.body.as_ref());
        assert!(wrong.is_empty(), "the request: {wrong:?}");
        let (status, answer) = self.sent(&call).await;
        assert_eq!(status, 200, "{}: {answer}", call.name);
        self.good.insert(call.name, call);
        answer
    }

    async fn control(&self, path: &str, body: &Value) -> Value {
        let request = Request::post(path).body(Bytes::from(body.to_string())).unwrap();
        let SandboxAnswer::Full(answer) = self.core.handle_request(request).await else {
            panic!("{path}: no answer")
        };
        assert_eq!(answer.status(), 200, "{:?}", answer.body());
        serde_json::from_slice(answer.body()).unwrap()
    }
}

const CREATE_PRODUCT: &str = "POST /api/Inventory";
const UPDATE_PRODUCT: &str = "PUT /api/Inventory";
const UPDATE_QUANTITY: &str = "POST /api/inventory/updateQuantityOnHand";
const GET_PRODUCTS: &str = "POST /api/inventory/getProducts";
const CREATE_TEMPLATE: &str = "POST /api/storefronts/{storefrontid}/listingTemplates";

/// Calls for products, stock and kits, with both 200s of the update and all three of the quantity update.
async fn products_and_stock(witness: &mut Witness) {
    let warehouse =
        witness.ok(get("GET /api/Warehouses", &[], "?resultsPerPage=200")).await["data"][0]["Id"].clone();
    let supplier = witness.ok(get("GET /api/Suppliers", &[], "?pageNumber=1")).await["data"][0]["Id"].clone();
    let body = json!({
        "Sku": "OPEN-1", "Name": "Opened", "Type": "Product", "Identifiers": { "UPC": "40063" },
        "GlobalListingAttributes": { "Price": 9.5, "Condition": "Used" },
        "Images": [{ "MIMEType": "image/png", "Url": "https://i.example/1.png", "DisplayOrder": 1 }],
        "Warehouses": [{ "WarehouseId": warehouse, "QuantityOnHand": 9, "Bin": "B7" }],
        "SupplierInformation": { "SupplierId": supplier, "Sku": "S-1", "Price": 4 },
    });
    let mut product = witness.ok(call(CREATE_PRODUCT, Some(body))).await["data"]["Product"].take();
    product["Name"] = json!("Opened again");
    witness.ok(call(UPDATE_PRODUCT, Some(product.clone()))).await;
    product["IsVariation"] = json!(true);
    product["IsParent"] = json!(true);
    let refused = witness.ok(call(UPDATE_PRODUCT, Some(product))).await;
    assert_eq!(refused["data"]["WasSuccessful"], false);
    let right = json!({ "Sku": "OPEN-1", "Quantity": 5, "WarehouseId": warehouse });
    let wrong = json!({ "Sku": "NONE", "Quantity": 5, "WarehouseId": warehouse });
    for (entries, status) in
        [(json!([wrong]), "Failure"), (json!([right, wrong]), "Partial Success"), (json!([right]), "Success")]
    {
        assert_eq!(witness.ok(call(UPDATE_QUANTITY, Some(entries))).await["status"], status);
    }
    let other = json!({ "idType": "asin", "idList": [] });
    assert_eq!(witness.sent(&call(GET_PRODUCTS, Some(other))).await.1["status"], "Error");
    witness.ok(call(GET_PRODUCTS, Some(json!({ "idType": "upc", "idList": ["40063"] })))).await;
    witness
        .ok(call("POST /api/product/getProductBalances", Some(json!({ "skus": ["OPEN-1", "NONE"] }))))
        .await;
    let kit = json!({ "Sku": "KIT-1", "Name": "Kit", "Components": [{ "Sku": "OPEN-1", "Quantity": 2 }] });
    let kit = witness.control("/_sandbox/kits", &kit).await;
    witness.ok(get("GET /api/Inventory/{productid}/kitcomponents", &[&kit["ProductId"]], "")).await;
}

/// Calls for an order, its shipment and its tracking, with refusals inside a 200.
async fn orders_and_shipments(witness: &mut Witness) {
    let order = json!({ "Lines": [{ "Sku": "KIT-1", "Quantity": 1 }, { "Sku": "OPEN-1", "Quantity": 2 }] });
    let order = witness.control("/_sandbox/orders", &order).await["OrderId"].take();
    let lookup = call("POST /api/orders/getOrderLineItems", Some(json!({ "OrderId": order })));
    let line = witness.ok(lookup).await["data"][0]["OrderLineItemId"].clone();
    let allocation = "GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation";
    witness.ok(get(allocation, &[&order, &line], "")).await;
    assert_eq!(witness.sent(&get(allocation, &[&json!(1), &line], "")).await.0, 404);
    let request =
        json!([{ "OrderId": order, "LineItems": [{ "LineItemId": line, "Quantity": 1 }] }, { "OrderId": 1 }]);
    let created = witness.ok(call("POST /api/Shipments/Create", Some(request))).await;
    let shipment = &created["data"][0]["Shipment"];
    let request = json!([
        { "ShipmentId": shipment["Id"], "CarrierId": 2, "TrackingNumber": "T-1", "ShippedDate": "2026-10-15",
          "LineItems": [{ "LineItemId": shipment["Items"][0]["Id"], "EstimatedDeliveryDate": "2026-10-17T09:00:00" }] },
        { "ShipmentId": 1, "TrackingNumber": "T-2" },
    ]);
    witness.ok(call("POST /api/Shipments/submitTrackingInfo", Some(request))).await;
    witness
        .ok(get("GET /api/Shipments/{shipmentid}/LineItems", &[&shipment["Id"]], "?resultsPerPage=1"))
        .await;
}

/// Calls for the other lists and the reports, with both 200s of a new template.
async fn lists_and_reports(witness: &mut Witness) {
    let body = json!({ "Name": "Annex", "Type": "Dropship", "ContactInformation": { "Address": { "City": "Bath" } } });
    witness.ok(call("POST /api/Warehouses", Some(body))).await;
    let storefront = witness.ok(get("GET /api/storefronts", &[], "")).await["data"][0]["Id"].clone();
    for (body, was_successful) in
        [(json!({ "Name": "n" }), false), (json!({ "Name": "n", "Body": "b" }), true)]
    {
        let create = Call { body: Some(body), ..get(CREATE_TEMPLATE, &[&storefront], "") };
        assert_eq!(witness.ok(create).await["WasSuccessful"], was_successful);
    }
    let list = "GET /api/storefronts/{storefrontid}/listingTemplates";
    witness.ok(get(list, &[&storefront], "?name=N&pageNumber=1&resultsPerPage=25")).await;
    assert_eq!(witness.sent(&get(list, &[&json!(1)], "")).await.0, 403);
    let best = witness.ok(get("GET /api/Inventory/TopSelling", &[], "?year=2026&month=9")).await;
    assert_eq!(best["data"].as_array().unwrap().len(), 10);
    witness.ok(get("GET /api/Company/BusinessHealth", &[], "?year=2026")).await;
    witness.ok(get("GET /api/Company/WorkQueue", &[], "")).await;
}

/// Provokes each operation's answers to wrong calls, and its own failures.
async fn refusals(witness: &mut Witness) {
    let promised = witness.interface.promised();
    let promises = |name: &str, status| promised.contains(&(name.to_owned(), status));
    for call in witness.good.clone().into_values() {
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default().into_bytes();
        let unknown = if call.name == UPDATE_QUANTITY { 400 } else { 403 };
        assert_eq!(witness.send(&call, "unknown", JSON, body.clone()).await.0, unknown, "{}", call.name);
        if call.body.is_some() {
            let text = Call { body: Some(json!("neither object nor list")), ..call.clone() };
            assert_eq!(witness.sent(&text).await.0, 400, "{}", call.name);
            assert_eq!(
                witness.send(&call, INTEGRATION_KEY, "text/plain", body).await.0,
                415,
                "{}",
                call.name
            );
            let large = vec![b' '; 9 * 1024 * 1024];
            assert_eq!(witness.send(&call, INTEGRATION_KEY, JSON, large).await.0, 413, "{}", call.name);
        } else if promises(call.name, 400) {
            let (path, _) = call.target.split_once('?').unwrap_or((&call.target, ""));
            let target = format!("{path}?pageNumber=0&month=13");
            assert_eq!(witness.sent(&Call { target, ..call.clone() }).await.0, 400, "{}", call.name);
        }
        if promises(call.name, 500) {
            let fault = json!({ "Operation": call.name, "Status": 500, "Times": 1 });
            witness.control("/_sandbox/faults", &fault).await;
            assert_eq!(witness.sent(&call).await.0, 500, "{}", call.name);
        }
    }
}

/// Calls each operation beyond the limit of `options`, which one bad request has reached.
async fn beyond_a_limit(
    options: SandboxOptions,
    good: &BTreeMap<&'static str, Call>,
    status: u16,
) -> BTreeSet<(String, u16)> {
    let mut witness = Witness::over(options).await;
    let nonsense = Call { body: Some(json!(0)), ..good[UPDATE_QUANTITY].clone() };
    witness.sent(&nonsense).await;
    for call in good.values() {
        assert_eq!(witness.sent(call).await.0, status, "{}", call.name);
    }
    witness.seen
}

#[tokio::test]
async fn the_file_describes_every_answer_and_promises_none_that_never_comes() {
    let unlimited =
        SandboxOptions { calls_per_minute: 0, bad_requests_per_day: 0, ..SandboxOptions::default() };
    let mut witness = Witness::over(unlimited.clone()).await;
    products_and_stock(&mut witness).await;
    orders_and_shipments(&mut witness).await;
    lists_and_reports(&mut witness).await;
    assert_eq!(witness.good.len(), 20, "every operation was called");
    refusals(&mut witness).await;
    let rate = SandboxOptions { calls_per_minute: 1, ..unlimited.clone() };
    witness.seen.extend(beyond_a_limit(rate, &witness.good, 429).await);
    let bad_requests = SandboxOptions { bad_requests_per_day: 1, ..unlimited };
    witness.seen.extend(beyond_a_limit(bad_requests, &witness.good, 403).await);
    let never: Vec<_> = witness.interface.promised().difference(&witness.seen).cloned().collect();
    assert!(never.is_empty(), "promised, but not provoked: {never:?}");
}

/// Status, headers and body of an answer, and its number of violations.
type Planted<'a> = (u16, &'a [(&'a str, &'a str)], String, usize);

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response<Bytes> {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(Bytes::from(body.to_owned())).unwrap()
}

#[test]
fn planted_violations_are_found() {
    let interface = Interface::read();
    let page = r#""pagination":{"CurrentPage":1,"TotalNumberOfEntries":0,"TotalNumberOfPages":0}"#;
    let supplier = r#""Id":7,"Name":"N","AccountNumber":"","IsActive":true"#;
    let list = |record: &str| format!(r#"{{"status":"Success","messages":[],{page},"data":[{{{record}}}]}}"#);
    let (good, unknown) =
        (format!(r#"{supplier},"SupplierUrl":"""#), format!(r#"{supplier},"SupplierUrl":"","New":1"#));
    let json = ("content-type", "application/json; charset=utf-8");
    let (error, wait) = (r#"{"Message":"no"}"#.to_owned(), ("retry-after", "7"));
    let throttled = r#"{"Message":"no","statusCode":429,"message":"no"}"#.to_owned();
    let cases: [Planted<'_>; 13] = [
        (200, &[json], list(&good), 0),
        (429, &[json, wait], throttled.clone(), 0),
        (429, &[json, wait], error.clone(), 1),
        (200, &[json], list(supplier), 1),
        (200, &[json], list(&unknown), 1),
        (200, &[json], list(&good.replace(":7", ":7.5")), 1),
        (200, &[json], list(&good).replace(page, r#""pagination":null"#), 1),
        (200, &[json], list(&good).replace(r#""messages""#, r#""Extra":0,"messages""#), 1),
        (200, &[], list(&good), 1),
        (200, &[json], "<html>".to_owned(), 1),
        (429, &[json, ("retry-after", "soon")], throttled, 1),
        (403, &[json], r#"{"Message":"no","Code":4}"#.to_owned(), 1),
        (418, &[json], error, 1),
    ];
    for (status, headers, body, violations) in cases {
        let found = interface.judge("GET /api/Suppliers", &answer(status, headers, &body));
        assert_eq!(found.len(), violations, "{status} {headers:?} {body}: {found:?}");
    }
    assert_eq!(interface.judge("GET /api/Carriers", &answer(200, &[json], "{}")).len(), 1);
    assert_eq!(interface.judge_request(CREATE_PRODUCT, Some(&json!({ "Sku": "A" }))).len(), 1);
    assert_eq!(interface.judge_request(UPDATE_QUANTITY, None).len(), 1);
}

#[test]
fn records_met_inside_other_records_are_closed_too() {
    let interface = Interface::read();
    let violations = |name: &str, record: Value| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        interface.violations(&schema, &record).join("; ")
    };
    let address = json!({ "Id": 1, "Street1": "", "Street2": "", "Street3": "", "City": "", "State": "", "Country": "",
        "ZipCode": "", "UrbanizationCode": "", "IsResidential": false, "Floor": 3 });
    let contact = json!({ "Id": 1, "CompanyName": "", "FullName": "", "FirstName": "", "LastName": "", "EmailAddress": "",
        "BusinessPhone": "", "MobilePhone": "", "FaxNumber": "", "AddressId": 1, "Address": address });
    let found = violations("Contact", contact);
    assert!(found.contains("Floor") && !found.contains(';'), "{found}");
    assert!(
        violations(
            "Storefront",
            json!({ "Id": 1, "Name": "", "IsActive": true, "Type": "",
        "StorefrontProperties": { "anything": [1] } })
        )
        .is_empty(),
        "what the document calls free-form stays open"
    );
    assert!(!violations("WarehouseInput", json!({ "Name": "N", "Colour": "red" })).is_empty());
    assert!(violations("ProductInput", json!({ "Sku": "A", "Name": "N", "Colour": "red" })).is_empty());
}
