//! Lanes: who goes first when the quota is short.

/// The priority class of a call, from the most to the least urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// A single cheap call that decides whether a refused key works again. Passes the refusal hold, nothing else.
    Probe,
    /// A wish with priority 1: may use the reserved places and is not paced.
    Operator,
    /// Bulk pushes.
    Push,
    /// Polls.
    Poll,
}

impl Lane {
    /// All lanes, most urgent first.
    pub const ALL: [Lane; 4] = [Lane::Probe, Lane::Operator, Lane::Push, Lane::Poll];

    /// The word used in tables, logs and `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Lane::Probe => "probe",
            Lane::Operator => "operator",
            Lane::Push => "push",
            Lane::Poll => "poll",
        }
    }
}
