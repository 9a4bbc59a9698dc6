//! HTTP client for the receivers of notices. They are not the platform: no key of the account is sent to them.
//!
//! A receiver is told by an address of its own, which may hold a secret. No error contains the address.

use super::setup::{JSON_MEDIA_TYPE, build_client, error_chain, is_loopback};
use super::{AccountKeys, HttpSettings, SetupError, mask};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};

/// Sends requests to one receiver, each once, without retry or redirect.
pub(crate) struct ReceiverClient {
    client: Client,
    url: Url,
}

impl ReceiverClient {
    /// Creates the client. The base address of the settings is that of the receiver, and may have a query.
    /// Fails if the address or the certificate file cannot be used.
    pub(crate) fn new(settings: &HttpSettings) -> Result<Self, SetupError> {
        let url = parse_receiver_url(&settings.base_url).map_err(SetupError)?;
        Ok(Self { client: build_client(settings, &url)?, url })
    }

    /// Posts a JSON body, with one more header if there is one. Fails with the reason, without address and
    /// header, unless the receiver answers with a status of 2xx.
    pub(crate) async fn post_json(
        &self,
        body: String,
        header: Option<(&str, &SecretString)>,
    ) -> Result<(), String> {
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, JSON_MEDIA_TYPE).body(body);
        if let Some((name, secret)) = header {
            let name: HeaderName = name.parse().map_err(|_| "the header's name cannot be sent".to_owned())?;
            let mut value: HeaderValue = secret
                .expose_secret()
                .parse()
                .map_err(|_| "the header's secret cannot be sent".to_owned())?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        self.send_request(request).await
    }

    /// Sends a GET to the address, or to the address with `/fail` behind its path.
    pub(crate) async fn ping(&self, is_well: bool) -> Result<(), String> {
        let mut url = self.url.clone();
        if !is_well {
            url.set_path(&format!("{}/fail", url.path().trim_end_matches('/')));
        }
        self.send_request(self.client.get(url)).await
    }

    async fn send_request(&self, request: reqwest::RequestBuilder) -> Result<(), String> {
        let answer = request.send().await.map_err(|error| match error.is_timeout() {
            true => "it gave no answer in time".to_owned(),
            false => error_chain(&error),
        })?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered {}", status.as_u16())),
        }
    }
}

fn parse_receiver_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|_| "write an address such as https://host/path")?;
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err("plain http would show the notices to the network; use https".into()),
        _ => Err("it must begin with https://".into()),
    }
}

/// Returns the host of a receiver's address, which may be shown: the rest may hold a secret. Fails with
/// advice if notices cannot be sent to the address.
pub(crate) fn receiver_host(text: &str) -> Result<String, String> {
    parse_receiver_url(text).map(|url| url.host_str().unwrap_or_default().to_owned())
}

/// Overwrites the account's keys in a text, as the transport does in answers.
pub(crate) fn mask_account_keys(text: String, keys: &AccountKeys) -> String {
    let values = [&keys.integration, &keys.gateway].map(|key| HeaderValue::from_str(key.expose_secret()));
    let mut bytes = text.into_bytes();
    mask::mask_keys(&mut bytes, &values.into_iter().flatten().collect::<Vec<_>>());
    // A key is ASCII, so its mask keeps the text valid.
    String::from_utf8_lossy(&bytes).into_owned()
}
