//! Why the daemon does not start, or does not go on.

use crate::client::SetupError;
use crate::config::KeyError;
use crate::job::JobError;
use crate::schedule::DriverError;
use crate::store::{LockError, StoreError};
use std::path::PathBuf;

/// Why the daemon does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another one works on this database.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the last version recorded cannot be gone on with.
    #[error(transparent)]
    Fold(#[from] JobError),
    /// The keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The way to the service.
    #[error(transparent)]
    Transport(#[from] SetupError),
    /// The schedules.
    #[error(transparent)]
    Schedule(#[from] DriverError),
    /// The database is another company's.
    #[error(
        "the service at {base_url} lists none of the {known} warehouse(s) that {} knows, so it is another company's \
         account and nothing was sent: put the right key and address back, or name a new file in `database.path`",
        database.display()
    )]
    OtherAccount {
        /// What was spoken to.
        base_url: String,
        /// How many warehouses are known.
        known: usize,
        /// The database.
        database: PathBuf,
    },
    /// Nobody knows yet whose account it is. It does not end the start: a probe will show it.
    #[error("{0}")]
    Unproved(String),
}
