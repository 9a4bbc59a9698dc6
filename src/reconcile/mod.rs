//! Decisions: pure functions from facts and changes to a plan. No I/O, no clock, no randomness.
//!
//! Each file is one decision, with its rules by their numbers in docs/rules.md; docs/reconciliation.md explains
//! them with examples. A decision covers one stock level, order or shipment. The caller passes no subject with
//! a change in flight or in doubt, because such a change makes the next change of its subject wait.
//!
//! This module keeps no state: a retry is a new plan, from facts read again.

mod bounds;
pub(crate) mod brake;
mod change_plan;
mod count;
pub(crate) mod count_base;
pub(crate) mod creates;
pub(crate) mod in_doubt;
pub(crate) mod isolation;
pub(crate) mod packing;
pub(crate) mod product_update;
pub mod proof;
pub(crate) mod read_admission;
pub(crate) mod shipments;
mod stock_level;
mod stock_plan;
pub(crate) mod tracking;
pub(crate) mod unshown;

pub(crate) use change_plan::ChangePlan;
pub(crate) use stock_level::{
    ChangeDecision, ChangeEffect, Count, CountBase, CountMark, CountPolicy, CountResolution, DecidedChange,
    QuantityState, StockLevelChange, StockLevelInput, StockLevelKnowledge, StockLevelPlan, StockLevelStep,
};
pub(crate) use stock_plan::plan_stock_level;
pub(crate) use unshown::ProductLack;
