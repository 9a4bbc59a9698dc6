//! Read-only rows for people and for the health judgement.

pub(super) mod call_stats;
pub(super) mod change_history;
pub(super) mod explain;
pub(super) mod health;
mod known_names;
pub(super) mod pages;
pub(super) mod status;
pub(super) mod units_at_risk;
pub(super) mod verify;
