//! What stderr is, and logging set up for it: the only place that asks the environment about it.
//!
//! On a terminal lines are for people, whatever the configuration says: it speaks of the daemon, and a person who wants
//! JSON there has a pipe. Under systemd each line carries its priority.

use super::Failure;
use crate::daemon::SystemClock;
use crate::model::Clock;
use crate::telemetry::{self, Format, Stderr, Telemetry};
use rustix::fs::fstat;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Sets up logging for the process. What it returns changes the level later.
pub(super) fn begin(format: Format, level: &str) -> Result<Telemetry, Failure> {
    let stderr = kind();
    let format = if stderr == Stderr::Terminal { Format::Text } else { format };
    telemetry::init(format, level, stderr, elapsed).map_err(|error| Failure::failed(error.to_string()))
}

fn kind() -> Stderr {
    if stderr().is_terminal() {
        return Stderr::Terminal;
    }
    // The clippy ban on reading the environment has one room without it: this one.
    let stream = std::env::vars().find(|(name, _)| name == "JOURNAL_STREAM");
    match (stream, fstat(stderr())) {
        (Some((_, stream)), Ok(stat)) if stream == format!("{}:{}", stat.st_dev, stat.st_ino) => {
            Stderr::Journal
        }
        _ => Stderr::Other,
    }
}

fn elapsed() -> Duration {
    Duration::from_millis(SystemClock.moment().0.unsigned_abs())
}
