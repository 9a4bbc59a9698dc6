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
mod parsed_request;
mod products;
mod reports;
mod shipments;
mod templates;
mod tracking;
mod updates;
mod warehouses;

pub use crate::model::Month;
pub use attribution::*;
pub use balances::*;
pub(super) use codec::Envelope;
#[cfg(test)]
pub(crate) use codec::PageInfo;
pub(crate) use codec::WriteAnswer;
pub use codec::{DecodedAnswer, MalformedBody, PageParams, WriteOutcome};
pub use orders::*;
pub use parsed_request::ParsedRequest;
pub use products::*;
pub use reports::*;
pub use shipments::*;
pub use templates::*;
pub use tracking::*;
pub use updates::*;
pub use warehouses::*;
