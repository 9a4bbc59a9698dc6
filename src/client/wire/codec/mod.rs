//! Shared parts of the wire format: the shapes of answers, lenient fields, pages.

mod envelope;
pub(crate) mod lenient;
mod request;
mod write_answer;

pub(crate) use envelope::Envelope;
#[cfg(test)]
pub(crate) use envelope::PageInfo;
pub(crate) use envelope::{DecodedAnswer, MalformedBody};
pub(super) use envelope::{ReadRecords, decode_list, decode_list_once, read_records_once};
pub(crate) use request::PageParams;
pub(crate) use write_answer::WriteAnswer;
pub(crate) use write_answer::WriteOutcome;
pub(super) use write_answer::decode_enveloped;
