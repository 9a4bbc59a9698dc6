//! The journal: every run of a job and every exchange with the platform, request and response, in order.
//!
//! This module holds the codes and the pure parts of the records. `store` writes them, `projection` projects
//! them into the mirror. Every fact is therefore recorded here first, as an exchange or an event.
//!
//! The journal holds no key: headers are not recorded, request bodies hold no secret, and the transport masks
//! keys that an answer quotes. Otherwise an answer is kept as it came.

mod body;
mod record;

pub(crate) use body::BodyDigest;
pub(crate) use body::BodyError;
pub(crate) use body::BodyPacker;
pub(crate) use body::DigestedBody;
pub use body::PackedBody;
pub(crate) use record::ExchangeBegin;
pub(crate) use record::ExchangeEnd;
pub(crate) use record::ExchangeOutcome;
pub use record::RunOutcome;
