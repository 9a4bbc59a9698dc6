//! Shared parts of the wire format: the shapes of answers, lenient fields, checks of requests.

mod envelope;
pub(crate) mod lenient;
mod request;
mod write_answer;

#[cfg(test)]
pub(crate) use envelope::PageInfo;
pub use envelope::{DecodedAnswer, MalformedBody};
pub(crate) use envelope::{Envelope, ParkedRecord};
pub(super) use envelope::{decode_list, decode_list_once, raw_records, read_list};
pub(super) use request::RequestFields;
pub use request::{InvalidRequest, PageParams};
pub(crate) use write_answer::WriteAnswer;
pub use write_answer::WriteOutcome;
pub(super) use write_answer::{RequestEcho, decode_bare, decode_enveloped};
