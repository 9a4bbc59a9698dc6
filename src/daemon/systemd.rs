//! Notifications to systemd: ready, status line, watchdog, stopping.
//!
//! Without systemd they do nothing. An error is logged at debug level and otherwise ignored.

use sd_notify::NotifyState;
use std::time::Duration;

/// Reports that the start is complete.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
}

/// Reports the reason of a wait, and extends the start time-out by one minute.
pub(super) fn waits(status: &str) {
    let minute = NotifyState::ExtendTimeoutUsec(60_000_000);
    tell(&[minute, NotifyState::Status(&one_line(status))]);
}

/// Reports that a reload began; [`ready`] ends it, in success and failure.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Reports that a new configuration is invalid, as a completed reload.
pub fn reload_refused() {
    reloading();
    ready("works on as before: the changed configuration cannot be used; run `tallyd check`");
}

/// Reports that the daemon stops.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing the calls in flight")]);
}

/// Sets the line in `systemctl status`.
pub(super) fn status(line: &str) {
    tell(&[NotifyState::Status(&one_line(line))]);
}

/// Notifies the watchdog. Only the supervising loop calls this, so that a hanging loop is detected.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// Returns the interval of watchdog notifications: half of systemd's limit.
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be told");
    }
}

/// Replaces control characters, because a newline would begin another assignment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
