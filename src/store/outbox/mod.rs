//! The outbox's tables: changes, their transitions, and the decisions on them.

mod acknowledge;
pub(super) mod brake;
pub(super) mod changes;
pub(super) mod evidence;
pub(super) mod in_doubt;
pub(super) mod list;
pub(super) mod not_shown;
pub(super) mod queued;
pub(super) mod resolve;
pub(super) mod transitions;
mod units_taken;
pub(super) mod window;
