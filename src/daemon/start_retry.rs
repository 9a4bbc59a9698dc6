//! The retry of a start or reload while the database is locked or its disk fails.
//!
//! A running daemon survives both. If a start failed instead, systemd would restart it ten times within ten
//! minutes and then leave it stopped (`StartLimitBurst=` in systemd/tallyd.service).

use super::start_error::StartError;
use super::systemd;
use crate::model::Clock;
use crate::store::StoreError;
use crate::telemetry::event;
use std::time::Duration;

/// The pause between two attempts. Each attempt also waits for the lock itself.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Returns the result of an attempt; `None`, after a pause, for an error after which `may_retry` is true.
///
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
