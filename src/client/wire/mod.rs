//! Requests and answers of the platform's twenty operations, one file per subject.
//!
//! Each operation has a function that builds its [`Request`](super::PlatformRequest). The content is not checked
//! here: the outbox parses the bodies of changes strictly, and the plans name what they send. A `decode_…` function
//! reads the body of an accepted answer. Structs hold the stored fields. Unknown fields are ignored, and unknown
//! enumeration values are kept. Names in italics are sections of docs/interface.md.

mod attribution;
mod balances;
pub(super) mod codec;
mod orders;
mod products;
mod reports;
mod shipments;
mod stored_request;
mod templates;
mod tracking;
mod updates;
mod warehouses;

pub(crate) use attribution::*;
pub(crate) use balances::*;
pub(super) use codec::Envelope;
#[cfg(test)]
pub(crate) use codec::PageInfo;
pub(crate) use codec::WriteAnswer;
pub(crate) use codec::{DecodedAnswer, MalformedBody, PageParams, WriteOutcome};
pub(crate) use orders::*;
pub(crate) use products::*;
pub(crate) use reports::*;
pub(crate) use shipments::*;
pub(crate) use stored_request::StoredRequest;
pub(crate) use templates::*;
pub(crate) use tracking::*;
pub(crate) use updates::*;
pub(crate) use warehouses::*;
