//! The transport over HTTP/1.1 with `reqwest`: one request of ours is one request at the service.
//!
//! Redirects are not followed (they would be calls outside the quota, and a redirected POST may be done twice), nothing
//! is repeated, and an answer is taken up to a limit. Below us the connection pool may move a request to a fresh
//! connection, but only one of which no byte was written, so that the service never sees it twice.
//!
//! The keys are held here and nowhere else; they can be replaced while calls are in flight and are marked sensitive, so
//! that no debug output shows them. An answer that quotes one is masked before anybody sees it.

use super::http_setup::{
    HttpSettings, JSON, Keys, SetupError, build_client, chain, header_name, key_values, parse_base_url,
};
use super::mask::mask;
use super::transport::{FailureKind, Request, Response, Sending, Sent, Transport, TransportError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Url};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Semaphore;

/// Sends requests to the service over HTTP.
pub struct HttpTransport {
    client: Client,
    base_url: Url,
    names: [HeaderName; 2],
    keys: RwLock<[HeaderValue; 2]>,
    answer_limit_bytes: usize,
    /// Held by the one answer that is read on beyond [`LARGE_BYTES`].
    large: Arc<Semaphore>,
}

/// Answers beyond this size are taken one after the other: eleven kinds of jobs may be reading, and a page of the largest
/// size that is asked for stays below it.
const LARGE_BYTES: usize = 4 * 1024 * 1024;

impl HttpTransport {
    /// Makes the transport; reads `ca_file`, opens no connection.
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

    /// The same way to the service, over the same connections, with other keys.
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

    /// Uses the other's keys from the next call on; calls in flight keep theirs.
    pub fn take_keys(&self, other: &Self) {
        let keys = other.key_values();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Whether both send the same keys.
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
        // Room for the whole of a usual answer at once: a page is copied once, not each time it has grown to twice the size.
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
                // The call's own time runs on meanwhile. Nobody closes the semaphore.
                turn = self.large.acquire().await.ok();
                // At once: grown step by step it would stand in memory twice.
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
