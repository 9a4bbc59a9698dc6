//! Network addresses: the platform's base address and the proxy.
//!
//! The parser is strict: an accepted address must have one meaning for every HTTP client. Parts that URL
//! parsers read differently (user names, backslashes, shortened addresses) are refused. Keys are never sent
//! unencrypted: plain `http` is accepted for the loopback only.

use std::fmt;
use std::net::IpAddr;

/// Parses the platform's base address (docs/interface.md, *Conventions*); a trailing slash is dropped.
pub(super) fn parse_base_url(text: &str) -> Result<String, String> {
    let (scheme, host) = split_host(text)?;
    if text.contains(['?', '#']) {
        return Err("a base address has no `?` or `#`; the paths of the operations are appended to it".into());
    }
    match scheme {
        "https" => {}
        "http" if is_loopback(host) => {}
        "http" => {
            return Err(
                "plain http sends the keys in the clear; write https (http is for the loopback)".into()
            );
        }
        _ => return Err("write an address that begins with https://".into()),
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// A proxy's address. It may contain a password, which [`Debug`](std::fmt::Debug) omits.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl(String);

impl ProxyUrl {
    /// Returns the whole address with its password, for the HTTP client only.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match split_host(&without_user(text)) {
            Ok(("http" | "https", _)) => Ok(Self(text.to_owned())),
            Err(why) if text.contains("://") => Err(why),
            Ok(_) | Err(_) => Err("write a proxy as http://host:port".into()),
        }
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_user(&self.0))
    }
}

pub(super) fn without_user(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host..])
        }
        None => text.to_owned(),
    }
}

fn split_host(text: &str) -> Result<(&str, &str), String> {
    if text.is_empty() {
        return Err("it is missing: write the platform's address, such as https://service.example".into());
    }
    let strange = |c: char| !c.is_ascii_graphic() || matches!(c, '\\' | '@' | '"' | '<' | '>');
    if text.contains(strange) {
        return Err("an address holds no spaces, user names or backslashes".into());
    }
    let (scheme, rest) = text.split_once("://").ok_or("write an address that begins with https://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let (host, port) = match authority.strip_prefix('[').and_then(|six| six.split_once(']')) {
        Some((host, port)) => (host, port),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port_is_sound =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    if host.is_empty() || !port_is_sound {
        return Err("the host or port cannot be read; write https://host or https://host:port".into());
    }
    Ok((scheme, host))
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Checks that `name` is a valid header name and not one that the client sets itself. Returns it in lower
/// case.
pub(super) fn check_header_name(name: &str) -> Result<String, String> {
    const RESERVED_HEADERS: [&str; 9] = [
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "te",
        "transfer-encoding",
        "user-agent",
    ];
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err("a header's name has letters, digits and dashes".into());
    }
    if RESERVED_HEADERS.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        return Err("every request has this header already, for another purpose".into());
    }
    Ok(name.to_ascii_lowercase())
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
        assert_eq!(parse_base_url("https://service.example/").unwrap(), "https://service.example");
    }

    #[test]
    fn a_proxys_password_is_never_shown() {
        let proxy = ProxyUrl::parse("http://clerk:s3cret@proxy.example:3128").unwrap();
        assert_eq!(format!("{proxy:?}"), "http://proxy.example:3128");
        assert_eq!(proxy.as_str(), "http://clerk:s3cret@proxy.example:3128");
        for wrong in ["socks5://proxy.example", "proxy.example:3128", "clerk:s3cret@proxy.example:3128", ""] {
            assert_eq!(ProxyUrl::parse(wrong).unwrap_err(), "write a proxy as http://host:port", "{wrong}");
        }
    }

    #[test]
    fn header_names_are_tokens_that_are_not_spoken_for() {
        for (name, good) in [("x-key", true), ("X_Key1", true), ("", false), ("a b", false), ("Host", false)]
        {
            assert_eq!(check_header_name(name).is_ok(), good, "{name}");
        }
    }
}
