//! The answer to a create or update of one record: the record, `WasSuccessful` and `Messages` (*Per-item result*).

use super::lenient::Object;
use super::{Envelope, Malformed};
use serde::Deserialize;

/// What a write says it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was refused; the messages say why.
    Refused,
    /// The answer does not say: the wish is in doubt and must be looked at.
    Unclear,
}

impl Outcome {
    /// What the service's word means, beside whether what it should have returned is there.
    pub(super) fn of(was_successful: Option<bool>, complete: bool) -> Self {
        match was_successful {
            Some(true) if complete => Outcome::Done,
            Some(false) => Outcome::Refused,
            _ => Outcome::Unclear,
        }
    }
}

/// The answer about one record.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteAnswer<T> {
    /// The record as it now is, where the service returned one that makes sense.
    pub record: Option<T>,
    /// Whether the service says that it was done; missing where it does not say.
    pub was_successful: Option<bool>,
    /// Why not, or remarks.
    pub messages: Vec<String>,
}

impl<T> WriteAnswer<T> {
    /// What the answer means. Done needs both the word and the record: a wish without the id of what it made cannot
    /// be followed up.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.was_successful, self.record.is_some())
    }

    /// The record, where the service says that it was done.
    pub fn done(&self) -> Option<&T> {
        self.record.as_ref().filter(|_| self.outcome() == Outcome::Done)
    }
}

/// A per-item result: the same two fields in every operation, the record under another name in each.
pub(super) trait ItemResult<T> {
    /// Takes the result apart.
    fn answer(self) -> WriteAnswer<T>;
}

/// Reads a body that is a per-item result itself.
pub(super) fn decode_bare<'a, R: ItemResult<T> + Deserialize<'a>, T>(
    what: &'static str,
    body: &'a [u8],
) -> Result<WriteAnswer<T>, Malformed> {
    let Object(result) =
        serde_json::from_slice::<Object<R>>(body).map_err(|error| Malformed::new(what, error))?;
    Ok(result.answer())
}

/// Reads an envelope whose `data` is a per-item result. Where there is none, the envelope's status may still refuse.
pub(super) fn decode_enveloped<'a, R: ItemResult<T> + Deserialize<'a>, T>(
    what: &'static str,
    body: &'a [u8],
) -> Result<WriteAnswer<T>, Malformed> {
    let envelope = Envelope::read(body).map_err(|error| Malformed::new(what, error))?;
    let refused = envelope.says_failure().then_some(false);
    let result = envelope.data.and_then(|data| serde_json::from_str::<Object<R>>(data.get()).ok());
    let mut answer = match result {
        Some(Object(result)) => result.answer(),
        None => WriteAnswer { record: None, was_successful: None, messages: Vec::new() },
    };
    answer.was_successful = refused.or(answer.was_successful);
    let more =
        envelope.messages.into_iter().filter(|text| !answer.messages.contains(text)).collect::<Vec<_>>();
    answer.messages.extend(more);
    Ok(answer)
}
