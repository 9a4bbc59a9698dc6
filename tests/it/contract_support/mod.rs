//! Reader of the golden exchanges of `tests/contract/`: requests and answers of the platform, stored once for
//! both sides.
//!
//! Each file holds the exchanges of one section of docs/interface.md. An exchange has
//!
//! - `title`, its name in the tests, and `heading`, the section of the document that it follows from;
//! - `request`: `method`, `path`, `query` (percent-encoded, as in the address), `body`; `headers` only where
//!   they differ from those of shop.json (null: not sent). Every body is sent with `content-type:
//!   application/json`;
//! - `response`: `status`, `body`, and `retry_after` where that header is sent; otherwise the header is not
//!   sent;
//! - `setup`: calls that bring the account of shop.json into the state that the exchange starts from. Only
//!   tests of the platform's side use them;
//! - `stand_ins`: see below.
//!
//! Numbers and texts that the platform assigns (ids, keys) are stored as *stand-ins*, listed with their
//! meanings. Tests of the client's side use them as they stand. On the platform's side other values are
//! allowed: equal stand-ins must then stand for equal values, different ones for different values. Everything
//! else is exact, except the order of the fields in an object.

#![allow(dead_code, reason = "each of the two tests reads its own part of an exchange")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a file that cannot be read fails the test")]

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A request and its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exchange {
    pub(crate) title: String,
    pub(crate) heading: String,
    #[serde(default)]
    pub(crate) stand_ins: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) setup: Vec<Step>,
    pub(crate) request: Request,
    pub(crate) response: Response,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) query: String,
    /// Headers by lower-case name; null removes one of the account's.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Option<String>>,
    pub(crate) body: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

/// A call of the setup; it must be answered 200, unless it is repeated to reach a limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) request: Request,
    /// The relevant part of the answer's body, which gives stand-ins their values.
    pub(crate) answer: Option<Value>,
    /// Number of times it is sent, with any answers.
    pub(crate) times: Option<usize>,
    /// Number of these calls that are sent and have no answer yet when the exchange starts.
    pub(crate) in_flight: Option<usize>,
}

/// The account of all exchanges.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shop {
    /// Description of the account, for readers.
    about: Vec<String>,
    /// Time of all exchanges, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// Keys that are set up with the platform and not assigned by it.
    pub(crate) default_key: String,
    pub(crate) gateway_key: String,
    /// Headers of every request.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) stand_ins: BTreeMap<String, String>,
    pub(crate) setup: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    exchanges: Vec<Exchange>,
}

impl Request {
    /// Returns path and query, as they stand in the request's first line.
    pub(crate) fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    /// Returns all headers that are sent, by lower-case name.
    pub(crate) fn all_headers(&self, shop: &Shop) -> BTreeMap<String, String> {
        let mut headers = shop.headers.clone();
        if self.body.is_some() {
            headers.insert("content-type".to_owned(), "application/json".to_owned());
        }
        for (name, value) in &self.headers {
            match value {
                Some(value) => headers.insert(name.clone(), value.clone()),
                None => headers.remove(name),
            };
        }
        headers
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/contract")
}

fn read<T: DeserializeOwned>(path: PathBuf) -> T {
    let text = std::fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

pub(crate) fn shop() -> Shop {
    read(folder().join("shop.json"))
}

pub(crate) fn exchanges() -> Vec<Exchange> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| !path.ends_with("shop.json")).collect();
    files.sort();
    files.into_iter().flat_map(|path| read::<File>(path).exchanges).collect()
}
