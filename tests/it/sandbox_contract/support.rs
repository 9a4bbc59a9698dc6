//! A sandbox, and raw HTTP to call it.

use std::net::SocketAddr;

use crate::sandbox::{Sandbox, SandboxAnswer, SandboxClock, SandboxCore, SandboxOptions, start_sandbox};
use axum::body::Bytes;
use axum::http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const INTEGRATION_KEY: &str = "integration-key-of-the-tests";
pub(crate) const GATEWAY_KEY: &str = "gateway-key-of-the-tests";

pub(crate) const BALANCES: &str = "/api/product/getProductBalances";
pub(crate) const PRODUCTS: &str = "/api/inventory/getProducts";
pub(crate) const UPDATE: &str = "/api/inventory/updateQuantityOnHand";
pub(crate) const INVENTORY: &str = "/api/Inventory";
pub(crate) const ORDER_LINES: &str = "/api/orders/getOrderLineItems";
pub(crate) const CREATE_SHIPMENTS: &str = "/api/Shipments/Create";
pub(crate) const TRACKING: &str = "/api/Shipments/submitTrackingInfo";
pub(crate) const WAREHOUSES: &str = "/api/Warehouses";
pub(crate) const WORK_QUEUE: &str = "/api/Company/WorkQueue";

/// A parsed answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// Asserts an answer of 200; returns its JSON.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Asserts a list envelope of plain success; returns its `data`.
    pub(crate) fn data(&self) -> Value {
        let envelope = self.ok();
        assert_eq!(envelope["status"], "Success", "{envelope}");
        assert_eq!(envelope["messages"], json!([]), "{envelope}");
        envelope["data"].clone()
    }

    /// Asserts an error with this status; returns its `Message`.
    pub(crate) fn message(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        let body = self.json();
        let message = body["Message"].as_str().expect("an error has a Message");
        assert!(!message.is_empty(), "an error says something");
        message.to_owned()
    }
}

/// A running sandbox and the caller's keys.
pub(crate) struct Shop {
    pub(crate) sandbox: Sandbox,
}

/// Returns the options of a test: a free port, known keys.
pub(crate) fn options() -> SandboxOptions {
    SandboxOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        integration_key: Some(INTEGRATION_KEY.to_owned()),
        gateway_key: Some(GATEWAY_KEY.to_owned()),
        skus: 20,
        orders: 16,
        ..SandboxOptions::default()
    }
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(options()).await
    }

    pub(crate) async fn with(options: SandboxOptions) -> Self {
        // The sandbox's log belongs to the output of the test that failed.
        let log = tracing_subscriber::fmt().with_test_writer().with_max_level(tracing::Level::WARN);
        let _already_set = log.try_init();
        Self { sandbox: start_sandbox(options).await.expect("the sandbox starts") }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &keys(), b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &keys(), body.to_string().as_bytes()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &keys(), body.to_string().as_bytes()).await
    }

    /// Sends a GET with another company's key.
    pub(crate) async fn get_as(&self, key: &str, path: &str) -> Reply {
        self.send("GET", path, &keys_of(key), b"").await
    }

    /// Sends a POST with another company's key.
    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &keys_of(key), body.to_string().as_bytes()).await
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let received = self.exchange(method, path, headers, body).await;
        parse(&received).expect("an answer")
    }

    /// Sends a request; returns all bytes until the connection closed.
    pub(crate) async fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        exchange(self.sandbox.local_addr(), method, path, headers, body).await
    }

    /// Sends a call of the control plane and asserts success.
    pub(crate) async fn control(&self, path: &str, body: &Value) -> Value {
        self.send("POST", path, &[], body.to_string().as_bytes()).await.ok()
    }

    /// Creates a company by the control plane; returns its integration key.
    pub(crate) async fn company(&self, fields: Value) -> String {
        let answer = self.control("/_sandbox/companies", &fields).await;
        answer["IntegrationKey"].as_str().expect("a key").to_owned()
    }

    pub(crate) async fn order(&self, lines: Value) -> i64 {
        let answer = self.control("/_sandbox/orders", &json!({ "Lines": lines })).await;
        answer["OrderId"].as_i64().expect("an order id")
    }

    /// Returns a product that is no kit, with its stock levels.
    pub(crate) async fn product(&self, index: usize) -> Value {
        let skus = self.sandbox.all_skus().await.expect("skus");
        self.post(BALANCES, &json!({ "skus": [skus[index]] })).await.ok()[0].clone()
    }
}

/// Sends a request with another `Host` than ours; returns the whole answer.
pub(crate) async fn exchange_as(addr: SocketAddr, host: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.expect("connects");
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("the head is sent");
    let mut received = String::new();
    stream.read_to_string(&mut received).await.expect("an answer");
    received
}

/// Sends a request on a connection of its own; returns all bytes until the connection closed.
pub(crate) async fn exchange(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).await.expect("connects");
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n");
    if !body.is_empty() {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.expect("the head is sent");
    stream.write_all(body).await.expect("the body is sent");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.expect("the answer is read");
    received
}

pub(crate) fn keys() -> Vec<(&'static str, &'static str)> {
    vec![("svc-subscription-key", INTEGRATION_KEY), ("gateway-subscription-key", GATEWAY_KEY)]
}

pub(crate) fn keys_of(key: &str) -> Vec<(&'static str, &str)> {
    vec![("svc-subscription-key", key), ("gateway-subscription-key", GATEWAY_KEY)]
}

/// Returns head and body of an answer; `None` without a complete head.
pub(crate) fn parse(received: &[u8]) -> Option<Reply> {
    let head_end = received.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(received[..head_end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some(Reply { status, headers, body: received[head_end + 4..].to_vec() })
}

/// Asserts that the object has exactly these fields.
pub(crate) fn assert_fields(record: &Value, fields: &[&str]) {
    let mut found: Vec<&str> = record.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = fields.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

pub(crate) fn id(record: &Value, field: &str) -> i64 {
    record[field].as_i64().expect("a whole number")
}

/// Creates a sandbox without sockets, whose clock is Tokio's paused one.
pub(crate) async fn core_on_paused_time(options: &SandboxOptions) -> SandboxCore {
    let started = tokio::time::Instant::now();
    let clock = SandboxClock::from_source(move || {
        1_763_726_400_000 + i64::try_from(started.elapsed().as_millis()).expect("a test ends before that")
    });
    SandboxCore::open(options, clock).await.expect("opens")
}

/// Returns a request for [`Core::handle`].
pub(crate) fn request(path: &str) -> Request<Bytes> {
    Request::get(path)
        .header("svc-subscription-key", INTEGRATION_KEY)
        .header("gateway-subscription-key", GATEWAY_KEY)
        .body(Bytes::new())
        .expect("a request")
}

/// Returns the status of an answer, 0 if there was none.
pub(crate) fn status(answer: &SandboxAnswer) -> u16 {
    match answer {
        SandboxAnswer::Full(response) | SandboxAnswer::Cut { response, .. } => response.status().as_u16(),
        SandboxAnswer::Dropped => 0,
    }
}
