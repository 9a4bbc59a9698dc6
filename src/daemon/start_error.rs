//! Errors that prevent or end a start of the daemon.

use crate::client::SetupError;
use crate::config::KeyError;
use crate::projection::ProjectionError;
use crate::schedule::DriverError;
use crate::store::{LockError, StoreError};
use std::path::PathBuf;

/// An error that prevents or ends a start of the daemon.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process holds the lock of this database.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The mirror of another projection version cannot be upgraded.
    #[error(transparent)]
    Projection(#[from] ProjectionError),
    /// The keys cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The HTTP transport cannot be set up.
    #[error(transparent)]
    Transport(#[from] SetupError),
    /// The scheduler failed.
    #[error(transparent)]
    Schedule(#[from] DriverError),
    /// The database belongs to another account.
    #[error(
        "the platform at {base_url} lists none of the {known} warehouse(s) in {}, so it is another account and \
         nothing was sent: restore the right key and address, or name a new file in `database.path`",
        database.display()
    )]
    OtherAccount {
        /// The address of the platform.
        base_url: String,
        /// The number of warehouses in the database.
        known: usize,
        /// The path of the database.
        database: PathBuf,
    },
    /// The account could not be checked. The start goes on; a probe repeats the check.
    #[error("{0}")]
    Unverified(String),
}
