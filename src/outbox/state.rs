//! The states of a change, and their only transitions (docs/rules.md 6).
//!
//! ```text
//!               ┌────────────── proved not done ──────────────┐
//!               ▼                                             │
//!  insert ─► pending ────────────── claim ───────────────► sending ──► applied
//!             │ ▲ ▲ └─► rejected, cancelled                 │   │         ▲
//!             │ │ └──────── had no effect ───────┐          │   └─► rejected
//!             │ │ released                       │          │ no answer   │
//!             ▼ │                                └───────┐  ▼             │
//!            held ◄─────────── needs a decision ──────── in_doubt ────────┘
//!             └─► rejected, cancelled                       └─► rejected  took effect
//! ```
//!
//! - `pending`: the push moves it on with the next claim, as soon as quota and holds allow a call. A
//!   tracking change waits until its shipment exists. The operator may cancel the change.
//! - `sending`: the push that claimed the change moves it on, or the next start after a crash. The state
//!   lasts one call and its time-out.
//! - `held`: the operator moves it on with `outbox release`, `resolve`, `retry` or `cancel`. A later count
//!   cancels the change.
//! - `in_doubt`: `settle` moves it on after the quiet time and two checks at the platform, else the
//!   operator with `outbox resolve`. The change cannot be cancelled.
//! - `applied`, `rejected`, `cancelled`: final.
//!
//! A change whose quantity the platform shows already is claimed and completed in one commit, without a call.

use crate::model::code_enum;
use serde::Serialize;

code_enum! {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ChangeState {
        Pending = "pending",
        /// Claimed: the call starts or runs.
        Sending = "sending",
        Applied = "applied",
        /// Needs a decision of the operator.
        Held = "held",
        /// Refused permanently, by tallyd or by the platform.
        Rejected = "rejected",
        InDoubt = "in_doubt",
        /// Withdrawn, or superseded by a later count.
        Cancelled = "cancelled",
    }
}

impl ChangeState {
    /// Returns true if the transition to `to` exists.
    pub(crate) fn may_become(self, to: ChangeState) -> bool {
        use ChangeState::{Applied, Cancelled, Held, InDoubt, Pending, Rejected, Sending};
        match self {
            Pending => matches!(to, Sending | Held | Rejected | Cancelled),
            Sending => matches!(to, Applied | Rejected | InDoubt | Pending),
            Held => matches!(to, Pending | Rejected | Cancelled),
            InDoubt => matches!(to, Applied | Pending | Rejected | Held),
            Applied | Rejected | Cancelled => false,
        }
    }

    /// Returns true for a final state. Exactly the final states have a `settled_at`.
    pub fn is_final(self) -> bool {
        matches!(self, ChangeState::Applied | ChangeState::Rejected | ChangeState::Cancelled)
    }

    /// Returns true if a request already made may change the platform.
    ///
    /// No other call then touches the stock level, order or shipment of the change.
    pub(crate) fn is_in_flight(self) -> bool {
        matches!(self, ChangeState::Sending | ChangeState::InDoubt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transitions of docs/rules.md 6, stated a second time.
    ///
    /// Rows are the states before, columns the states after, in the order of `ALL`.
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
        for (from, row) in ChangeState::ALL.iter().copied().zip(DRAWN) {
            for (to, mark) in ChangeState::ALL.iter().copied().zip(row.chars()) {
                assert_eq!(from.may_become(to), mark == 'x', "{from} to {to}");
            }
        }
    }

    #[test]
    fn what_is_settled_is_what_nothing_moves() {
        for state in ChangeState::ALL.iter().copied() {
            let stuck = ChangeState::ALL.iter().copied().all(|to| !state.may_become(to));
            assert_eq!(state.is_final(), stuck, "{state}");
        }
    }

    #[test]
    fn what_is_under_way_cannot_be_cancelled() {
        for state in ChangeState::ALL.iter().copied().filter(|state| state.is_in_flight()) {
            assert!(!state.may_become(ChangeState::Cancelled), "{state}");
        }
    }

    #[test]
    fn every_state_is_found_by_its_name() {
        for state in ChangeState::ALL {
            assert_eq!(state.as_str().parse().as_ref(), Ok(state));
        }
        assert!("failed".parse::<ChangeState>().is_err());
    }

    #[test]
    fn under_way_is_what_was_claimed_and_not_answered() {
        let under_way: Vec<String> = ChangeState::ALL
            .iter()
            .filter(|state| state.is_in_flight())
            .map(ChangeState::to_string)
            .collect();
        assert_eq!(under_way, ["sending", "in_doubt"]);
    }
}
