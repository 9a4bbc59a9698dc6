//! A sandbox in the process, equal for every input: created once as a file, copied for each.
//!
//! It has no limits, so that an answer depends on the request alone; the clock stands.

use crate::sandbox::{SandboxAnswer, SandboxClock, SandboxCore, SandboxOptions};
use axum::body::Bytes;
use axum::http::{Request, Response};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const INTEGRATION_KEY: &str = "integration-key-of-the-tests";
const GATEWAY_KEY: &str = "gateway-key-of-the-tests";
const NOW_MS: i64 = 1_792_065_600_000; // 2026-10-15T12:00:00Z

/// The known state of every new account.
pub(crate) struct Known {
    folder: TempDir,
    pub(crate) warehouses: Vec<i64>,
    pub(crate) supplier: i64,
    pub(crate) storefront: i64,
    /// A product as the platform returns it, which is also the form of an update.
    pub(crate) product: Value,
    pub(crate) order: i64,
    pub(crate) line: i64,
    pub(crate) shipment: i64,
    pub(crate) item: i64,
}

/// An account, removed when it is dropped.
pub(crate) struct Shop {
    pub(crate) core: SandboxCore,
    file: PathBuf,
}

thread_local! {
    static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Returns the account that all others are copies of.
pub(crate) fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| block_on(make()))
}

fn options(file: PathBuf) -> SandboxOptions {
    SandboxOptions {
        integration_key: Some(INTEGRATION_KEY.into()),
        gateway_key: Some(GATEWAY_KEY.into()),
        data: Some(file),
        skus: 10,
        orders: 4,
        calls_per_minute: 0,
        concurrency: 0,
        bad_requests_per_day: 0,
        ..SandboxOptions::default()
    }
}

async fn make() -> Known {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first.db");
    let shop = Shop {
        core: SandboxCore::open(&options(file.clone()), SandboxClock::from_source(|| NOW_MS)).await.unwrap(),
        file,
    };
    let list = async |path: &str| shop.ok("GET", path, Value::Null).await["data"].take();
    let houses = list("/api/Warehouses").await;
    let warehouses: Vec<i64> = houses.as_array().unwrap().iter().map(id).collect();
    let (supplier, storefront) =
        (id(&list("/api/Suppliers").await[0]), id(&list("/api/storefronts").await[0]));
    let links: Vec<Value> =
        warehouses.iter().map(|id| json!({"WarehouseId": id, "QuantityOnHand": 40, "Bin": "B7"})).collect();
    let body = json!({"Sku": "FUZZ-1", "Name": "Fuzzed", "Warehouses": links, "Identifiers": {"UPC": "40063"},
        "GlobalListingAttributes": {"Price": 9.5, "Condition": "Used"}, "SupplierInformation": {"SupplierId": supplier},
        "Images": [{"MIMEType": "image/png", "Url": "https://i.example/1.png", "DisplayOrder": 1}]});
    let product = shop.ok("POST", "/api/Inventory", body).await["data"]["Product"].take();
    let order = shop.core.place_order(&[("FUZZ-1", 5)]).await.unwrap();
    let lines =
        shop.ok("POST", "/api/orders/getOrderLineItems", json!({"OrderId": order})).await["data"].take();
    let line = lines[0]["OrderLineItemId"].as_i64().unwrap();
    let request = json!([{"OrderId": order, "LineItems": [{"LineItemId": line, "Quantity": 2}]}]);
    let made = shop.ok("POST", "/api/Shipments/Create", request).await["data"][0]["Shipment"].take();
    let (shipment, item) = (id(&made), id(&made["Items"][0]));
    copy(&shop.file, &folder.path().join("shop.db"));
    Known { folder, warehouses, supplier, storefront, product, order, line, shipment, item }
}

/// Copies the database and its log; no connection writes meanwhile.
fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::copy(log(from), log(to)).unwrap();
}

fn log(database: &Path) -> PathBuf {
    database.with_extension("db-wal")
}

fn id(record: &Value) -> i64 {
    record["Id"].as_i64().unwrap()
}

impl Shop {
    /// Opens a copy of the first account.
    pub(crate) async fn open() -> Self {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let known = known();
        let file = known.folder.path().join(format!("{}.db", COPIES.fetch_add(1, Ordering::Relaxed)));
        copy(&known.folder.path().join("shop.db"), &file);
        Self {
            core: SandboxCore::open(&options(file.clone()), SandboxClock::from_source(|| NOW_MS))
                .await
                .unwrap(),
            file,
        }
    }

    /// Sends a call with the right keys.
    pub(crate) async fn call(&self, method: &str, target: &str, body: Vec<u8>) -> Option<Response<Bytes>> {
        let request =
            Request::builder().method(method).uri(target).header("content-type", "application/json");
        let request = request
            .header("svc-subscription-key", INTEGRATION_KEY)
            .header("gateway-subscription-key", GATEWAY_KEY);
        // Text that is no valid request cannot be sent.
        let request = request.body(Bytes::from(body)).ok()?;
        match self.core.handle_request(request).await {
            SandboxAnswer::Full(response) => Some(response),
            odd => panic!("{method} {target}: {odd:?}"),
        }
    }

    /// Sends a call and asserts an answer of 200.
    pub(crate) async fn ok(&self, method: &str, target: &str, body: Value) -> Value {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = self.call(method, target, body).await.unwrap();
        assert_eq!(answer.status(), 200, "{method} {target}: {:?}", answer.body());
        serde_json::from_slice(answer.body()).unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        for file in [&self.file, &log(&self.file)] {
            let _gone = std::fs::remove_file(file);
        }
    }
}
