//! The host names under which the page may be asked for.
//!
//! A foreign page can make a name of its own lead to this host (DNS rebinding). Its requests carry that name, so a
//! request under an unknown name is refused. The port is not compared, because a tunnel has another one.

use axum::http::{HeaderMap, Uri, header};

const LOOPBACK: &[&str] = &["127.0.0.1", "localhost", "[::1]"];

/// Returns true if the request has exactly one host, and it is allowed. An address in the request line counts too.
pub(super) fn has_allowed_host(configured: &[String], uri: &Uri, headers: &HeaderMap) -> bool {
    let is_allowed = |authority: &str| is_own(LOOPBACK, authority) || is_own(configured, authority);
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    host.to_str().is_ok_and(is_allowed)
        && uri.authority().is_none_or(|authority| is_allowed(authority.as_str()))
}

/// Returns true if a form comes from the page itself. A browser names the origin of each form.
pub(super) fn has_own_origin(configured: &[String], headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    let is_cross_site = site.is_some_and(|site| site != "same-origin" && site != "none");
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return !is_cross_site };
    let origin = origin.to_str().ok().filter(|_| origins.next().is_none());
    let Some((scheme, authority)) = origin.and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_host = host.is_some_and(|host| host.eq_ignore_ascii_case(authority));
    // A proxy may replace the host of the request by its own.
    matches!(scheme, "http" | "https") && (is_host || is_own(configured, authority))
}

/// Returns true if the authority's host is one of these names, in any case.
fn is_own(names: &[impl AsRef<str>], authority: &str) -> bool {
    let host = host_name(authority);
    names.iter().any(|name| name.as_ref().eq_ignore_ascii_case(host))
}

fn host_name(authority: &str) -> &str {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match authority.rsplit_once(':') {
        Some((name, port)) if is_port(port) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_loopback_and_configured_names_are_hosts() {
        let hosts = ["Stock.example".to_owned()];
        let cases = [
            ("127.0.0.1:8484", true),
            ("LOCALHOST", true),
            ("[::1]:9", true),
            ("stock.example", true),
            ("stock.example:443", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example:8484", false),
            ("localhost:8484@evil.example", false),
            ("::1", false),
            ("", false),
        ];
        for (host, expected) in cases {
            assert_eq!(
                has_allowed_host(&hosts, &Uri::from_static("/"), &headers(&[("host", host)])),
                expected,
                "{host}"
            );
        }
        let elsewhere = Uri::from_static("http://evil.example/");
        assert!(!has_allowed_host(&hosts, &elsewhere, &headers(&[("host", "localhost")])));
        assert!(!has_allowed_host(&hosts, &Uri::from_static("/"), &headers(&[])));
    }

    #[test]
    fn a_form_comes_from_the_page_itself() {
        let hosts = ["stock.example".to_owned()];
        let cases: [(&[(&str, &str)], bool); 9] = [
            (&[("host", "localhost:8484"), ("origin", "http://localhost:8484")], true),
            (&[("host", "localhost:8484"), ("origin", "http://localhost:3000")], false),
            (&[("host", "localhost:8484"), ("origin", "https://stock.example")], true),
            (&[("host", "localhost:8484"), ("origin", "http://evil.example")], false),
            (&[("host", "localhost:8484"), ("origin", "null")], false),
            (&[("host", "localhost:8484"), ("origin", "")], false),
            (&[("host", "localhost:8484")], true),
            (&[("host", "localhost:8484"), ("sec-fetch-site", "cross-site")], false),
            (&[("host", "localhost:8484"), ("sec-fetch-site", "same-origin")], true),
        ];
        for (pairs, expected) in cases {
            let map: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
                .collect();
            assert_eq!(has_own_origin(&hosts, &map), expected, "{pairs:?}");
        }
    }
}
