//! The set-up of logging by the kind of stderr.
//!
//! On a terminal the format is text, whatever the configuration says, because it configures the daemon's log.
//! For JSON on a terminal, use a pipe. Under systemd each line carries its priority.

use super::CommandFailure;
use super::environment::environment;
use crate::telemetry::{self, LogFormat, LogHandle};
use rustix::fs::fstat;
use std::io::{IsTerminal, stderr};

/// Sets up logging for the process. The result can change the level later.
pub(super) fn init_logging(format: LogFormat, level: &str) -> Result<LogHandle, CommandFailure> {
    let format = if stderr().is_terminal() { LogFormat::Text } else { format };
    let is_journal = environment("JOURNAL_STREAM")
        .zip(fstat(stderr()).ok())
        .is_some_and(|(stream, stat)| stream == format!("{}:{}", stat.st_dev, stat.st_ino));
    telemetry::init_logging(format, level, is_journal).map_err(CommandFailure::cannot("set up logging"))
}
