//! Bodies: compressed, and named by their content so that each distinct body is stored once.
//!
//! Repeated answers with equal pages cost the journal a row each, not the page.

use sha2::{Digest as _, Sha256};
use std::io::Write as _;

/// zstd level 1: its time is negligible beside the network; higher levels gain little on short JSON.
const COMPRESSION_LEVEL: i32 = 1;

/// The first 128 bits of the content's SHA-256: half the index size, and collisions remain improbable.
pub(crate) type BodyDigest = [u8; 16];

/// A body with its digest. The digest is computed before the write lock is taken, because it takes as long as
/// the rest of a call's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestedBody<'a> {
    pub bytes: &'a [u8],
    pub digest: BodyDigest,
    /// The compressed body, if it was prepared before the write lock was taken.
    pub packed: Option<&'a PackedBody>,
}

impl<'a> From<&'a [u8]> for DigestedBody<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, digest: PackedBody::digest(bytes), packed: None }
    }
}

#[derive(Clone, Debug)]
pub struct PackedBody {
    /// The length in bytes before compression.
    pub size: usize,
    pub packed: Vec<u8>,
}

/// An error of decompressing a stored body.
#[derive(Debug, thiserror::Error)]
#[error("a stored body cannot be unpacked ({0}): the database file is damaged; restore a backup")]
pub struct BodyError(#[from] std::io::Error);

impl PackedBody {
    /// Returns the digest. Called before packing, because a body already stored need not be packed.
    pub(crate) fn digest(bytes: &[u8]) -> BodyDigest {
        let mut digest = BodyDigest::default();
        digest.copy_from_slice(&Sha256::digest(bytes)[..16]);
        digest
    }

    pub(crate) fn pack(bytes: &[u8]) -> Result<Self, BodyError> {
        Ok(Self { size: bytes.len(), packed: zstd::bulk::compress(bytes, COMPRESSION_LEVEL)? })
    }

    /// Decompresses. `size` is the stored length and bounds the memory used.
    pub fn unpack(packed: &[u8], size: usize) -> Result<Vec<u8>, BodyError> {
        Ok(zstd::bulk::decompress(packed, size)?)
    }
}

/// A body that is written in parts and compressed as they come; it is never in memory as a whole.
pub(crate) struct BodyPacker {
    encoder: zstd::stream::write::Encoder<'static, Vec<u8>>,
    size: usize,
}

impl BodyPacker {
    pub(crate) fn new() -> Result<Self, BodyError> {
        Ok(Self { encoder: zstd::stream::write::Encoder::new(Vec::new(), COMPRESSION_LEVEL)?, size: 0 })
    }

    pub(crate) fn write(&mut self, part: &str) -> Result<(), BodyError> {
        self.size += part.len();
        Ok(self.encoder.write_all(part.as_bytes())?)
    }

    pub(crate) fn finish(self) -> Result<PackedBody, BodyError> {
        Ok(PackedBody { size: self.size, packed: self.encoder.finish()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_comes_back_as_it_was_and_keeps_its_name() {
        let bytes = br#"[{"Sku":"A"}]"#.repeat(100);
        let body = PackedBody::pack(&bytes).unwrap();
        assert!(body.packed.len() < bytes.len() / 5);
        assert_eq!(PackedBody::unpack(&body.packed, body.size).unwrap(), bytes);
        assert_eq!(PackedBody::digest(&bytes), PackedBody::digest(&bytes.clone()));
        assert_ne!(PackedBody::digest(b"[]"), PackedBody::digest(&bytes));
    }

    #[test]
    fn a_body_in_parts_comes_back_as_one() {
        let mut packer = BodyPacker::new().unwrap();
        (0..10_000).for_each(|n| packer.write(&format!("{n},")).unwrap());
        let body = packer.finish().unwrap();
        let whole: String = (0..10_000).map(|n| format!("{n},")).collect();
        assert_eq!(PackedBody::unpack(&body.packed, body.size).unwrap(), whole.as_bytes());
    }

    #[test]
    fn a_damaged_body_is_an_error_not_a_panic() {
        assert!(PackedBody::unpack(b"no zstd frame", 100).is_err());
    }
}
