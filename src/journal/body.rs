//! Bodies: compressed, and named by their content so that each distinct one is kept once.
//!
//! A quiet shop answers the same page thousands of times; it costs the journal a row, not the page.

use sha2::{Digest as _, Sha256};

/// Fast enough to be invisible beside the network; higher levels buy little on short JSON.
const LEVEL: i32 = 1;

/// The first 128 bits of the content's SHA-256: collisions are out of reach, and half the index of the whole.
pub type Digest = [u8; 16];

/// A body with the name it is kept under. It is named before the turn to write is waited for: that takes as long as all
/// else that is written down of a call.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its name.
    pub digest: Digest,
    /// The same ready to be stored, where somebody expected that it is not known and had the time before the turn.
    pub packed: Option<&'a Body>,
}

impl<'a> From<&'a [u8]> for Named<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, digest: Body::digest(bytes), packed: None }
    }
}

/// A body ready to be stored.
#[derive(Clone, Debug)]
pub struct Body {
    /// Its length in bytes before compression.
    pub size: usize,
    /// Its bytes, compressed with zstd.
    pub packed: Vec<u8>,
}

/// Why a stored body cannot be read again.
#[derive(Debug, thiserror::Error)]
#[error("a stored body cannot be unpacked ({0}): the database file is damaged; restore a backup")]
pub struct BodyError(#[from] std::io::Error);

impl Body {
    /// Names. Before it is packed: a body that is kept already need not be.
    pub fn digest(bytes: &[u8]) -> Digest {
        let mut digest = Digest::default();
        digest.copy_from_slice(&Sha256::digest(bytes)[..16]);
        digest
    }

    /// Compresses.
    pub fn pack(bytes: &[u8]) -> Result<Self, BodyError> {
        Ok(Self { size: bytes.len(), packed: zstd::bulk::compress(bytes, LEVEL)? })
    }

    /// The bytes as they were; `size` is what was stored beside them and bounds the memory taken.
    pub fn unpack(packed: &[u8], size: usize) -> Result<Vec<u8>, BodyError> {
        Ok(zstd::bulk::decompress(packed, size)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_comes_back_as_it_was_and_keeps_its_name() {
        let bytes = br#"[{"Sku":"A"}]"#.repeat(100);
        let body = Body::pack(&bytes).unwrap();
        assert!(body.packed.len() < bytes.len() / 5);
        assert_eq!(Body::unpack(&body.packed, body.size).unwrap(), bytes);
        assert_eq!(Body::digest(&bytes), Body::digest(&bytes.clone()));
        assert_ne!(Body::digest(b"[]"), Body::digest(&bytes));
    }

    #[test]
    fn a_damaged_body_is_an_error_not_a_panic() {
        assert!(Body::unpack(b"no zstd frame", 100).is_err());
    }
}
