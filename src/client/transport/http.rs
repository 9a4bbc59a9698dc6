//! HTTP/1.1 transport with `reqwest`: each request reaches the platform at most once.
//!
//! Redirects are not followed, because they would be calls outside the quota and could repeat a POST. No
//! request is retried, and an answer is read up to a limit. The connection pool may move a request to a new
//! connection, but only if no byte was written to the old one. The platform never sees a request twice.
//!
//! Only this transport holds the keys. They can be replaced while calls are in flight. They are marked
//! sensitive, so that no debug output shows them. A key quoted in an answer is masked before the answer is
//! returned.

use super::mask::mask;
use super::setup::{
    HttpSettings, JSON, Keys, SetupError, build_client, chain, header_name, key_values, parse_base_url,
};
use super::{FailureKind, Request, Response, Sending, Sent, Transport, TransportError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Url};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Semaphore;

/// Sends requests to the platform over HTTP.
pub struct HttpTransport {
    client: Client,
    base_url: Url,
    names: [HeaderName; 2],
    keys: RwLock<[HeaderValue; 2]>,
    answer_limit_bytes: usize,
    /// Held while an answer is read beyond [`LARGE_BYTES`].
    large: Arc<Semaphore>,
}

/// Size above which answers are read one at a time.
///
/// It bounds memory while several jobs read. A page of the largest size asked for is smaller.
const LARGE_BYTES: usize = 4 * 1024 * 1024;

impl HttpTransport {
    /// Creates the transport. Reads `ca_file` and opens no connection.
    pub fn new(settings: &HttpSettings, keys: &Keys) -> Result<Self, SetupError> {
        let base_url = parse_base_url(&settings.base_url)?;
        let headers = &settings.headers;
        Ok(Self {
            client: build_client(settings, &base_url)?,
            base_url,
            names: [
                header_name("service.headers.integration_key", &headers.integration_key)?,
                header_name("service.headers.gateway_key", &headers.gateway_key)?,
            ],
            keys: RwLock::new(key_values(keys)?),
            answer_limit_bytes: settings.answer_limit_bytes,
            large: Arc::new(Semaphore::new(1)),
        })
    }

    /// Returns a transport with other keys over the same connections.
    pub fn with_keys(&self, keys: &Keys) -> Result<Self, SetupError> {
        Ok(Self {
            client: self.client.clone(),
            base_url: self.base_url.clone(),
            names: self.names.clone(),
            keys: RwLock::new(key_values(keys)?),
            answer_limit_bytes: self.answer_limit_bytes,
            large: Arc::clone(&self.large),
        })
    }

    /// Uses the keys of `other` from the next call on. Calls in flight keep their keys.
    pub fn take_keys(&self, other: &Self) {
        let keys = other.key_values();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Returns true if both transports send the same keys.
    pub fn has_keys_of(&self, other: &Self) -> bool {
        self.key_values() == other.key_values()
    }

    fn key_values(&self) -> [HeaderValue; 2] {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn exchange(&self, request: Request) -> Result<Response, TransportError> {
        let keys = self.key_values();
        let request = self.build(request, &keys).map_err(|error| unsent(&error))?;
        let mut answer = self.client.execute(request).await.map_err(|error| before_head(&error))?;
        // Allocates for the whole of a usual answer, so that its body is copied once.
        let room = answer.content_length().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut response = Response {
            status: answer.status().as_u16(),
            retry_after: text(answer.headers(), &RETRY_AFTER),
            content_type: text(answer.headers(), &CONTENT_TYPE),
            body: Vec::with_capacity(room.min(LARGE_BYTES)),
        };
        if room > self.answer_limit_bytes {
            return Err(self.too_large(&response));
        }
        let mut turn = None;
        while let Some(chunk) = answer.chunk().await.map_err(|error| after_head(&response, &error))? {
            if response.body.len() + chunk.len() > self.answer_limit_bytes {
                return Err(self.too_large(&response));
            }
            if turn.is_none() && response.body.len() + chunk.len() > LARGE_BYTES {
                // The timeout of the call includes this wait. The semaphore is never closed.
                turn = self.large.acquire().await.ok();
                // One allocation: growing step by step would hold the body twice in memory.
                response.body.reserve_exact(self.answer_limit_bytes.saturating_sub(response.body.len()));
            }
            response.body.extend_from_slice(&chunk);
        }
        mask(&mut response.body, &keys);
        Ok(response)
    }

    fn too_large(&self, head: &Response) -> TransportError {
        let what = format!("the answer is larger than {} bytes", self.answer_limit_bytes);
        cut(head, FailureKind::TooLarge, what)
    }

    fn build(&self, request: Request, keys: &[HeaderValue; 2]) -> reqwest::Result<reqwest::Request> {
        let method = match request.operation.method() {
            "GET" => Method::GET,
            "PUT" => Method::PUT,
            _ => Method::POST,
        };
        let mut builder = self.client.request(method, self.address(&request));
        for (name, key) in self.names.iter().zip(keys) {
            builder = builder.header(name, key);
        }
        if let Some(body) = request.body {
            builder = builder.header(CONTENT_TYPE, JSON).body(body);
        }
        builder.build()
    }

    fn address(&self, request: &Request) -> Url {
        let mut url = self.base_url.clone();
        url.set_path(&format!("{}{}", url.path().trim_end_matches('/'), request.path));
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        url
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: Request) -> Sending<'_> {
        Box::pin(self.exchange(request))
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn unsent(error: &reqwest::Error) -> TransportError {
    let what = format!("the request could not be built: {}", chain(error));
    TransportError { sent: Sent::No, kind: FailureKind::Other, what, status: None, retry_after: None }
}

fn before_head(error: &reqwest::Error) -> TransportError {
    let (sent, kind) = match (error.is_connect(), error.is_timeout()) {
        (true, _) => (Sent::No, FailureKind::Connect),
        (false, true) => (Sent::Maybe, FailureKind::Timeout),
        (false, false) => (Sent::Maybe, FailureKind::Cut),
    };
    TransportError { sent, kind, what: chain(error), status: None, retry_after: None }
}

fn after_head(head: &Response, error: &reqwest::Error) -> TransportError {
    let kind = if error.is_timeout() { FailureKind::Timeout } else { FailureKind::Cut };
    cut(head, kind, format!("the answer ended early after {} bytes: {}", head.body.len(), chain(error)))
}

fn cut(head: &Response, kind: FailureKind, what: String) -> TransportError {
    let retry_after = head.retry_after.clone();
    TransportError { sent: Sent::Maybe, kind, what, status: Some(head.status), retry_after }
}
