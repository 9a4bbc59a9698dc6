//! Notifications to systemd: ready, status line, watchdog, stopping.
//!
//! Without systemd they do nothing. An error is logged at debug level and otherwise ignored: a message that nobody
//! reads is dropped, because the daemon works without its reader.

use sd_notify::NotifyState;
use std::fmt::Write as _;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
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
    if let Err(error) = try_send_states(states) {
        tracing::debug!(%error, "systemd could not be notified");
    }
}

/// Sends without waiting for room. `sd_notify::notify` would wait, and takes the name of an abstract socket for a path.
fn try_send_states(states: &[NotifyState<'_>]) -> std::io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    }?;
    let mut message = String::new();
    states.iter().for_each(|state| writeln!(message, "{state}").expect("text grows in memory"));
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

/// Replaces control characters, because a newline would begin another assignment.
fn without_control_chars(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
