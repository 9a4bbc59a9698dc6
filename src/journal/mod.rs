//! The journal: every run of a job and every exchange with the service, request and response, in order.
//!
//! This room holds the record's words and its pure parts; `store` writes it, `job` folds it into the mirror. The
//! mirror is a fold over the journal, so whatever changes a fact stands here first: as an exchange, or as an event.
//!
//! What is written holds no key: headers never enter a record, nothing we send in a body is secret, and an answer that
//! quotes our keys was masked by the transport. Apart from that the service's own words are kept as they came.

mod body;
mod record;

pub use body::{Body, BodyError, Digest, Named};
pub use record::{Begun, Ended, Outcome, RunOutcome};
