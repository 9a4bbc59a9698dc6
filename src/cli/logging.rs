//! The set-up of logging by the kind of stderr.
//!
//! On a terminal the format is text, whatever the configuration says, because it configures the daemon's log.
//! For JSON on a terminal, use a pipe. Under systemd each line carries its priority.

use super::CommandFailure;
use super::environment::environment;
use crate::daemon::SystemClock;
use crate::model::Clock;
use crate::telemetry::{self, LogFormat, LogHandle, StderrKind};
use rustix::fs::fstat;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Sets up logging for the process. The result can change the level later.
pub(super) fn init_logging(format: LogFormat, level: &str) -> Result<LogHandle, CommandFailure> {
    let stderr = stderr_kind();
    let format = if stderr == StderrKind::Terminal { LogFormat::Text } else { format };
    let since_boot = || Duration::from_millis(SystemClock.moment().0.unsigned_abs());
    Ok(telemetry::init_logging(format, level, stderr, since_boot)?)
}

fn stderr_kind() -> StderrKind {
    if stderr().is_terminal() {
        return StderrKind::Terminal;
    }
    match (environment("JOURNAL_STREAM"), fstat(stderr())) {
        (Some(stream), Ok(stat)) if stream == format!("{}:{}", stat.st_dev, stat.st_ino) => {
            StderrKind::Journal
        }
        _ => StderrKind::Other,
    }
}
