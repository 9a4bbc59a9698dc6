//! The address of the proxy, and the names of headers.

use crate::client::is_proxy_url;
use std::fmt;

/// A proxy's address. It may contain a password, which [`Debug`](std::fmt::Debug) omits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProxyUrl(String);

impl ProxyUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match is_proxy_url(text) {
            true => Ok(Self(text.to_owned())),
            false => Err("write a proxy as http://host:port".into()),
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

/// Checks for a valid header name, and returns it in lower case.
pub(super) fn check_header_name(name: &str) -> Result<String, String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err("a header's name has letters, digits and dashes".into());
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn header_names_are_tokens() {
        for (name, good) in [("x-key", true), ("X_Key1", true), ("", false), ("a b", false)] {
            assert_eq!(check_header_name(name).is_ok(), good, "{name}");
        }
    }
}
