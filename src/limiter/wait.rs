//! Result of a guard that stops a call: wait until a time, or for an event.

use crate::model::Moment;

/// Condition that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A time: the call checks again then.
    Until(Moment),
    /// An event, such as a completed call or a lifted hold. The cause of the event runs the admission loop.
    Event,
}

impl Wait {
    /// Returns the wait that ends first; an event counts as later than any time.
    pub(super) fn sooner(self, other: Wait) -> Wait {
        match (self, other) {
            (Wait::Until(one), Wait::Until(two)) => Wait::Until(one.min(two)),
            (Wait::Until(one), Wait::Event) | (Wait::Event, Wait::Until(one)) => Wait::Until(one),
            (Wait::Event, Wait::Event) => Wait::Event,
        }
    }
}
