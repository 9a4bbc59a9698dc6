//! The number of lines that an idle daemon writes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::log_lines::parsed;
use crate::support::World;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use tallyd::config::Config;
use tallyd::model::{JobKind, Timestamp};

/// Most lines of an idle day.
const LINES_MAX: usize = 60;
/// Runs of each job before the count, in which the mirror is filled, and runs that are counted.
const RUNS: i64 = 4;
const DAY_MS: i64 = 86_400_000;

/// Returns the starts of each job in a day, by the default schedules.
fn daily_starts() -> BTreeMap<JobKind, usize> {
    let config = Config::default_for("https://service.example").unwrap();
    let begin = Timestamp::parse("2026-11-21T00:00:00Z").unwrap();
    let starts = |(kind, job): (&JobKind, &tallyd::config::JobConfig)| {
        let next = |at: &Timestamp| job.schedule.next_start(*kind, *at);
        let starts = std::iter::successors(next(&begin), next);
        (*kind, starts.take_while(|at| at.0 < begin.0 + DAY_MS).count())
    };
    config.jobs.by_kind.iter().filter(|(_, job)| job.enabled).map(starts).collect()
}

/// Returns the job whose run wrote a line.
fn job_of(line: &Value) -> String {
    let job = match line["event"].as_str().unwrap() {
        "backup.written" => "backup",
        "journal.pruned" => "prune",
        _ => line["job"].as_str().unwrap_or_else(|| panic!("a line of no job: {line}")),
    };
    job.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_daemon_writes_less_than_sixty_lines_a_day() {
    let starts = daily_starts();
    let world = World::new().await;
    world.track_all().await;
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml("")).unwrap();
    let log = world.path.with_file_name("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(&config).arg("run").stdin(Stdio::null());
    for kind in starts.keys() {
        let name = format!("TALLYD_JOBS__{}", kind.as_str().to_uppercase());
        command.env(format!("{name}__ENABLED"), "true").env(format!("{name}__SCHEDULE"), "* * * * * *");
    }
    // A server has no scheduled copies.
    let kinds: Vec<JobKind> = starts
        .keys()
        .copied()
        .filter(|kind| *kind != JobKind::Backup || world.location.server().is_none())
        .collect();
    let mut child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let after = async |first: i64| {
        let all_ran = async |world: &World| {
            for kind in &kinds {
                let runs = format!(
                    "SELECT count(*) FROM run WHERE job = '{kind}' AND outcome = 'ok' AND id > {first}"
                );
                if world.number(&runs).await < RUNS {
                    return false;
                }
            }
            true
        };
        world.until(&format!("each job ran {RUNS} times after run {first}"), all_ran).await;
        world.number("SELECT max(id) FROM run").await
    };
    let first = after(0).await;
    let last = after(first).await;
    child.kill().unwrap();
    child.wait().unwrap();

    let text = std::fs::read_to_string(&log).unwrap();
    let lines = parsed(&text);
    let mut counted = BTreeMap::<String, usize>::new();
    for line in lines.iter().skip_while(|line| line["event"] != "daemon.ready").skip(1) {
        // A copy is told by its own line, in each of its runs.
        if line["event"] == "backup.written" || line["run"].as_i64().is_none_or(|run| run > first) {
            *counted.entry(job_of(line)).or_default() += 1;
        }
    }
    assert!(last > first);
    // A summary each hour, and the start.
    let mut day = 24 + 1;
    for job in counted.keys() {
        // A job that writes in one of its runs is taken to write in each.
        day += starts[&job.parse::<JobKind>().unwrap()];
    }
    assert!(day < LINES_MAX, "{day} lines a day; these jobs write: {counted:?}\n{text}");
    assert!(world.location.server().is_some() || counted.contains_key("backup"), "{counted:?}");
}
