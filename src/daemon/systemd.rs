//! Notifications to systemd: ready, status line, watchdog, stopping.
//!
//! Without systemd they do nothing. An error is logged at debug level and otherwise ignored.

use sd_notify::NotifyState;
use std::time::Duration;

pub(super) fn notify_ready(status: &str) {
    send_states(&[NotifyState::Ready, NotifyState::Status(&without_control_chars(status))]);
}

/// Reports the reason of a wait, and extends the start time-out by one minute.
pub(super) fn notify_waiting(status: &str) {
    let minute = NotifyState::ExtendTimeoutUsec(60_000_000);
    send_states(&[minute, NotifyState::Status(&without_control_chars(status))]);
}

/// Reports that a reload began; [`notify_ready`] ends it, in success and failure.
pub(super) fn notify_reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        send_states(&[NotifyState::Reloading, now]);
    }
}

/// Reports that a new configuration is invalid, as a completed reload.
pub(crate) fn notify_reload_refused() {
    notify_reloading();
    notify_ready("works on as before: the changed configuration cannot be used; run `tallyd check`");
}

pub(super) fn notify_stopping() {
    send_states(&[NotifyState::Stopping, NotifyState::Status("finishing the calls in flight")]);
}

pub(super) fn notify_status(line: &str) {
    send_states(&[NotifyState::Status(&without_control_chars(line))]);
}

/// Notifies the watchdog. Only the supervising loop calls this, so that a hanging loop is detected.
pub(super) fn notify_alive() {
    send_states(&[NotifyState::Watchdog]);
}

pub(super) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn send_states(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be notified");
    }
}

/// Replaces control characters, because a newline would begin another assignment.
fn without_control_chars(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
