//! Shared parts of the wire format: the shapes of answers, lenient fields, checks of requests.

mod envelope;
pub(crate) mod lenient;
mod request;
mod write_answer;

pub(crate) use envelope::Envelope;
pub use envelope::{DecodedAnswer, MalformedBody, PageInfo, ParkedRecord};
pub(super) use envelope::{decode_list, decode_list_once, raw_records, read_list};
pub(super) use request::RequestFields;
pub use request::{InvalidRequest, PageParams};
pub(super) use write_answer::{RequestEcho, decode_bare, decode_enveloped};
pub use write_answer::{WriteAnswer, WriteOutcome};
