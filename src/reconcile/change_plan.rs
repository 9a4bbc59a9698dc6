//! Decision on one change that is no quantity change.
//!
//! Quantity changes have plans of their own, because several changes share an entry.

use crate::outbox::Reason;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangePlan<T> {
    /// A fact must be read first.
    ReadFirst,
    /// The change is claimed, with this evidence, and sent.
    Send(T),
    Held {
        reason: Reason,
        detail: String,
    },
    Rejected {
        reason: Reason,
        detail: String,
    },
}

#[cfg(test)]
impl<T> ChangePlan<Vec<T>> {
    /// Returns the plan in short, for tables of cases.
    pub(super) fn in_short(self, describe: impl Fn(&T) -> String) -> String {
        match self {
            ChangePlan::ReadFirst => "read".into(),
            ChangePlan::Send(entries) => entries.iter().map(describe).collect::<Vec<_>>().join(", "),
            ChangePlan::Held { reason, .. } => format!("held {reason}"),
            ChangePlan::Rejected { reason, .. } => format!("rejected {reason}"),
        }
    }
}
