//! Answer to a create or update of one record: the record, `WasSuccessful` and `Messages` (*Per-item
//! result*).

use super::lenient::{self, LenientObject};
use super::{Envelope, MalformedBody};
use crate::model::{OrderId, ShipmentId};
use serde::Deserialize;

/// Effect of a write according to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Done,
    /// The write was refused; the messages give the reason.
    Refused,
    /// The answer leaves it open: the change is in doubt and must be checked.
    Unclear,
}

impl WriteOutcome {
    /// Classifies `WasSuccessful`. `complete`: the answer contains everything that a success must return.
    pub(crate) fn from_flag(was_successful: Option<bool>, complete: bool) -> Self {
        match was_successful {
            Some(true) if complete => WriteOutcome::Done,
            Some(false) => WriteOutcome::Refused,
            _ => WriteOutcome::Unclear,
        }
    }
}

/// Part of an echoed request by which the records of an answer are matched (docs/rules.md 14).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct RequestEcho {
    #[serde(rename = "OrderId", default, deserialize_with = "lenient::opt")]
    pub(crate) order_id: Option<OrderId>,
    #[serde(rename = "ShipmentId", default, deserialize_with = "lenient::opt")]
    pub(crate) shipment_id: Option<ShipmentId>,
}

/// The answer about one record, which it holds under the name of its kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct WriteAnswer<T> {
    #[serde(rename = "Request", default, deserialize_with = "lenient::nested")]
    pub(crate) request: Option<RequestEcho>,
    /// The record as it now is, if the platform returned a readable one.
    #[serde(
        rename = "Product",
        alias = "ListingTemplate",
        alias = "Shipment",
        default,
        deserialize_with = "lenient::nested"
    )]
    pub record: Option<T>,
    /// The platform's flag of success, if it is present.
    #[serde(rename = "WasSuccessful", default, deserialize_with = "lenient::opt")]
    pub was_successful: Option<bool>,
    /// Reasons for a refusal, or remarks.
    #[serde(rename = "Messages", default, deserialize_with = "lenient::texts")]
    pub messages: Vec<String>,
}

impl<T> WriteAnswer<T> {
    /// Returns the order of the echoed request. An answer without it matches no change.
    pub(crate) fn order_id(&self) -> Option<OrderId> {
        self.request.as_ref()?.order_id
    }

    /// Returns the effect of the write. A success needs both the flag and the record, because a change cannot
    /// be followed up without the id of the new record.
    pub(crate) fn outcome(&self) -> WriteOutcome {
        WriteOutcome::from_flag(self.was_successful, self.record.is_some())
    }

    /// Returns the record if the write took effect.
    pub(crate) fn applied_record(&self) -> Option<&T> {
        self.record.as_ref().filter(|_| self.outcome() == WriteOutcome::Done)
    }
}

/// Reads an envelope whose `data` is the result `R`. Without one, the envelope's status may still refuse.
pub(crate) fn decode_enveloped<'a, R: Deserialize<'a> + Into<WriteAnswer<T>>, T>(
    what: &'static str,
    body: &'a [u8],
) -> Result<WriteAnswer<T>, MalformedBody> {
    let envelope = Envelope::read(what, body)?;
    let refused = envelope.is_failure().then_some(false);
    let result = envelope.data.and_then(|data| serde_json::from_str::<LenientObject<R>>(data.get()).ok());
    let mut answer = match result {
        Some(LenientObject(result)) => result.into(),
        None => WriteAnswer { request: None, record: None, was_successful: None, messages: Vec::new() },
    };
    answer.was_successful = refused.or(answer.was_successful);
    let more: Vec<_> = envelope.messages.into_iter().filter(|text| !answer.messages.contains(text)).collect();
    answer.messages.extend(more);
    Ok(answer)
}
