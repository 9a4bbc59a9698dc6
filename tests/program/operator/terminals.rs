//! Terminals: one that closes ends its daemon, and a narrow one shows whole tables.

use crate::bounds::configured;
use crate::support::{World, tool};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A shell on a terminal of its own; util-linux's `script` makes the terminal.
struct Terminal {
    script: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Terminal {
    /// Runs a line of the shell with the program as `$0` and the configuration as `$1`.
    fn run(line: &str, config: &Path) -> Self {
        let program = env!("CARGO_BIN_EXE_tallyd");
        let command = format!("sh -c '{line}' {program} {}", config.display());
        // What started the tests may ignore the signal, and every child would inherit that.
        let mut script = Command::new("env")
            .args(["--default-signal=HUP", "script", "-qefc", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(script.stdout.take().unwrap()).lines();
        Self { script, output }
    }

    async fn until(&mut self, words: &str) -> String {
        while let Some(line) = self.output.next_line().await.unwrap() {
            if line.contains(words) {
                return line;
            }
        }
        panic!("the output ended before `{words}`");
    }

    async fn rest(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}

/// Waits until a process is gone.
async fn until_gone(pid: &str) {
    let process = Path::new("/proc").join(pid);
    for _ in 0..1500 {
        if !process.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} runs on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_ends_in_order_when_its_terminal_closes_and_reloads_before() {
    if !tool("script") {
        return;
    }
    let world = World::new().await;
    let config = configured(&world, "");
    let mut terminal = Terminal::run("echo pid $$; exec \"$0\" --config \"$1\" run", &config);
    let line = terminal.until("pid ").await;
    let pid = line.trim().trim_start_matches("pid ").to_owned();
    terminal.until("daemon.ready").await;
    std::fs::write(&config, world.toml("[log]\nlevel = \"debug\"\n")).unwrap();
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    terminal.until("config.reloaded").await;
    // The end of `script` closes the terminal, as a window that is closed does.
    terminal.script.kill().await.unwrap();
    until_gone(&pid).await;
    assert_eq!(world.number("SELECT count(*) FROM session WHERE ended_ms IS NULL").await, 0, "in good order");
    assert_eq!(world.number("SELECT count(*) FROM session").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_ends_when_its_terminal_closes() {
    if !tool("script") {
        return;
    }
    let line = "echo pid $$; exec \"$0\" sandbox --listen 127.0.0.1:0 --skus 30";
    let mut terminal = Terminal::run(line, Path::new("-"));
    let pid = terminal.until("pid ").await.trim().trim_start_matches("pid ").to_owned();
    terminal.until("gateway key").await;
    terminal.script.kill().await.unwrap();
    until_gone(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_80_by_24_shows_the_status_and_whole_tables() {
    if !tool("script") {
        return;
    }
    let world = World::new().await;
    let config = configured(&world, "");
    world.track_all().await;
    world.once().await;
    for n in 0..30 {
        world.change(&format!("a-key-of-another-program-{n}"), "quantity.move", "{}").await;
    }
    world.once().await;
    let lines = |command: &str| {
        let line = format!("stty cols 80 rows 24; exec \"$0\" --config \"$1\" {command}");
        Terminal::run(&line, &config).rest()
    };
    let width = |line: &String| line.chars().count();
    let list = lines("outbox list").await;
    let table: Vec<&String> = list.iter().filter(|line| line.contains("quantity.move")).collect();
    assert!(!table.is_empty() && table.iter().all(|line| width(line) <= 80), "{list:#?}");
    let status = lines("status").await;
    let height: usize = status.iter().map(|line| width(line).max(1).div_ceil(80)).sum();
    assert!(height <= 24, "{height} lines: {status:#?}");
    assert!(status.last().unwrap().contains("attention"), "{status:#?}");
}
