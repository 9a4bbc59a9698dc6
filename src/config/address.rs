//! Texts with a form: the address of the proxy, the names of headers, and the check of any other.

use crate::client::is_proxy_url;
use crate::notify::SecretUrl;

/// Returns the text if it is valid, else the advice.
pub(super) fn text_if(is_valid: bool, text: &str, advice: &str) -> Result<String, String> {
    if is_valid { Ok(text.to_owned()) } else { Err(advice.to_owned()) }
}

pub(super) fn parse_proxy(text: &str) -> Result<SecretUrl, String> {
    text_if(is_proxy_url(text), text, "write a proxy as http://host:port").map(SecretUrl)
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
    let is_valid = !name.is_empty() && name.chars().all(token);
    text_if(is_valid, &name.to_ascii_lowercase(), "a header's name has letters, digits and dashes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxys_password_is_never_shown() {
        let proxy = parse_proxy("http://clerk:s3cret@proxy.example:3128").unwrap();
        assert_eq!(format!("{proxy:?}"), "SecretUrl(…)");
        assert_eq!(proxy.0, "http://clerk:s3cret@proxy.example:3128");
        assert_eq!(without_user(&proxy.0), "http://proxy.example:3128");
        for wrong in ["socks5://proxy.example", "proxy.example:3128", "clerk:s3cret@proxy.example:3128", ""] {
            assert_eq!(parse_proxy(wrong).unwrap_err(), "write a proxy as http://host:port", "{wrong}");
        }
    }

    #[test]
    fn header_names_are_tokens() {
        for (name, good) in [("x-key", true), ("X_Key1", true), ("", false), ("a b", false)] {
            assert_eq!(check_header_name(name).is_ok(), good, "{name}");
        }
    }
}
