//! A start that waits: another program holds its lock on the database for long, or the disk is full. While the daemon runs
//! it survives both; a start that ended instead would be tried ten times by systemd and then stay down.

use super::notify;
use crate::model::Clock;
use crate::store::StoreError;
use crate::telemetry::event;
use std::time::Duration;

/// Between two attempts; each of them waits for a lock by itself.
const PAUSE: Duration = Duration::from_secs(2);

/// Says what is waited for, and waits before the next attempt.
pub(super) async fn pause(error: &StoreError, doing: &str, clock: &dyn Clock) {
    notify::waits(&format!("cannot {doing} yet: {error}"));
    notify::alive();
    tracing::error!(
        event = event::DATABASE_STUCK,
        "cannot {doing} yet; it is tried again until it can be done: {error}"
    );
    clock.sleep(PAUSE).await;
}
