//! How the HTTP transport is set up: settings and keys as plain values, and the `reqwest` client made of them.
//!
//! All that could make one call of ours more than one at the service is switched off here; so is a proxy for loopback
//! hosts, and trust in certificates where plain http is spoken.

use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, ClientBuilder, Proxy, Url, redirect, retry};
use secrecy::{ExposeSecret, SecretString};
use std::error::Error as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The largest answer taken, in bytes after unpacking. A page of 1,000 SKUs in 50 warehouses is a quarter of it. It
/// bounds the daemon's memory. A page that is larger is asked for in halves.
pub const ANSWER_LIMIT_BYTES: usize = 16 * 1024 * 1024;
/// A host that does not answer a connection attempt in this time will not carry a call either.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shorter than what servers keep idle connections for, so that we seldom write into a closing one.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// The media type of all bodies.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How to reach the service. Has no `Debug`: a proxy's address may hold a password.
#[derive(Clone)]
pub struct HttpSettings {
    /// Scheme, host and, if need be, a path prefix; plain `http` only for a loopback host.
    pub base_url: String,
    /// The time for one whole call, from the connection to the last byte.
    pub timeout: Duration,
    /// Certificates in PEM that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// A proxy for all calls; never used for a loopback host.
    pub proxy: Option<String>,
    /// What the account's gateway calls the headers.
    pub headers: HeaderNames,
    /// Sent only for a key of a marketplace application.
    pub application_id: Option<String>,
    /// The largest answer taken, in bytes; [`ANSWER_LIMIT_BYTES`] by default.
    pub answer_limit_bytes: usize,
}

impl HttpSettings {
    /// The packaged settings for an address.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            timeout: Duration::from_secs(30),
            ca_file: None,
            proxy: None,
            headers: HeaderNames::default(),
            application_id: None,
            answer_limit_bytes: ANSWER_LIMIT_BYTES,
        }
    }
}

/// The names of the headers that carry the keys (*Authentication*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Carries the company's integration key.
    pub integration_key: String,
    /// Carries the developer's subscription key.
    pub gateway_key: String,
    /// Carries the application id.
    pub application_id: String,
}

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            integration_key: "svc-subscription-key".into(),
            gateway_key: "gateway-subscription-key".into(),
            application_id: "application-id".into(),
        }
    }
}

/// The account's two keys.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The company's integration key.
    pub integration: SecretString,
    /// The subscription key of the gateway.
    pub gateway: SecretString,
}

/// Why no transport could be made of the settings.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The address is not usable.
    #[error("service.base_url cannot be used: {0}")]
    BaseUrl(String),
    /// A header's name or value cannot stand in a request.
    #[error("{0} cannot be sent as an HTTP header: {1}")]
    Header(&'static str, &'static str),
    /// The file of certificates cannot be read.
    #[error("service.ca_file {path} cannot be used: {why}; it must hold certificates in PEM")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The proxy's address is not usable; it is not repeated here, as it may hold a password.
    #[error("service.proxy is not a proxy's address; write it like http://proxy.example:3128")]
    Proxy,
    /// The HTTP library refuses, for instance because the host has no root certificates.
    #[error("the HTTP client cannot be set up: {0}")]
    Library(String),
}

pub(super) fn parse_base_url(text: &str) -> Result<Url, SetupError> {
    let url = Url::parse(text.trim()).map_err(|error| SetupError::BaseUrl(error.to_string()))?;
    let wrong = match url.scheme() {
        "http" if !is_loopback(&url) => Some("plain http would show the keys to the network; use https"),
        "http" | "https" => None,
        _ => Some("it must begin with https://"),
    };
    let decorated = url.query().is_some() || url.fragment().is_some() || !url.username().is_empty();
    match wrong.or(decorated.then_some("it must hold only scheme, host, port and path")) {
        Some(why) => Err(SetupError::BaseUrl(why.into())),
        None => Ok(url),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) fn build_client(settings: &HttpSettings, base_url: &Url) -> Result<Client, SetupError> {
    let builder = Client::builder()
        .user_agent(concat!("tallyd/", env!("CARGO_PKG_VERSION")))
        .default_headers(fixed_headers(settings)?)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        // Well within the whole time, so that a host that does not answer is told from an answer that does not come.
        .connect_timeout(CONNECT_TIMEOUT.min(settings.timeout / 2))
        .timeout(settings.timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT);
    let builder = trust(with_proxy(builder, settings, base_url)?, settings, base_url)?;
    builder.build().map_err(|error| SetupError::Library(chain(&error)))
}

fn fixed_headers(settings: &HttpSettings) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
    if let Some(id) = &settings.application_id {
        let name = header_name("service.headers.application_id", &settings.headers.application_id)?;
        headers.insert(name, header_value("service.application_id", id)?);
    }
    Ok(headers)
}

fn with_proxy(
    builder: ClientBuilder,
    settings: &HttpSettings,
    base_url: &Url,
) -> Result<ClientBuilder, SetupError> {
    match &settings.proxy {
        _ if is_loopback(base_url) => Ok(builder.no_proxy()),
        None => Ok(builder),
        Some(proxy) => Ok(builder.proxy(Proxy::all(proxy.as_str()).map_err(|_| SetupError::Proxy)?)),
    }
}

fn trust(
    builder: ClientBuilder,
    settings: &HttpSettings,
    base_url: &Url,
) -> Result<ClientBuilder, SetupError> {
    if base_url.scheme() == "http" {
        // The library refuses to build on a host without root certificates, although plain http needs none.
        return Ok(builder.tls_certs_only([]));
    }
    let Some(path) = &settings.ca_file else { return Ok(builder) };
    let wrong = |why: String| SetupError::CaFile { path: path.clone(), why };
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(chain(&error)))?;
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate".into()));
    }
    Ok(builder.tls_certs_merge(certificates))
}

pub(super) fn header_name(key: &'static str, name: &str) -> Result<HeaderName, SetupError> {
    name.parse().map_err(|_| SetupError::Header(key, "it is not a header's name"))
}

fn header_value(what: &'static str, value: &str) -> Result<HeaderValue, SetupError> {
    value.parse().map_err(|_| SetupError::Header(what, "it holds a line break or another control character"))
}

pub(super) fn key_values(keys: &Keys) -> Result<[HeaderValue; 2], SetupError> {
    let sensitive = |what, key: &SecretString| {
        let mut value = header_value(what, key.expose_secret())?;
        value.set_sensitive(true);
        Ok(value)
    };
    Ok([sensitive("the integration key", &keys.integration)?, sensitive("the gateway key", &keys.gateway)?])
}

/// The error's causes, outermost first; its own text would name the address, and the causes say what happened.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    if causes.is_empty() { own_words(error) } else { causes.join(": ") }
}

fn own_words(error: &reqwest::Error) -> String {
    let words = if error.is_builder() { "the HTTP library refuses it" } else { "the connection failed" };
    words.into()
}
