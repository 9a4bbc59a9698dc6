//! HTTP/1.1 transport with `reqwest`: each request reaches the platform at most once.
//!
//! Redirects are not followed, because they would be calls outside the quota and could repeat a POST. No
//! request is retried, and an answer is read up to a limit. The connection pool may move a request to a new
//! connection, but only if no byte was written to the old one. The platform never sees a request twice.
//!
//! Only this transport holds the keys. They can be replaced while calls are in flight. They are marked
//! sensitive, so that no debug output shows them. A key quoted in an answer is masked before the answer is
//! returned.

use super::checked_body::{CheckFailed, CheckedBody, SendCheck};
use super::mask::mask_keys;
use super::setup::{
    AccountKeys, HttpSettings, JSON_MEDIA_TYPE, SetupError, build_client, error_chain, header_name,
    key_values, parse_base_url,
};
use super::{FailureKind, PlatformRequest, PlatformResponse, SendFuture, Transport, TransportError};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Body, Client, Method, Url};
use secrecy::SecretString;
use std::error::Error;
use std::iter::successors;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Semaphore;

pub struct HttpTransport {
    client: Client,
    base_url: Url,
    header_names: [HeaderName; 2],
    keys: RwLock<[HeaderValue; 2]>,
    answer_limit_bytes: usize,
    /// Held while an answer is read beyond [`LARGE_BYTES`].
    large: Arc<Semaphore>,
}

/// Size above which answers are read one at a time, which bounds memory. A page of 1,000 SKUs in ten
/// warehouses is smaller.
const LARGE_BYTES: usize = 1024 * 1024;

impl HttpTransport {
    /// Creates the transport. Reads `ca_file` and opens no connection.
    pub fn new(settings: &HttpSettings, keys: &AccountKeys) -> Result<Self, SetupError> {
        let base_url = parse_base_url(&settings.base_url)
            .map_err(|why| SetupError(format!("service.base_url cannot be used: {why}")))?;
        let headers = &settings.headers;
        Ok(Self {
            client: build_client(settings, &base_url)?,
            base_url,
            header_names: [
                header_name("service.headers.integration_key", &headers.integration_key)?,
                header_name("service.headers.gateway_key", &headers.gateway_key)?,
            ],
            keys: RwLock::new(key_values(keys)?),
            answer_limit_bytes: settings.answer_limit_bytes,
            large: Arc::new(Semaphore::new(1)),
        })
    }

    /// Returns a transport with other keys over the same connections.
    pub(crate) fn with_keys(&self, keys: &AccountKeys) -> Result<Self, SetupError> {
        Ok(Self {
            client: self.client.clone(),
            base_url: self.base_url.clone(),
            header_names: self.header_names.clone(),
            keys: RwLock::new(key_values(keys)?),
            answer_limit_bytes: self.answer_limit_bytes,
            large: Arc::clone(&self.large),
        })
    }

