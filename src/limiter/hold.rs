//! A hold as others see it: in `status`, in the log, and kept over a restart.

use crate::model::{Operation, Timestamp};
use serde::{Deserialize, Serialize};

/// What a hold stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every call of the account.
    Account,
    /// Every call but the probe.
    Key,
    /// Every call of one operation.
    Operation(#[serde(with = "operation_name")] Operation),
}

/// What a hold was set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// 429 with `Retry-After`: too many calls.
    Rate,
    /// 403 with `Retry-After`: too many answers of 400.
    BadRequests,
    /// 429 without `Retry-After`: the operation's slots are taken.
    Concurrency,
    /// The same on one operation after the other: the account is blocked, and the service does not say why.
    Blocked,
    /// 403: the service does not accept the key.
    RefusedKey,
    /// One call is to show whether the operation or the key is at fault (rules.md 18, 34).
    Judging,
}

impl Reason {
    /// The word used in tables and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Rate => "rate",
            Reason::BadRequests => "bad_requests",
            Reason::Concurrency => "concurrency",
            Reason::Blocked => "blocked",
            Reason::RefusedKey => "refused_key",
            Reason::Judging => "judging",
        }
    }
}

/// A wait the service ordered, or that we ordered ourselves because of what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// What it stops.
    pub scope: Scope,
    /// What it was set for.
    pub reason: Reason,
    /// In words, for a person; empty where the reason says it all.
    pub why: String,
    /// When it was set.
    pub since: Timestamp,
    /// How long it was set for, in milliseconds; `None` if something has to happen before it ends.
    pub duration_ms: Option<u64>,
}

/// Operations are written by their listed names, so that what is kept can be read by people and by later versions.
mod operation_name {
    use crate::model::Operation;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(operation: &Operation, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(operation.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Operation, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_survives_being_written_down() {
        for scope in [Scope::Account, Scope::Key, Scope::Operation(Operation::WorkQueue)] {
            let hold = Hold {
                scope,
                reason: Reason::Judging,
                why: "a 400".into(),
                since: Timestamp(7),
                duration_ms: Some(30_000),
            };
            let text = serde_json::to_string(&hold).unwrap();
            assert_eq!(serde_json::from_str::<Hold>(&text).unwrap(), hold, "{text}");
        }
    }

    #[test]
    fn an_operation_is_kept_by_its_listed_name() {
        let text = serde_json::to_string(&Scope::Operation(Operation::WorkQueue)).unwrap();
        assert_eq!(text, r#"{"operation":"GET /api/Company/WorkQueue"}"#);
    }
}
