//! What goes to the service, what comes back, and the seam between the client and the wire.
//!
//! A [`Request`] carries no key: it is what the journal keeps and what a replay reads. Keys are added by the transport
//! at the last moment. A [`TransportError`] says the one thing that decides about a write: whether a byte of the
//! request can have left.

use crate::model::Operation;
use serde::Serialize;
use std::fmt;
use std::pin::Pin;

/// The future of one call.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response, TransportError>> + Send + 'a>>;

/// Carries one request to the service, once: no repetition, no redirect.
pub trait Transport: Send + Sync + 'static {
    /// Sends the request and reads the whole answer.
    fn send(&self, request: Request) -> Sending<'_>;
}

/// One call, complete but for address and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which of the service's operations; it fixes the method.
    pub operation: Operation,
    /// The path with its ids filled in, from `/api` on, percent-encoded.
    pub path: String,
    /// Query parameters in order, not yet encoded.
    pub query: Vec<(String, String)>,
    /// The JSON body, for operations that have one.
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// A call of an operation whose path carries no id.
    pub(super) fn new(operation: Operation) -> Self {
        Self { operation, path: operation.path().to_owned(), query: Vec::new(), body: None }
    }

    /// A call of an operation whose path carries ids, given in the order of its placeholders. Ids are whole
    /// numbers, whose digits need no encoding.
    pub(super) fn at(operation: Operation, ids: &[i64]) -> Self {
        let mut request = Self::new(operation);
        for id in ids {
            if let (Some(open), Some(close)) = (request.path.find('{'), request.path.find('}')) {
                request.path.replace_range(open..=close, &id.to_string());
            }
        }
        request
    }

    /// Path and query as the journal and `tallyd plan` show them, the query's values not encoded.
    pub fn target(&self) -> String {
        let query: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) }
    }

    /// With one more query parameter, if it has a value.
    pub(super) fn with(mut self, name: &str, value: Option<impl fmt::Display>) -> Self {
        self.query.extend(value.map(|value| (name.to_owned(), value.to_string())));
        self
    }

    /// With a JSON body.
    pub(super) fn json(mut self, body: &impl Serialize) -> Self {
        let bytes =
            serde_json::to_vec(body).expect("bodies are texts, numbers, lists and objects with text keys");
        self.body = Some(bytes);
        self
    }
}

/// An answer whose head and body came whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header as it was sent.
    pub retry_after: Option<String>,
    /// The `Content-Type` header as it was sent.
    pub content_type: Option<String>,
    /// The body, unpacked.
    pub body: Vec<u8>,
}

/// Whether the service can have seen the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It failed before any byte of it left: name resolution, connection, TLS handshake.
    No,
    /// Some of it may have left, so it may have been carried out.
    Maybe,
}

/// What kind of failure kept the answer from coming whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The time for the whole call was over.
    Timeout,
    /// No connection came about.
    Connect,
    /// The connection ended before the answer was whole.
    Cut,
    /// The answer was larger than we take.
    TooLarge,
    /// Anything else, for instance a request that could not be built.
    Other,
}

/// No whole answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TransportError {
    /// Whether the service can have seen the request.
    pub sent: Sent,
    /// What kind of failure.
    pub kind: FailureKind,
    /// The failure with all its causes; names no address and no key.
    pub what: String,
    /// The HTTP status, where the head came and only the body did not.
    pub status: Option<u16>,
    /// The `Retry-After` header of that head.
    pub retry_after: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_fill_the_placeholders_in_their_order() {
        let request = Request::at(Operation::WarehouseAllocation, &[7, 9_007_199_254_740_993]);
        assert_eq!(request.path, "/api/orders/7/lineitems/9007199254740993/warehouseallocation");
    }

    #[test]
    fn a_parameter_without_a_value_is_not_sent() {
        let request = Request::new(Operation::TopSelling).with("year", Some(2026)).with("month", None::<i64>);
        assert_eq!(request.query, [("year".to_owned(), "2026".to_owned())]);
    }
}
