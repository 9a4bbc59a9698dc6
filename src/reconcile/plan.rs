//! What is decided on one wish that is no quantity. Quantities have plans of their own: many wishes, one entry.

use crate::outbox::Reason;

/// What happens to a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan<T> {
    /// What it depends on must be read first.
    Read,
    /// It is claimed, with this kept, and sent.
    Go(T),
    /// A person must say.
    Held {
        /// Why.
        reason: Reason,
        /// On what, and what to do.
        detail: String,
    },
    /// The answer lacks what it names. Where a second one lacks it too, it is held, or refused for good if it is known to be
    /// another's.
    Lacking {
        /// Why, once a second answer agrees.
        reason: Reason,
        /// The missing record, and what to do.
        detail: String,
    },
    /// Refused for good.
    Rejected {
        /// Why.
        reason: Reason,
        /// On what, and what to do.
        detail: String,
    },
}
