//! Jobs: one file per kind. Only here the client and the store meet.
//!
//! A trigger only starts a job; the job reads its work from the store, so that recovery and daily work are
//! one path. A run is always *read* (store) → *fetch* (client, through the limiter) → *plan* (pure) →
//! *commit* (one transaction a page) → *report*. A push is *claim* (commit) → *send* → *complete* (commit).
//! No call is made inside a write transaction.
//!
//! [`call`] is the only way to the platform: it gets a reservation, commits the exchange, sends once and
//! reports the outcome to the limiter. [`record`] projects an accepted answer into the mirror, live and in a
//! replay.

mod apart;
mod aside;
mod backup;
mod balances;
mod brake;
mod business_health;
mod call;
mod carry;
mod company;
mod context;
mod deliver;
mod early;
mod find;
mod fold;
mod health;
mod input;
mod insist;
mod kit_components;
mod lacking;
mod lift;
mod listing_templates;
mod moved;
mod new_fold;
mod order_lines;
mod page_size;
mod pages;
mod plan;
mod preview;
mod probe;
mod prune;
mod push;
mod record;
mod replay;
mod runner;
mod settle;
mod shipments;
mod storefronts;
mod suppliers;
mod tally;
mod tell;
mod top_selling;
mod verify;
mod vouch;
mod warehouses;
mod work_queue;

pub use company::lists_any;
pub use context::{BackupSettings, Context, QuantitySettings, Settings};
pub use early::{EARLY_LOOK, read_asked, read_early};
pub use find::{find_products, read_components};
pub use fold::FOLD;
pub use health::{
    Code, Daemon as DaemonState, Finding, Health, Look, Severity, health, replaced, told as told_hold,
};
pub use input::{Input, InputError};
pub use lift::{hear_lifted, lift_wait};
pub use new_fold::{FoldChanged, go_on};
pub use plan::preview;
pub use preview::{Planned, Preview};
pub use probe::{Probed, probe_key};
pub use prune::{Meant, Pruned, Retention, prune};
pub use replay::{Facts, Replay, Replayed};
pub use runner::{Finished, run, run_on};
pub use settle::{due as settle_due, wait as settle_wait};
pub use tell::tell_released;
pub use verify::{Drift, VERIFY_CALLS, Verified, verify};

use crate::journal::RunOutcome;
use crate::model::{JobKind, Timestamp};
use crate::store::StoreError;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Summary in one line, for the log and `job list`.
    pub summary: String,
    /// Job that has work because of this run.
    pub wakes: Option<JobKind>,
    /// Time at which the job has work again, if no trigger comes before.
    pub again_at: Option<Timestamp>,
}

impl Report {
    fn ok(summary: impl Into<String>) -> Self {
        Self { outcome: RunOutcome::Ok, summary: summary.into(), wakes: None, again_at: None }
    }

    fn partial(summary: impl Into<String>) -> Self {
        Self { outcome: RunOutcome::Partial, summary: summary.into(), wakes: None, again_at: None }
    }

    /// Combines both halves of a run. The outcome is ok only if both are.
    fn and(self, other: &Self) -> Self {
        let outcome = if self.outcome == RunOutcome::Ok { other.outcome } else { self.outcome };
        let wakes = self.wakes.or(other.wakes);
        let again_at = self.again_at.or(other.again_at);
        Self { outcome, summary: format!("{}; {}", self.summary, other.summary), wakes, again_at }
    }
}

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The daemon is stopping; unfinished work stays due.
    #[error("tallyd is stopping")]
    Stopped,
    /// The platform refuses the key.
    #[error(
        "the service refuses the key: {0}; check both key files, the right key is taken without a restart"
    )]
    Refused(String),
    /// The platform refused this content for good.
    #[error("the service refused {what}: {why}")]
    Rejected {
        /// Subject of the request.
        what: String,
        /// The platform's message.
        why: String,
        /// The HTTP status.
        status: Option<u16>,
    },
    /// All attempts failed.
    #[error("cannot read {what}: {why}; it is tried again at the next run")]
    GivenUp {
        /// Subject of the request.
        what: String,
        /// Reason of the last failure.
        why: String,
    },
    /// An implausible answer.
    #[error("{0}")]
    Implausible(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
