//! Decisions: pure functions from facts and changes to a plan. No I/O, no clock, no randomness.
//!
//! Each file is one decision, with its rules by their numbers in docs/rules.md; docs/reconciliation.md
//! explains them with examples. A decision covers one stock level, order or shipment. The caller passes no
//! subject with a change in flight or in doubt, because such a change makes the next change of its subject
//! wait.
//!
//! This module keeps no state: a retry is a new plan, from facts read again.

pub mod base;
mod bounds;
pub mod brake;
mod cell;
mod count;
pub mod create;
pub mod doubt;
pub mod fact;
pub mod isolation;
pub mod packing;
mod plan;
pub mod proof;
mod quantity;
pub mod shipment;
pub mod tracking;
pub mod unshown;
pub mod update;

pub use cell::{
    Base, CellFact, CellInput, CellPlan, CellWish, Change, Count, CountMark, Decision, Outcome, Pair, Policy,
    Standing, Step, Word,
};
pub use plan::Plan;
pub use quantity::decide;
pub use unshown::Lack;