    /// Uses the keys of `other` from the next call on. Calls in flight keep their keys.
    pub(crate) fn use_keys(&self, other: &Self) {
        let keys = other.key_values();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    pub(crate) fn has_keys_of(&self, other: &Self) -> bool {
        self.key_values() == other.key_values()
    }

    /// Returns the integration key in use, which identifies the account.
    pub(crate) fn integration_key(&self) -> Option<SecretString> {
        self.key_values()[0].to_str().ok().map(SecretString::from)
    }

    fn key_values(&self) -> [HeaderValue; 2] {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn send_request(
        &self,
        request: PlatformRequest,
        check: Option<SendCheck>,
    ) -> Result<PlatformResponse, TransportError> {
        if let Some(check) = &check {
            check().map_err(|why| TransportError::without_answer(FailureKind::Unsent, why))?;
        }
        let keys = self.key_values();
        let request = self.build_request(request, &keys, check).map_err(|error| {
            let what = format!("the request could not be built: {}", error_chain(&error));
            TransportError::without_answer(FailureKind::Unsent, what)
        })?;
        let mut answer = self.client.execute(request).await.map_err(|error| error_before_head(&error))?;
        let announced = answer.content_length().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut response = PlatformResponse {
            status: answer.status().as_u16(),
            retry_after: retry_after(answer.headers(), &keys),
            // One allocation for a usual answer: growing step by step would hold it twice in memory.
            body: Vec::with_capacity(announced.unwrap_or(LARGE_BYTES).min(LARGE_BYTES)),
        };
        if announced > Some(self.answer_limit_bytes) {
            return Err(self.too_large_error(&response));
        }
        let mut large_permit = None;
        while let Some(chunk) = answer.chunk().await.map_err(|error| error_after_head(&response, &error))? {
            if response.body.len() + chunk.len() > self.answer_limit_bytes {
                return Err(self.too_large_error(&response));
            }
            if large_permit.is_none() && response.body.len() + chunk.len() > LARGE_BYTES {
                // The timeout of the call includes this wait. The semaphore is never closed.
                large_permit = self.large.acquire().await.ok();
                response.body.reserve_exact(self.answer_limit_bytes.saturating_sub(response.body.len()));
            }
            response.body.extend_from_slice(&chunk);
        }
        mask_keys(&mut response.body, &keys);
        Ok(response)
    }

    fn too_large_error(&self, head: &PlatformResponse) -> TransportError {
        let what = format!("the answer is larger than {} bytes", self.answer_limit_bytes);
        cut_error(head, FailureKind::TooLarge, what)
    }

    fn build_request(
        &self,
        request: PlatformRequest,
        keys: &[HeaderValue; 2],
        check: Option<SendCheck>,
    ) -> reqwest::Result<reqwest::Request> {
        let method = match request.operation.method() {
            "GET" => Method::GET,
            "PUT" => Method::PUT,
            _ => Method::POST,
        };
        let mut builder = self.client.request(method, self.request_url(&request));
        for (name, key) in self.header_names.iter().zip(keys) {
            builder = builder.header(name, key);
        }
        if let Some(body) = request.body {
            let body = match check {
                Some(check) => Body::wrap(CheckedBody::new(body, check)),
                None => Body::from(body),
            };
            builder = builder.header(CONTENT_TYPE, JSON_MEDIA_TYPE).body(body);
        }
        builder.build()
    }

    fn request_url(&self, request: &PlatformRequest) -> Url {
        let mut url = self.base_url.clone();
        url.set_path(&format!("{}{}", url.path().trim_end_matches('/'), request.path));
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        url
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(self.send_request(request, None))
    }

    fn send_checked(&self, request: PlatformRequest, check: SendCheck) -> SendFuture<'_> {
        Box::pin(self.send_request(request, Some(check)))
    }
}

fn retry_after(headers: &HeaderMap, keys: &[HeaderValue]) -> Option<String> {
    let mut value = headers.get(RETRY_AFTER)?.as_bytes().to_vec();
    mask_keys(&mut value, keys);
    Some(String::from_utf8_lossy(&value).into_owned())
}

fn error_before_head(error: &reqwest::Error) -> TransportError {
    let mut causes = successors(error.source(), |&cause| cause.source());
    // Without its body the request is not complete, so the platform cannot carry it out.
    if let Some(CheckFailed(why)) = causes.find_map(|cause| cause.downcast_ref()) {
        return TransportError::without_answer(FailureKind::Unsent, why.clone());
    }
    let kind = match (error.is_connect(), error.is_timeout()) {
        (true, _) => FailureKind::Unsent,
        (false, true) => FailureKind::Timeout,
        (false, false) => FailureKind::Cut,
    };
    TransportError::without_answer(kind, error_chain(error))
}

fn error_after_head(head: &PlatformResponse, error: &reqwest::Error) -> TransportError {
    let kind = if error.is_timeout() { FailureKind::Timeout } else { FailureKind::Cut };
    let what = format!("the answer ended early after {} bytes: {}", head.body.len(), error_chain(error));
    cut_error(head, kind, what)
}

fn cut_error(head: &PlatformResponse, kind: FailureKind, what: String) -> TransportError {
    let retry_after = head.retry_after.clone();
    TransportError { kind, what, status: Some(head.status), retry_after }
}
