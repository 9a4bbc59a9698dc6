//! The wait of `--wait`: until each change is applied, rejected, cancelled or held.
//!
//! The watch of the store tells when another program has written. The states are read at an interval too: a file's
//! commit is readable only after its write was noticed, and a server sends no notification of a daemon's writes.

use crate::cli::CommandFailure;
use crate::config::Config;
use crate::health::DaemonState;
use crate::present::daemon_state::daemon_state;
use crate::store::Store;
use std::time::Duration;
use tokio::time::{Instant, timeout};

const READ_INTERVAL: Duration = Duration::from_millis(250);

/// The interval at which the daemon's lock is inspected, because its release sends no notification.
const DAEMON_INTERVAL: Duration = Duration::from_secs(5);

/// Waits until no change is outstanding, for at most `limit`. Without a daemon it does not wait. A daemon that restarts
/// is waited for: only its absence at two inspections in a row ends the wait.
pub(super) async fn wait_for_outcomes(
    config: &Config,
    store: &Store,
    keys: &[&str],
    limit: Duration,
) -> Result<(), CommandFailure> {
    let mut watch = store.watch_writes();
    let mut daemon = daemon_state(config, store).await?;
    let mut has_been_absent = daemon != DaemonState::Running;
    let end = Instant::now() + limit;
    let mut next_inspection = Instant::now() + DAEMON_INTERVAL;
    // A server that restarts fails a read; the wait goes on.
    while store.outbox_has_outstanding(keys).await.unwrap_or(true) {
        let is_absent = daemon != DaemonState::Running;
        let now = Instant::now();
        if now >= end || (is_absent && has_been_absent) {
            break;
        }
        let pause = READ_INTERVAL.min(end - now).min(next_inspection.saturating_duration_since(now));
        // Both a notification and the time-out lead to the next read.
        let _ = timeout(pause, watch.wait_for_write()).await;
        if Instant::now() >= next_inspection.min(end) {
            has_been_absent = is_absent;
            daemon = daemon_state(config, store).await.unwrap_or(daemon);
            next_inspection = Instant::now() + DAEMON_INTERVAL;
        }
    }
    Ok(())
}
