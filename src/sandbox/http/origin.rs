//! Accepted callers: programs, and no web pages.
//!
//! A browser sends requests of any page to any address, including this host. It names the page's origin
//! (`Origin`, `Sec-Fetch-Site`). A page whose name resolves to this host is detected by its name (`Host`).
//! Programs send no `Origin`. They use an address, `localhost` or the name of a container, which has no dot.

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};

use super::answer::SandboxRefusal;

pub(crate) fn check_origin(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> Result<(), SandboxRefusal> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST.as_str()).or(uri.authority().map(|authority| authority.as_str()));
    if let Some(host) = host.filter(|host| !is_trusted_host(host_name(host), hosts)) {
        return Err(SandboxRefusal::forbidden(format!(
            "The sandbox is not called '{host}'. Use its address or localhost, or start it with --host NAME."
        )));
    }
    let own = host.unwrap_or_default();
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(own));
    if let Some(origin) = text(header::ORIGIN.as_str()).filter(|origin| !is_own(origin)) {
        return Err(SandboxRefusal::forbidden(format!(
            "The sandbox takes no requests of web pages; this one is of '{origin}'."
        )));
    }
    match text("sec-fetch-site") {
        None | Some("none" | "same-origin") => Ok(()),
        Some(site) => Err(SandboxRefusal::forbidden(format!(
            "The sandbox takes no requests of web pages; this one says 'Sec-Fetch-Site: {site}'."
        ))),
    }
}

/// Returns the name without its port and without the brackets of an IPv6 address.
fn host_name(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Returns true for a trusted host name. DNS cannot redirect addresses, and no other party owns `localhost`
/// or names without a dot. Other names must be configured.
fn is_trusted_host(name: &str, hosts: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || name.ends_with(".localhost")
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(headers: &[(&str, &str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<header::HeaderName>().expect("a name"), value.parse().expect("a value"))
        });
        check_origin(&Uri::from_static("/"), &headers.collect(), &["shop.test".to_owned()]).is_ok()
    }

    #[test]
    fn programs_use_an_address_a_local_name_or_a_configured_name() {
        for host in [
            "127.0.0.1:8399",
            "127.0.0.1",
            "[::1]:8399",
            "[::1]",
            "localhost:8399",
            "LOCALHOST",
            "a.localhost:1",
            "sandbox:80",
            "192.168.1.7:8399",
            "Shop.Test:8399",
        ] {
            assert!(is_taken(&[("host", host)]), "{host}");
        }
        assert!(is_taken(&[]), "HTTP/1.0 names no host");
        for host in [
            "evil.example",
            "evil.example:8399",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8399",
            "ai.",
            "[x.y]:1",
        ] {
            assert!(!is_taken(&[("host", host)]), "{host}");
        }
    }

    #[test]
    fn pages_of_others_are_recognised_by_the_headers_of_the_browser() {
        let host = ("host", "127.0.0.1:8399");
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost:3000",
            "http://127.0.0.1:8400",
            "127.0.0.1:8399",
        ] {
            assert!(!is_taken(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(is_taken(&[host, ("origin", "http://127.0.0.1:8399")]), "its own page, if it had one");
        assert!(
            !is_taken(&[("host", "evil.example"), ("origin", "http://evil.example")]),
            "a name pointed here"
        );
        for (site, taken) in
            [("cross-site", false), ("same-site", false), ("same-origin", true), ("none", true)]
        {
            assert_eq!(is_taken(&[host, ("sec-fetch-site", site)]), taken, "{site}");
        }
    }
}
