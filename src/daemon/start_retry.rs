//! The wait of a start for a locked database or a full disk.
//!
//! A running daemon survives both. If a start failed instead, systemd would restart it ten times within ten
//! minutes and then leave it stopped (`StartLimitBurst=` in systemd/tallyd.service).

use super::systemd;
use crate::model::Clock;
use crate::store::StoreError;
use crate::telemetry::event;
use std::time::Duration;

/// The pause between two attempts. Each attempt also waits for the lock itself.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Reports the reason to systemd and the log, then sleeps until the next attempt.
pub(super) async fn pause_before_retry(error: &StoreError, doing: &str, clock: &dyn Clock) {
    systemd::notify_waiting(&format!("cannot {doing} yet: {error}"));
    systemd::notify_alive();
    tracing::error!(
        event = event::DATABASE_WRITE_FAILED,
        "cannot {doing} yet; tallyd retries until it succeeds: {error}"
    );
    clock.sleep(RETRY_PAUSE).await;
}
