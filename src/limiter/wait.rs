//! Result of a guard that stops a call: wait until a time, or for an event.

use crate::model::Moment;

/// Condition that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionWait {
    /// A time: the call checks again then.
    Until(Moment),
    /// An event, such as a completed call or a lifted hold. The cause of the event runs the admission loop.
    Event,
}

impl AdmissionWait {
    /// Returns the wait that ends first; an event counts as later than any time.
    pub(super) fn sooner_of(self, other: AdmissionWait) -> AdmissionWait {
        match (self, other) {
            (AdmissionWait::Until(one), AdmissionWait::Until(two)) => AdmissionWait::Until(one.min(two)),
            (AdmissionWait::Until(one), AdmissionWait::Event)
            | (AdmissionWait::Event, AdmissionWait::Until(one)) => AdmissionWait::Until(one),
            (AdmissionWait::Event, AdmissionWait::Event) => AdmissionWait::Event,
        }
    }
}
