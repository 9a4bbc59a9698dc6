//! What systemd is told: ready, a line of status, that the loop makes progress, that it stops.
//!
//! Without systemd all of it is nothing. A socket that is gone is not worth failing for.

use sd_notify::NotifyState;
use std::time::Duration;

/// Says that the start is complete.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
}

/// Says what a start waits for, and asks for a minute more: it is no start that hangs.
pub(super) fn waits(status: &str) {
    let minute = NotifyState::ExtendTimeoutUsec(60_000_000);
    tell(&[minute, NotifyState::Status(&one_line(status))]);
}

/// Says that a reload began; [`ready`] ends it, whether it succeeded or not.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Says that a changed configuration cannot be used, in the words of a reload that is over.
pub fn reload_refused() {
    reloading();
    ready("works on as before: the changed configuration cannot be used; run `tallyd check`");
}

/// Says that the daemon stops.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing the calls in flight")]);
}

/// A line a person can read in `systemctl status`.
pub(super) fn status(line: &str) {
    tell(&[NotifyState::Status(&one_line(line))]);
}

/// Feeds the watchdog. Called by the supervising loop itself, so that a loop that hangs is not fed.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often the watchdog wants to be fed: half of what systemd allows.
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be told");
    }
}

/// A newline in a status would be read as another assignment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
