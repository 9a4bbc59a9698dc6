//! Reads the golden exchanges of `tests/contract/`: requests and answers of the service, written down once for both sides.
//!
//! Each file holds the exchanges of one heading of the interface's document. An exchange has
//!
//! - `title`, its name in the tests, and `heading`, the place in the document it follows from;
//! - `request`: `method`, `path`, `query` (as it stands in the address, percent-encoded), `body`; `headers` only where
//!   they differ from those of shop.json (null: not sent). `content-type: application/json` goes with every body;
//! - `response`: `status`, `body`, and `retry_after` where that header is sent; it is not sent where none is written;
//! - `setup`: calls that bring the shop of shop.json into the state the exchange starts from. They are for whoever plays
//!   the service; who plays the client does not look at them;
//! - `stand_ins`: see below.
//!
//! Numbers and texts that the service gives (ids, keys) are written down as *stand-ins*, listed with what each stands
//! for. Who plays the client takes them as they stand. Who plays the service may give others: the same stand-in must
//! then always stand for the same value, different ones for different values. Everything else is exact, apart from the
//! order of the fields in an object.

#![allow(dead_code, reason = "each of the two tests reads its own part of an exchange")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a file that cannot be read fails the test")]

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One request and its answer.
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
    /// By lower-case name; null takes one of the shop's away.
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

/// A call of the setup; must be answered 200, unless it is repeated to reach a limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) request: Request,
    /// The part of the answer's body that matters: it gives stand-ins their values.
    pub(crate) answer: Option<Value>,
    /// How often it is sent, whatever the answers.
    pub(crate) times: Option<usize>,
    /// How many of it are sent and have no answer yet when the exchange starts.
    pub(crate) in_flight: Option<usize>,
}

/// The shop all exchanges happen in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shop {
    /// What the shop is, for readers.
    about: Vec<String>,
    /// The time of all exchanges, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// The keys that are not given by the service but set up with it.
    pub(crate) default_key: String,
    pub(crate) gateway_key: String,
    /// What every request carries.
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
    /// Path and query, as they stand in the request's first line.
    pub(crate) fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    /// All headers that are sent, by lower-case name.
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

/// The shop of the exchanges.
pub(crate) fn shop() -> Shop {
    read(folder().join("shop.json"))
}

/// All exchanges, file by file.
pub(crate) fn exchanges() -> Vec<Exchange> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| !path.ends_with("shop.json")).collect();
    files.sort();
    files.into_iter().flat_map(|path| read::<File>(path).exchanges).collect()
}
