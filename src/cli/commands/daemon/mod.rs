//! Commands on the daemon: `init`, `run`, `check`, `status`, `web`, `pause`, `resume`, `notify`, `quota` and
//! `schema`.
//!
//! `call_budget.rs` prints the calls and waits of the account for `status`. `schedules.rs` prints the
//! schedules for `check`. `hangup.rs` tells the end of a terminal from a request to read the configuration.

mod call_budget;
pub(in crate::cli) mod check;
mod hangup;
pub(in crate::cli) mod init;
pub(in crate::cli) mod notify;
pub(in crate::cli) mod pages;
pub(in crate::cli) mod pause;
pub(in crate::cli) mod quota;
pub(in crate::cli) mod run;
mod schedules;
pub(in crate::cli) mod schema;
pub(in crate::cli) mod status;
