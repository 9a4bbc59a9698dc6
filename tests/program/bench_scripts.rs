//! The scripts of benches/ run against today's program, small. Their figures are for docs/performance.md.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::tool;
use std::process::Command;

/// Ports of the scripts' sandboxes, which no other suite uses.
const DRAIN_PORT: &str = "18791";
const START_PORT: &str = "18792";
const PEOPLE_PORT: &str = "18793";

/// Runs a script; `None` where a tool it needs is not installed.
fn output(script: &str, port: &str, args: &[&str]) -> Option<String> {
    if !(tool("sqlite3") && tool("curl")) {
        return None;
    }
    let work = tempfile::tempdir().unwrap();
    let script = format!("{}/benches/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("sh");
    command.arg(script).args(args).env("WORK", work.path()).env("PORT", port).env("SKUS", "50");
    let output = command.env("TALLYD", env!("CARGO_BIN_EXE_tallyd")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_bench_of_a_backlog_sends_each_change_in_full_calls() {
    let Some(figures) = output("drain.sh", DRAIN_PORT, &["25", "50"]) else { return };
    let rows: Vec<Vec<&str>> = figures.lines().map(|line| line.split_whitespace().collect()).collect();
    let calls = |row: &Vec<&str>| [row[0], row[7]].map(|figure| figure.parse::<u32>().unwrap());
    assert_eq!(rows.iter().map(calls).collect::<Vec<_>>(), [[25, 1], [50, 2]], "{figures}");
}

#[test]
fn the_bench_of_the_start_fills_the_journal_and_reads_the_status() {
    let Some(figures) = output("start.sh", START_PORT, &["2000", "50"]) else { return };
    for what in ["ready after", "status after"] {
        assert!(figures.lines().any(|line| line.starts_with(what)), "{figures}");
    }
}

#[test]
fn the_bench_of_what_people_wait_for_names_each_figure() {
    if !tool("time") {
        return;
    }
    let Some(figures) = output("people.sh", PEOPLE_PORT, &["50"]) else { return };
    let named = [
        "stock ",
        "stock--json ",
        "stock+changes",
        "stock--json+changes",
        "replay",
        "database",
        "explain",
        "plan",
        "outbox list",
    ];
    for what in named {
        assert!(figures.lines().any(|line| line.starts_with(what)), "{what}: {figures}");
    }
}
