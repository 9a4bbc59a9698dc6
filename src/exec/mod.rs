//! Execution: the shared parts of all jobs. Here the client and the store meet.
//!
//! A trigger only starts a job; the job reads its work from the store, so that recovery and daily work are
//! one path. A run is always *read* (store) → *fetch* (client, through the limiter) → *plan* (pure) →
//! *commit* (one transaction a page) → *report*. A push is *claim* (commit) → *send* → *complete* (commit).
//! No call is made inside a write transaction.
//!
//! | files | subject |
//! | --- | --- |
//! | `context`, `error`, `run`, `run_args` | dependencies of a job, and the bracket of a run |
//! | `call` | the only way to the platform: reservation, exchange, one send, outcome for the limiter |
//! | `commit_retry` | commits of answers while the database fails |
//! | `reads`, `pager`, `balances`, `balances_reader`, `kits`, `lists`, `preflight` | recorded reads |
//! | `quarantine`, `key_probe` | entries that fail, a refused key |
//! | `start_budget`, `quota_lift`, `change_events` | starts of a few stock levels, a lifted wait, log lines |

pub(crate) mod balances;
pub(crate) mod balances_reader;
pub(crate) mod call;
pub(crate) mod change_events;
mod commit_retry;
mod context;
mod error;
pub(crate) mod key_probe;
pub(crate) mod kits;
pub(crate) mod lists;
pub(crate) mod pager;
pub(crate) mod preflight;
pub(crate) mod quarantine;
mod quota_lift;
pub(crate) mod reads;
pub(crate) mod run;
mod run_args;
pub(crate) mod start_budget;

pub(crate) use change_events::log_released;
pub(crate) use context::{BackupSettings, QuantitySettings};
pub use context::{JobContext, JobSettings, JournalRetention};
pub(crate) use error::JobError;
pub(crate) use key_probe::{KeyStatus, probe_key};
pub(crate) use quota_lift::apply_lifted_wait;
pub use quota_lift::lift_wait;
pub use run::FinishedRun;
pub(crate) use run::{RunEnd, RunReport, with_run};
pub(crate) use run_args::RunArgs;
