//! A hold as shown in `status` and the log, and as stored over a restart.

use crate::model::{Operation, Timestamp, code_enum};
use serde::{Deserialize, Serialize};

/// The calls that a hold stops; each has one hold at most, and they are shown in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldScope {
    Account,
    /// Every call of an operation whose slots other software uses too.
    Slots(#[serde(with = "operation_name")] Operation),
}

code_enum! {
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HoldReason {
        /// 429 with `Retry-After`: too many calls.
        Rate = "rate",
        /// 403 with `Retry-After`: too many answers of 400.
        BadRequests = "bad_requests",
        /// 429 without `Retry-After`: the operation's slots are in use.
        Concurrency = "concurrency",
        /// 429 without `Retry-After` on several operations in a row: the account is locked out.
        Blocked = "blocked",
    }
}

/// A wait that the platform ordered, or that the limiter derived from its answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub scope: HoldScope,
    pub reason: HoldReason,
    pub since: Timestamp,
    /// Duration from `since`, in milliseconds; `None` if the hold ends by an event.
    pub duration_ms: Option<u64>,
}

/// Serialization of an operation by its listed name, which operators and later versions can read.
mod operation_name {
    use crate::model::Operation;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(operation: &Operation, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(operation.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Operation, D::Error> {
        let name = String::deserialize(from)?;
        Operation::from_code(&name).ok_or_else(|| D::Error::custom(format!("unknown operation {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_survives_being_written_down() {
        for scope in [HoldScope::Account, HoldScope::Slots(Operation::WorkQueue)] {
            let (reason, since) = (HoldReason::Concurrency, Timestamp(7));
            let hold = Hold { scope, reason, since, duration_ms: Some(30_000) };
            let text = serde_json::to_string(&hold).unwrap();
            assert_eq!(serde_json::from_str::<Hold>(&text).unwrap(), hold, "{text}");
        }
    }

    #[test]
    fn an_operation_is_kept_by_its_listed_name() {
        let text = serde_json::to_string(&HoldScope::Slots(Operation::WorkQueue)).unwrap();
        assert_eq!(text, r#"{"slots":"GET /api/Company/WorkQueue"}"#);
    }
}
