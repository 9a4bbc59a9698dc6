//! Commands on the daemon: `init`, `run`, `check`, `status`, `web`, `pause`, `resume`, `notify`, `quota` and
//! `schema`.

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
