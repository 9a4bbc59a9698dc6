//! The commands that queue a change: their waits and exit codes, names and times.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod arguments;
mod files;
mod names;
mod times;
mod waits;

use super::cli::{Desk, program};
use std::process::{Output, Stdio};

/// An account whose stock and warehouses are in the mirror.
pub(super) async fn read_desk() -> Desk {
    let desk = Desk::new().await;
    desk.world.track_all().await;
    desk.text(&["run", "--once"]).await;
    desk
}

/// Runs a command of the program in a time zone.
async fn run_in_zone(desk: &Desk, zone: &str, args: &[&str]) -> Output {
    let mut command = program(&desk.config);
    command.args(args).env("TZ", zone).stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Returns the exit code, and what was printed on both streams.
fn ended(output: &Output) -> (i32, String) {
    let text = [output.stdout.clone(), output.stderr.clone()].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}
