//! The daemon: start order, supervision, drain, stop. The only wiring: rooms below take plain values, and meet here.
//!
//! Start: lock → database (migrations) → session (mend what a crash left) → the account's budget as the journal
//! remembers it → client → schedules → ready. Stop: nothing new starts → calls waiting for a place give up → calls in
//! flight conclude → session ends → WAL folded in → lock falls.
//!
//! One loop ([`supervise`]) owns all runs: one slot per kind of job, and a trigger that comes while its job runs makes
//! it run once more afterwards, however many came.

mod clock;
mod keys;
mod notify;
mod once;
mod settings;
mod start;
mod supervise;

pub use clock::{SystemClock, boot_id};
pub use once::Once;
pub use start::{Daemon, StartError};

use crate::config::Config;
use crate::job::{self, JobError, Preview};
use crate::journal::RunOutcome;
use crate::model::{Clock, JobKind, Trigger};
use crate::store::{Durability, Store};
use std::sync::Arc;

/// What the next push would send, from the facts at hand; makes no call and writes nothing.
pub async fn preview(config: &Config, store: &Store, clock: &dyn Clock) -> Result<Preview, JobError> {
    job::preview(store, &settings::jobs(config).quantities, clock.now()).await
}

/// Spends one call to find out whether the service accepts the keys. Takes the lock for its time.
pub async fn prove_keys(config: Config, clock: Arc<dyn Clock>) -> Result<bool, StartError> {
    let Daemon { context, .. } = Daemon::start(config, clock).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    let run =
        write.run_begin(context.session_id, JobKind::WorkQueue, Trigger::Operator, context.now()).await?;
    write.commit().await?;
    let works = job::key_works(&context, run).await.unwrap_or(false);
    let outcome = if works { RunOutcome::Ok } else { RunOutcome::Failed };
    let mut write = context.store.begin(Durability::Full).await?;
    write.run_end(run, JobKind::WorkQueue, outcome, "the keys were tried", context.now()).await?;
    write.session_end(context.session_id, context.now(), context.clock.moment()).await?;
    write.commit().await?;
    context.store.close().await?;
    Ok(works)
}
