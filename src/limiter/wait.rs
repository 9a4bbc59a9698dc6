//! The answer of every guard: go, or wait, and whether time alone ends the wait.

use crate::model::Moment;

/// What a call that may not go waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Look again then; nothing has to happen first.
    Until(Moment),
    /// Something has to happen (a call concludes, a hold is lifted), and whoever makes it happen looks again.
    Event,
}

impl Wait {
    /// The one that ends first; an event has no time.
    pub(super) fn sooner(self, other: Wait) -> Wait {
        match (self, other) {
            (Wait::Until(one), Wait::Until(two)) => Wait::Until(one.min(two)),
            (Wait::Until(one), Wait::Event) | (Wait::Event, Wait::Until(one)) => Wait::Until(one),
            (Wait::Event, Wait::Event) => Wait::Event,
        }
    }
}
