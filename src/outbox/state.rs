//! The states of a wish, and the only moves between them (rules.md 16).
//!
//! ```text
//!               ┌────────────── proved not done ──────────────┐
//!               ▼                                             │
//!  insert ─► pending ────────────── claim ───────────────► sending ──► applied
//!             │ ▲ ▲ └─► rejected, cancelled                 │   │         ▲
//!             │ │ └───────── not landed ─────────┐          │   └─► rejected
//!             │ │ released                       │          │ no answer   │
//!             ▼ │                                └───────┐  ▼             │
//!            held ◄───────── only a person can say ───── in_doubt ────────┘
//!             └─► rejected, cancelled                       └─► rejected    landed
//! ```
//!
//! | state | who moves it on | how long it may last |
//! | --- | --- | --- |
//! | `pending` | the push, with the next claim; a person may cancel it | until quota and holds allow; a tracking wish until its shipment is there |
//! | `sending` | the push that claimed it, or the next start after a crash | one call and its time-out |
//! | `held` | a person: `outbox release`, `resolve`, `retry`, `cancel`; a later count cancels it | until then |
//! | `in_doubt` | `settle`, by looking at the service; else a person with `outbox resolve` | the quiet time and two looks, or until a person decides; never cancelled |
//! | `applied`, `rejected`, `cancelled` | nobody: settled, for ever | – |
//!
//! A wish the service already agrees with is claimed and concluded too, in one commit and without a call.

use std::fmt;
use std::str::FromStr;

/// Where a wish stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Waits for its turn.
    Pending,
    /// Claimed: the call is about to be, or being, made.
    Sending,
    /// Confirmed by the service.
    Applied,
    /// Needs a person's word.
    Held,
    /// Refused for good, by us or by the service.
    Rejected,
    /// Sent, outcome unknown.
    InDoubt,
    /// Withdrawn, or superseded by a later count.
    Cancelled,
}

impl State {
    /// Every state.
    pub const ALL: [State; 7] = [
        State::Pending,
        State::Sending,
        State::Applied,
        State::Held,
        State::Rejected,
        State::InDoubt,
        State::Cancelled,
    ];

    /// Its name in the table, the logs and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Sending => "sending",
            State::Applied => "applied",
            State::Held => "held",
            State::Rejected => "rejected",
            State::InDoubt => "in_doubt",
            State::Cancelled => "cancelled",
        }
    }

    /// Whether a wish may move from here to `to`.
    pub fn may_become(self, to: State) -> bool {
        use State::{Applied, Cancelled, Held, InDoubt, Pending, Rejected, Sending};
        match self {
            Pending => matches!(to, Sending | Held | Rejected | Cancelled),
            Sending => matches!(to, Applied | Rejected | InDoubt | Pending),
            Held => matches!(to, Pending | Rejected | Cancelled),
            InDoubt => matches!(to, Applied | Pending | Rejected | Held),
            Applied | Rejected | Cancelled => false,
        }
    }

    /// Whether nothing can move it any more; exactly these have a `settled_at`.
    pub fn is_settled(self) -> bool {
        matches!(self, State::Applied | State::Rejected | State::Cancelled)
    }

    /// Whether the service may be, or come to be, changed by a request already made: the cell, order or
    /// shipment it is about is then left alone.
    pub fn is_under_way(self) -> bool {
        matches!(self, State::Sending | State::InDoubt)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = UnknownState;
    fn from_str(name: &str) -> Result<Self, UnknownState> {
        let found = State::ALL.into_iter().find(|state| state.as_str() == name);
        found.ok_or_else(|| UnknownState(name.into()))
    }
}

/// A word that is no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a wish is never `{0}`; the states are pending, sending, applied, held, rejected, in_doubt and cancelled"
)]
pub struct UnknownState(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    /// rules.md 16, written down a second time: a row is where from, a column where to, in the order of `ALL`.
    const DRAWN: [&str; 7] = [
        // pending sending applied held rejected in_doubt cancelled
        ".x.xx.x", // pending
        "x.x.xx.", // sending
        ".......", // applied
        "x...x.x", // held
        ".......", // rejected
        "x.xxx..", // in_doubt
        ".......", // cancelled
    ];

    #[test]
    fn exactly_the_drawn_moves_are_moves() {
        for (from, row) in State::ALL.into_iter().zip(DRAWN) {
            for (to, mark) in State::ALL.into_iter().zip(row.chars()) {
                assert_eq!(from.may_become(to), mark == 'x', "{from} to {to}");
            }
        }
    }

    #[test]
    fn what_is_settled_is_what_nothing_moves() {
        for state in State::ALL {
            let stuck = State::ALL.into_iter().all(|to| !state.may_become(to));
            assert_eq!(state.is_settled(), stuck, "{state}");
        }
    }

    #[test]
    fn what_is_under_way_cannot_be_cancelled() {
        for state in State::ALL.into_iter().filter(|state| state.is_under_way()) {
            assert!(!state.may_become(State::Cancelled), "{state}");
        }
    }

    #[test]
    fn every_state_is_found_by_its_name() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("failed".parse::<State>().is_err());
    }

    #[test]
    fn under_way_is_what_was_claimed_and_not_answered() {
        let under_way: Vec<String> =
            State::ALL.iter().filter(|state| state.is_under_way()).map(State::to_string).collect();
        assert_eq!(under_way, ["sending", "in_doubt"]);
    }
}
