//! Setup of the HTTP transport: settings, keys, and the `reqwest` client built from them.
//!
//! Retries and redirects are switched off, because they could turn one call into several. Loopback hosts get
//! no proxy, and plain http needs no certificates.

use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, Proxy, Url, redirect, retry};
use secrecy::{ExposeSecret, SecretString};
use std::error::Error as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest answer read, in bytes after decompression: a page of 1,000 SKUs in 50 warehouses is a quarter of
/// it. A larger page is asked for again in halves.
pub(crate) const ANSWER_LIMIT_BYTES: usize = 16 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle time of a pooled connection. Shorter than usual server timeouts, so that few
/// requests go to a closing connection.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
pub(super) const JSON_MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// Settings of the connection to the platform. Has no `Debug`, because a
/// proxy's address may contain a password.
#[derive(Clone)]
pub struct HttpSettings {
    /// Scheme, host and optional path prefix. Plain `http` is allowed for a loopback host only.
    pub base_url: String,
    /// Time limit of one whole call, from the connection to the last byte.
    pub timeout: Duration,
    /// File of certificates in PEM, trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Proxy for all calls; never used for a loopback host.
    pub proxy: Option<String>,
    /// Names of the key headers at the account's gateway.
    pub(crate) headers: HeaderNames,
    /// Application id, sent only for a key of a marketplace application.
    pub application_id: Option<String>,
    /// Largest answer read, in bytes; [`ANSWER_LIMIT_BYTES`] by default.
    pub answer_limit_bytes: usize,
}

impl HttpSettings {
    /// Returns the default settings for an address.
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

/// Names of the headers that carry the keys (*Authentication*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderNames {
    /// Header of the company's integration key.
    pub integration_key: String,
    /// Header of the developer's subscription key.
    pub gateway_key: String,
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

#[derive(Clone, Debug)]
pub struct AccountKeys {
    /// The integration key, which identifies the account (`svc-subscription-key`).
    pub integration: SecretString,
    /// The gateway key, which grants access to the interface (`gateway-subscription-key`).
    pub gateway: SecretString,
}

/// Error of a setting that the HTTP library cannot use. It omits a proxy's address, which may contain a password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(pub(super) String);

/// Parses the platform's base address (docs/interface.md, *Conventions*). Keys are never sent unencrypted:
/// plain `http` is for the loopback only. The error is a sentence about the fault.
pub(crate) fn parse_base_url(text: &str) -> Result<Url, String> {
    let strange = |c: char| !c.is_ascii_graphic() || matches!(c, '\\' | '@' | '"' | '<' | '>');
    // A host in another spelling, such as a shortened address, is a sign of a mistake.
    let has_host = |url: &Url| text.to_ascii_lowercase().contains(url.host_str().unwrap_or_default());
    let wrong = match Url::parse(text).ok().filter(has_host) {
        _ if text.is_empty() => {
            "it is missing: write the platform's address, such as https://service.example"
        }
        _ if text.contains(strange) => "an address holds no spaces, user names or backslashes",
        _ if !text.contains("://") => "write an address that begins with https://",
        None => "the host or port cannot be read; write https://host or https://host:port",
        Some(url) if url.query().is_some() || url.fragment().is_some() => {
            "a base address has no `?` or `#`; the paths of the operations are appended to it"
        }
        Some(url) if url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url)) => {
            return Ok(url);
        }
        Some(url) if url.scheme() == "http" => {
            "plain http sends the keys in the clear; write https (http is for the loopback)"
        }
        Some(_) => "write an address that begins with https://",
    };
    Err(wrong.into())
}

