//! The identity of a change that a form or a file brings without a key of its own: a key made of its
//! source, its content and its occurrence.
//!
//! The same source, content and occurrence give the same key, so the outbox takes such a change once, however
//! often it is sent. Two changes that are meant differ in their occurrence.

use sha2::{Digest, Sha256};
use std::fmt::Display;

/// Returns the key `SOURCE:DIGEST:OCCURRENCE` of a change; the digest is that of `content`.
///
/// `occurrence` tells equal contents of one source apart: a number of a file's line, or the mark of a served form.
/// An empty one gives the beginning of the keys of all occurrences.
pub(crate) fn derived_key(source: &str, content: &[&str], occurrence: impl Display) -> String {
    format!("{source}:{}:{occurrence}", content_digest(content))
}

/// Returns the first 64 bits of the SHA-256 of these parts, in hexadecimal. Where a part ends counts too.
pub(crate) fn content_digest(parts: &[impl AsRef<str>]) -> String {
    let mut hash = Sha256::new();
    for part in parts.iter().map(AsRef::as_ref) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_content_and_occurrence_make_the_key() {
        let key = derived_key("web", &["quantity.adjust", "{}"], 1);
        assert_eq!(key, derived_key("web", &["quantity.adjust", "{}"], 1));
        let (digest, of_another) = (&key[4..20], content_digest(&["quantity.adjust{}"]));
        assert_eq!(key, format!("web:{digest}:1"));
        assert_ne!(digest, of_another, "where a part ends counts");
        for other in [
            derived_key("file", &["quantity.adjust", "{}"], 1),
            derived_key("web", &["quantity.adjust", "[]"], 1),
            derived_key("web", &["quantity.adjust", "{}"], 2),
        ] {
            assert_ne!(key, other);
        }
        assert!(key.starts_with(&derived_key("web", &["quantity.adjust", "{}"], "")));
    }
}
