//! Shared parts of the wire format: the outer shape of answers, lenient fields, checks of requests.
//!
//! | file | subject |
//! | --- | --- |
//! | `envelope.rs` | the envelope of an answer, lists and pages of records |
//! | `lenient.rs` | fields of an answer in the types that the platform uses for them |
//! | `write_answer.rs` | the answer to a create or update of one record |
//! | `request.rs` | pages to ask for, checks of a request's body, and the refusal of an invalid one |

pub(super) mod envelope;
pub(crate) mod lenient;
pub(super) mod request;
pub(super) mod write_answer;

pub(crate) use envelope::Envelope;
pub use envelope::{DecodedAnswer, MalformedBody, PageInfo, ParkedRecord};
pub use request::{InvalidRequest, PageParams};
pub use write_answer::{WriteAnswer, WriteOutcome};
