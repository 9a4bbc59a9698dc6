//! Request, response, and the trait between the client and the network.
//!
//! A [`PlatformRequest`] contains no key, because it is stored in the journal and read by a replay. The
//! transport adds the keys last. A [`TransportError`] states if a byte of the request can have left, which
//! decides about a write.

mod checked_body;
mod http;
mod mask;
mod receiver;
mod reply;
mod setup;

pub(crate) use checked_body::SendCheck;
pub use http::HttpTransport;
pub(crate) use receiver::{ReceiverClient, mask_account_keys, receiver_host};
pub(crate) use reply::CallReply;
pub use setup::{AccountKeys, HttpSettings};
pub(crate) use setup::{HeaderNames, SetupError, is_proxy_url, parse_base_url};

use crate::model::Operation;
use serde::Serialize;
use std::fmt;
use std::future::ready;
use std::pin::Pin;

pub type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<PlatformResponse, TransportError>> + Send + 'a>>;

/// Carries one request to the platform once, without retry or redirect.
pub trait Transport: Send + Sync + 'static {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_>;

    /// Sends the request as [`Transport::send`] does, unless its check fails. A transport with a wire repeats the
    /// check as late as it can.
    fn send_checked(&self, request: PlatformRequest, check: SendCheck) -> SendFuture<'_> {
        match check() {
            Ok(()) => self.send(request),
            Err(why) => Box::pin(ready(Err(TransportError::without_answer(FailureKind::Unsent, why)))),
        }
    }
}

/// A call, complete except for address and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformRequest {
    pub operation: Operation,
    /// Path from `/api` on, with its ids filled in, percent-encoded.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
}

impl PlatformRequest {
    pub(super) fn new(operation: Operation) -> Self {
        Self { operation, path: operation.path().to_owned(), query: Vec::new(), body: None }
    }

    /// Creates a call with ids in its path, given in the order of the
    /// placeholders. Whole numbers need no encoding.
    pub(super) fn with_ids(operation: Operation, ids: &[i64]) -> Self {
        let mut request = Self::new(operation);
        for id in ids {
            if let (Some(open), Some(close)) = (request.path.find('{'), request.path.find('}')) {
                request.path.replace_range(open..=close, &id.to_string());
            }
        }
        request
    }

    /// Returns path and query for the journal and `tallyd plan`, with the query's values not encoded.
    pub fn target(&self) -> String {
        let query: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) }
    }

    pub(super) fn with_query(mut self, name: &str, value: Option<impl fmt::Display>) -> Self {
        self.query.extend(value.map(|value| (name.to_owned(), value.to_string())));
        self
    }

    pub(super) fn with_json(mut self, body: &impl Serialize) -> Self {
        let bytes =
            serde_json::to_vec(body).expect("bodies are texts, numbers, lists and objects with text keys");
        self.body = Some(bytes);
        self
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformResponse {
    pub status: u16,
    pub retry_after: Option<String>,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Failed before a byte of the request left: build, name resolution, connection or TLS handshake. After any other
    /// failure the request may have been carried out.
    Unsent,
    Timeout,
    Cut,
    TooLarge,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TransportError {
    pub kind: FailureKind,
    /// The failure with all its causes, without address and keys.
    pub what: String,
    /// The HTTP status, if the head came but the body did not.
    pub status: Option<u16>,
    pub retry_after: Option<String>,
}

impl TransportError {
    pub(super) fn without_answer(kind: FailureKind, what: String) -> Self {
        Self { kind, what, status: None, retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_fill_the_placeholders_in_their_order() {
        let request = PlatformRequest::with_ids(Operation::WarehouseAllocation, &[7, 9_007_199_254_740_993]);
        assert_eq!(request.path, "/api/orders/7/lineitems/9007199254740993/warehouseallocation");
    }

    #[test]
    fn a_parameter_without_a_value_is_not_sent() {
        let request = PlatformRequest::new(Operation::TopSelling)
            .with_query("year", Some(2026))
            .with_query("month", None::<i64>);
        assert_eq!(request.query, [("year".to_owned(), "2026".to_owned())]);
    }
}
