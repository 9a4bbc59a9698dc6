//! The daemon: start order, supervision, drain, stop. The only wiring: rooms below take plain values, and meet here.
//!
//! Start: lock → database (migrations) → session (mend what a crash left) → the account's budget as the journal
//! remembers it → client → schedules → ready. Stop: nothing new starts → calls waiting for a place give up → calls in
//! flight conclude → session ends → WAL folded in → lock falls.
//!
//! One loop ([`supervise`]) owns all runs: one slot per kind of job, and a trigger that comes while its job runs makes
//! it run once more afterwards, however many came.

mod answer;
mod ask;
mod belonging;
mod checkup;
mod clock;
mod early;
mod error;
mod keys;
mod metrics;
mod notify;
mod once;
mod patience;
mod settings;
mod start;
mod supervise;
mod turns;

pub use answer::{Question, Ran};
pub use ask::{AskError, ask, find_products, prove_keys, read_components, run_job, verify};
pub use clock::{SystemClock, boot_id};
pub use error::StartError;
pub use notify::reload_refused;
pub use once::Once;
pub use settings::limits;
pub use start::Daemon;
pub use turns::Turns;

use crate::config::Config;
use crate::job::{self, JobError, Preview};
use crate::model::Clock;
use crate::store::Store;

/// What the next push would send, from the facts at hand; makes no call and writes nothing.
pub async fn preview(config: &Config, store: &Store, clock: &dyn Clock) -> Result<Preview, JobError> {
    job::preview(store, &settings::jobs(config), (clock.now(), clock.moment())).await
}
