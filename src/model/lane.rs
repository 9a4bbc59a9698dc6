//! Lanes: the priority classes of calls, which order them when the quota is short.

/// The priority class of a call, from the most to the least urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// A single cheap call that checks a refused key. It passes the refusal hold, and no other hold.
    Probe,
    /// A change with priority 1. It may use the reserve of the quota and is not paced.
    Operator,
    /// Bulk pushes.
    Push,
    /// Polls.
    Poll,
}

impl Lane {
    /// All lanes, most urgent first.
    pub const ALL: [Lane; 4] = [Lane::Probe, Lane::Operator, Lane::Push, Lane::Poll];

    /// Returns the code in tables, logs and `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Lane::Probe => "probe",
            Lane::Operator => "operator",
            Lane::Push => "push",
            Lane::Poll => "poll",
        }
    }
}
