//! Shared parts of the wire format: the shapes of answers, lenient fields, checks of requests.

pub(super) mod envelope;
pub(crate) mod lenient;
pub(super) mod request;
pub(super) mod write_answer;

pub(crate) use envelope::Envelope;
pub use envelope::{DecodedAnswer, MalformedBody, PageInfo, ParkedRecord};
pub use request::{InvalidRequest, PageParams};
pub use write_answer::{WriteAnswer, WriteOutcome};
