//! The wait of `--wait`: until each change is applied, rejected, cancelled or held.
//!
//! The states are read at an interval, because a server sends no notification of a daemon's writes.

use crate::cli::CommandFailure;
use crate::config::Config;
use crate::health::DaemonState;
use crate::present::daemon_state::daemon_state;
use crate::store::Store;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const READ_INTERVAL: Duration = Duration::from_millis(250);

/// The absence of the daemon that ends a wait; a restart is shorter.
const ABSENCE_MAX: Duration = Duration::from_secs(5);

/// Waits until no change is outstanding, for at most `limit`. Without a daemon it does not wait.
pub(super) async fn wait_for_outcomes(
    config: &Config,
    store: &Store,
    keys: &[&str],
    limit: Duration,
) -> Result<(), CommandFailure> {
    if daemon_state(config, store).await? != DaemonState::Running {
        return Ok(());
    }
    let (end, mut last_seen) = (Instant::now() + limit, Instant::now());
    // A server that restarts fails a read; the wait goes on.
    while store.outbox_has_outstanding(keys).await.unwrap_or(true) {
        let now = Instant::now();
        if daemon_state(config, store).await.unwrap_or(DaemonState::Running) == DaemonState::Running {
            last_seen = now;
        }
        if now >= end || now - last_seen >= ABSENCE_MAX {
            break;
        }
        sleep(READ_INTERVAL.min(end - now)).await;
    }
    Ok(())
}
