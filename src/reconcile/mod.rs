//! Decisions: pure functions from facts and wishes to a plan. No I/O, no clock, no randomness.
//!
//! Each file is one decision, with its rules in `rules.md`'s numbering; `docs/reconciliation.md` explains them
//! with examples. A decision looks at one thing (a cell, an order, a shipment); whoever calls it has left out
//! what is under way, because a wish in flight or in doubt makes the next one of its thing wait.
//!
//! Nothing is remembered here: a retry is a new plan, from facts read anew.

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
