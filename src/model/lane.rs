//! Lanes: the priority classes of calls, which order them when the quota is short.

use super::code_enum;

code_enum! {
    /// The priority class of a call, from the most to the least urgent.
    pub(crate) enum Lane {
        /// A single cheap call that checks a refused key. It passes the refusal hold, and no other hold.
        Probe = "probe",
        /// A change with priority 1. It may use the reserve of the quota and is not paced.
        Operator = "operator",
        Push = "push",
        Poll = "poll",
    }
}