/// Returns true if the text is the address of a proxy, which may contain a password.
pub(crate) fn is_proxy_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) fn build_client(settings: &HttpSettings, base_url: &Url) -> Result<Client, SetupError> {
    // Fails if it is installed already, which is the aim.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("tallyd/", env!("CARGO_PKG_VERSION")))
        .default_headers(fixed_headers(settings)?)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        // At most half of the timeout, to distinguish an unreachable host from a missing answer.
        .connect_timeout(CONNECT_TIMEOUT.min(settings.timeout / 2))
        .timeout(settings.timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT);
    // The variables `HTTPS_PROXY` and `ALL_PROXY` of a shell are not those of the daemon, so none of them counts.
    let builder = match &settings.proxy {
        Some(proxy) if !is_loopback(base_url) => {
            let wrong = "service.proxy is not a proxy's address; write it like http://proxy.example:3128";
            builder.proxy(Proxy::all(proxy.as_str()).map_err(|_| SetupError(wrong.into()))?)
        }
        _ => builder.no_proxy(),
    };
    let builder = match &settings.ca_file {
        // The library refuses a host without root certificates, although plain http needs none.
        _ if base_url.scheme() == "http" => builder.tls_certs_only([]),
        None => builder,
        Some(path) => builder.tls_certs_merge(read_certificates(path)?),
    };
    let failed = |error| SetupError(format!("the HTTP client cannot be set up: {}", error_chain(&error)));
    builder.build().map_err(failed)
}

fn fixed_headers(settings: &HttpSettings) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, JSON_MEDIA_TYPE)]);
    if let Some(id) = &settings.application_id {
        let name = header_name("service.headers.application_id", &settings.headers.application_id)?;
        headers.insert(name, header_value("service.application_id", id)?);
    }
    Ok(headers)
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate>, SetupError> {
    let wrong = |why: String| {
        SetupError(format!(
            "service.ca_file {} cannot be used: {why}; it must hold certificates in PEM, as UTF-8 or ASCII text",
            path.display()
        ))
    };
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    // Editors of other systems write a byte order mark, with which the first line is no beginning.
    let pem = pem.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&pem);
    let certificates = Certificate::from_pem_bundle(pem).map_err(|error| wrong(error_chain(&error)))?;
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate".into()));
    }
    Ok(certificates)
}

pub(super) fn header_name(key: &'static str, name: &str) -> Result<HeaderName, SetupError> {
    name.parse()
        .map_err(|_| SetupError(format!("{key} cannot be sent as an HTTP header: it is not a header's name")))
}

fn header_value(what: &'static str, value: &str) -> Result<HeaderValue, SetupError> {
    let why = "it holds a line break or another control character";
    value.parse().map_err(|_| SetupError(format!("{what} cannot be sent as an HTTP header: {why}")))
}

pub(super) fn key_values(keys: &AccountKeys) -> Result<[HeaderValue; 2], SetupError> {
    let sensitive = |what, key: &SecretString| {
        let mut value = header_value(what, key.expose_secret())?;
        value.set_sensitive(true);
        Ok(value)
    };
    Ok([sensitive("the integration key", &keys.integration)?, sensitive("the gateway key", &keys.gateway)?])
}

/// Returns the error's causes, outermost first. The error's own text is left
/// out, because it contains the address.
pub(super) fn error_chain(error: &reqwest::Error) -> String {
    let causes: Vec<String> =
        std::iter::successors(error.source(), |cause| (*cause).source()).map(ToString::to_string).collect();
    match causes.is_empty() {
        true if error.is_builder() => "the HTTP library refuses it".into(),
        true => "the connection failed".into(),
        false => causes.join(": "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_travel_in_the_clear_to_the_loopback_only() {
        let cases = [
            ("https://service.example", true),
            ("https://service.example:8443/tenant/", true),
            ("http://127.0.0.1:8399", true),
            ("http://127.9.8.7", true),
            ("http://[::1]:8399", true),
            ("http://LocalHost:1", true),
            ("http://service.example", false),
            ("http://127.0.0.1.service.example", false),
            ("http://localhost.service.example", false),
            ("http://0.0.0.0:80", false),
            ("http://127.0.0.1@service.example", false),
            ("http://service.example\\@localhost", false),
            ("http://[::ffff:8.8.8.8]", false),
            ("https://user:password@service.example", false),
            ("https://service.example/?a=1", false),
            ("https://service.example:99999", false),
            ("https://", false),
            ("ftp://service.example", false),
            ("service.example", false),
            ("", false),
        ];
        for (text, good) in cases {
            assert_eq!(parse_base_url(text).is_ok(), good, "{text}");
        }
    }
}
