//! Errors that prevent or end a start of the daemon, and the retry after a locked database, a full disk or a
//! server that is away.
//!
//! A running daemon survives these. If a start failed instead, systemd would restart it ten times within ten
//! minutes and then leave it stopped (`StartLimitBurst=` in systemd/tallyd.service).

use super::systemd;
use crate::client::SetupError;
use crate::config::KeyError;
use crate::model::{Clock, counted};
use crate::projection::ProjectionError;
use crate::schedule::DriverError;
use crate::store::{DatabaseLocation, LockError, StoreError};
use crate::telemetry::event;
use std::time::Duration;

/// The pause between two attempts, also at reading the files of a refused key. Each attempt also waits for the lock itself.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(
        "the tallyd on {host} leads this account and makes its calls, so this host makes none: let it work, or stop it \
         there (`sudo systemctl stop tallyd`). If that host is gone, start the daemon here: it takes over"
    )]
    Led { host: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Projection(#[from] ProjectionError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0}")]
    FileHangs(String),
    #[error(transparent)]
    Transport(#[from] SetupError),
    #[error(transparent)]
    Schedule(#[from] DriverError),
    #[error(
        "the platform at {base_url} lists none of the {} in {database}, so it is another account \
         and nothing was sent: restore the right key and address, or name a new database in `{}`",
        counted(known, "warehouse"),
        database.setting()
    )]
    OtherAccount { base_url: String, known: usize, database: DatabaseLocation },
    /// The account could not be checked. The start goes on; a probe repeats the check.
    #[error("{0}")]
    Unverified(String),
}

/// Returns the result of an attempt; `None`, after a pause, for an error after which `may_retry` is true.
/// Reports such an error to systemd and the log. `doing` completes "cannot … yet".
pub(super) async fn check_attempt<T>(
    doing: &str,
    may_retry: impl Fn(&StoreError) -> bool,
    clock: &dyn Clock,
    attempt: Result<T, StartError>,
) -> Result<Option<T>, StartError> {
    let error = match attempt {
        Err(StartError::Store(error)) if may_retry(&error) => error,
        ended => return ended.map(Some),
    };
    systemd::notify_waiting(&format!("cannot {doing} yet: {error}"));
    systemd::notify_alive();
    tracing::error!(
        event = event::DATABASE_WRITE_FAILED,
        "cannot {doing} yet; tallyd retries until it succeeds: {error}"
    );
    clock.sleep(RETRY_PAUSE).await;
    Ok(None)
}
