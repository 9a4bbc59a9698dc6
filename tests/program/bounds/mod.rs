//! Bounds of the installed program: memory, files beside the database, output to a terminal.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first surprise, and nobody imports it"
)]

mod backlog;
mod files;
mod lists;
mod memory;
mod terminal;

use crate::support::{self, World};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tallyd::store::{DatabaseLock, LockState};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// Returns a command of the program with this configuration.
pub fn program(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Waits until no process holds the lock by accident.
///
/// A program that another test starts inherits all our open files until its exec, and with them the lock of a
/// database that was made here.
async fn unlocked(config: &Path) {
    let database = config.with_file_name("tallyd.db");
    for _ in 0..100 {
        if !matches!(DatabaseLock::inspect(&database), Ok(LockState::Held { .. })) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs a command of the program to its end.
pub async fn tallyd(config: &Path, args: &[&str]) -> Output {
    unlocked(config).await;
    program(config).args(args).output().await.unwrap()
}

/// Writes the world's configuration beside its database; returns its path.
pub fn configured(world: &World, more: &str) -> PathBuf {
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml(more)).unwrap();
    config
}

fn status_mib(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// The running program as a process of its own, with its log.
pub struct Running {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Running {
    pub async fn start(config: &Path) -> Self {
        unlocked(config).await;
        let mut child = program(config).arg("run").stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, log }
    }

    /// Returns the next line of the log with this event; fails if the log ends before it.
    pub async fn until(&mut self, event: &str) -> String {
        let mut before = Vec::new();
        while let Some(line) = self.log.next_line().await.unwrap() {
            if line.contains(&format!("\"event\":\"{event}\"")) {
                return line;
            }
            before.push(line);
        }
        panic!("the log ended before {event}: {before:#?}")
    }

    /// Returns the peak memory of the process, in MiB.
    pub fn peak_mib(&self) -> u64 {
        status_mib(self.child.id().unwrap(), "VmHWM:")
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Stops the process with SIGTERM; returns its exit code.
    pub async fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        // A full pipe would block the end.
        while self.log.next_line().await.unwrap().is_some() {}
        self.child.wait().await.unwrap().code()
    }
}
