//! Takes our own keys out of an answer before anybody sees it.
//!
//! A gateway or a proxy in between may quote the request in its complaint, and answers are journalled as they come. The
//! transport is the one place that holds both the keys and the answer, so it is done here, whatever the answer is. A
//! key that is shorter than [`LEAST`] would be found in honest data, and no account has such a one.

use memchr::memmem::Finder;
use reqwest::header::HeaderValue;

/// Shorter keys are those of tests.
const LEAST: usize = 8;
/// Stands where a key stood.
const MASK: u8 = b'*';

/// Overwrites each key in `body`; its length stays.
pub(super) fn mask(body: &mut [u8], keys: &[HeaderValue]) {
    for key in keys.iter().map(HeaderValue::as_bytes).filter(|key| key.len() >= LEAST) {
        let key = Finder::new(key);
        let mut from = 0;
        while let Some(at) = key.find(&body[from..]) {
            let start = from + at;
            from = start + key.needle().len();
            body[start..from].fill(MASK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_overwritten_wherever_they_stand_and_nothing_else_is() {
        let keys = ["planted-key-1", "other-key-22", "k"].map(HeaderValue::from_static);
        let cases = [
            ("no key here", "no key here"),
            ("planted-key-1", "*************"),
            ("a planted-key-1planted-key-1 b", "a ************************** b"),
            ("{\"seen\":\"other-key-22\",\"k\":1}", "{\"seen\":\"************\",\"k\":1}"),
            ("planted-key-", "planted-key-"),
            ("pplanted-key-1", "p*************"),
            ("", ""),
        ];
        for (before, after) in cases {
            let mut body = before.as_bytes().to_vec();
            mask(&mut body, &keys);
            assert_eq!(String::from_utf8(body).unwrap(), after);
        }
    }
}
