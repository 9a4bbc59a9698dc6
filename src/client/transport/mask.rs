//! Masks the account's keys in an answer.
//!
//! A gateway or proxy may quote the request in an error, and answers are stored as received. Only the
//! transport has both the keys and the answer, so it masks every answer. Keys shorter than
//! [`MASKED_BYTES_MIN`] are not masked, because they would match ordinary data; no account has such a key.

use memchr::memmem::Finder;
use reqwest::header::HeaderValue;

/// Shortest key masked; shorter keys occur in tests only.
const MASKED_BYTES_MIN: usize = 8;
const MASK_BYTE: u8 = b'*';

pub(super) fn mask_keys(body: &mut [u8], keys: &[HeaderValue]) {
    for key in keys.iter().map(HeaderValue::as_bytes).filter(|key| key.len() >= MASKED_BYTES_MIN) {
        let key = Finder::new(key);
        let mut from = 0;
        while let Some(at) = key.find(&body[from..]) {
            let start = from + at;
            from = start + key.needle().len();
            body[start..from].fill(MASK_BYTE);
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
            mask_keys(&mut body, &keys);
            assert_eq!(String::from_utf8(body).unwrap(), after);
        }
    }
}
