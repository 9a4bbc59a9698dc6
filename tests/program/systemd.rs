//! The units as systemd reads them, and the daemon's messages to systemd.
//!
//! The test opens the notification socket itself, so no systemd has to run. A test that needs systemd's tools
//! prints a note where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::{UPDATE, World, tool};
use serde_json::json;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for every message of the daemon.
const PATIENCE: Duration = Duration::from_secs(60);
/// Watchdog interval that a busy machine can meet.
const WATCHDOG: Duration = Duration::from_secs(6);

/// A change of every stock level, in one commit.
const ONE_MORE_OF_ALL: &str = "INSERT INTO outbox (key, kind, body) SELECT sku || warehouse_id, 'quantity.adjust', \
    '{\"sku\":\"' || sku || '\",\"warehouse_id\":' || warehouse_id || ',\"delta\":1}' FROM stock \
    WHERE quantity IS NOT NULL";

/// A daemon started as the unit starts it, and its messages to systemd.
struct Unit {
    child: std::process::Child,
    socket: UnixDatagram,
    config: PathBuf,
    heard: Vec<String>,
}

impl Unit {
    fn start(world: &World, more: &str, watchdog: Duration) -> Self {
        let folder = world.path.parent().unwrap();
        let config = folder.join("tallyd.toml");
        std::fs::write(&config, world.toml(more)).unwrap();
        let notify = folder.join("notify");
        let socket = UnixDatagram::bind(&notify).unwrap();
        Self::start_at(socket, notify.to_str().unwrap(), config, watchdog)
    }

    /// Starts the daemon with this value of `NOTIFY_SOCKET`.
    fn start_at(socket: UnixDatagram, notify: &str, config: PathBuf, watchdog: Duration) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let log = std::fs::File::create(config.with_file_name("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tallyd"))
            .args(["run", "--config"])
            .arg(&config)
            .env("NOTIFY_SOCKET", notify)
            .env("WATCHDOG_USEC", watchdog.as_micros().to_string())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, socket, config, heard: Vec::new() }
    }

    /// Returns the next message, as its assignments.
    fn hear(&mut self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{e}; heard {:?}", self.heard));
        let message = std::str::from_utf8(&buffer[..length]).unwrap().trim_end().to_owned();
        self.heard.push(message.clone());
        message.lines().map(str::to_owned).collect()
    }

    fn hear_until(&mut self, assignment: &str) -> Vec<String> {
        let started = Instant::now();
        loop {
            let message = self.hear();
            if message.iter().any(|line| line.starts_with(assignment)) {
                return message;
            }
            assert!(started.elapsed() < PATIENCE, "no {assignment}; heard {:?}", self.heard);
        }
    }

    /// Waits for the end of the daemon; fails after 20 s.
    fn ended(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < Duration::from_secs(20), "the daemon does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Discards all further messages.
    fn listen_no_more(&self) {
        let socket = self.socket.try_clone().unwrap();
        std::thread::spawn(move || while socket.recv(&mut [0; 4096]).is_ok() {});
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn monotonic_us() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    Duration::from_secs_f64(seconds).as_micros().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn systemd_hears_ready_reload_status_and_stop_in_order() {
    let world = World::new().await;
    let mut unit = Unit::start(&world, "", Duration::from_secs(600));
    let ready = unit.hear_until("READY=1");
    assert!(ready.iter().any(|line| line.starts_with("STATUS=") && line.len() > 7), "{ready:?}");
    assert_eq!(unit.heard.len(), 1, "nothing is said before the start is complete");
    let store = tallyd::store::Store::open_beside(&world.location).await.unwrap();
    let armed = store.job_health(tallyd::model::Timestamp(0)).await.unwrap();
    assert!(
        armed.iter().filter(|row| row.next_due_at.is_some()).count() >= 4,
        "schedules are armed: {armed:?}"
    );
    let status = unit.hear_until("STATUS=");
    assert!(status[0].contains(": "), "a job, and what it did: {status:?}");

    let before = monotonic_us();
    unit.signal("-HUP");
    let reloading = unit.hear_until("RELOADING=1");
    let at = reloading.iter().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    let at: u64 = at.parse().unwrap();
    assert!(at + 1_000_000 > before && at < before + 60_000_000, "{at} is not about {before}");
    let again = unit.hear_until("READY=1");
    assert!(again.iter().any(|line| line.starts_with("STATUS=")), "{again:?}");

    std::fs::write(&unit.config, "[service]\nbase_url = 7\n").unwrap();
    unit.signal("-HUP");
    unit.hear_until("RELOADING=1");
    let refused = unit.hear_until("READY=1");
    assert!(refused.iter().any(|line| line.contains("cannot be used")), "{refused:?}");

    unit.signal("-TERM");
    let stopping = unit.hear_until("STOPPING=1");
    assert!(stopping.iter().any(|line| line.starts_with("STATUS=")), "{stopping:?}");
    assert_eq!(unit.child.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_socket_that_nobody_reads_stops_neither_the_work_nor_the_end() {
    let world = World::new().await;
    world.track_all().await;
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml("")).unwrap();
    let notify = world.path.with_file_name("full");
    let (socket, filler) = (UnixDatagram::bind(&notify).unwrap(), UnixDatagram::unbound().unwrap());
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"STATUS=full", &notify).is_ok() {}
    let mut unit = Unit::start_at(socket, notify.to_str().unwrap(), config, WATCHDOG);
    let made = "SELECT count(*) FROM run WHERE outcome = 'ok'";
    world.until("the daemon works", async |world| world.number(made).await > 0).await;
    unit.signal("-HUP");
    world.change("on", "no.such.kind", "{}").await;
    world.until("it works on", async |world| world.fate("on").await.0 == "rejected").await;
    unit.signal("-TERM");
    assert_eq!(unit.ended(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_socket_may_have_an_abstract_name() {
    let world = World::new().await;
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml("")).unwrap();
    let name = format!("tallyd-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    let mut unit = Unit::start_at(socket, &format!("@{name}"), config, WATCHDOG);
    unit.hear_until("READY=1");
}

/// A FIFO that nobody writes blocks its reader, as a hung mount does.
fn fifo(path: &Path) {
    drop(std::fs::remove_file(path));
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_blocks_stops_neither_the_work_nor_the_end() {
    for blocked in ["tallyd.toml", "i"] {
        let world = World::new().await;
        let mut unit = Unit::start(&world, "", Duration::from_secs(600));
        unit.hear_until("READY=1");
        unit.listen_no_more();
        fifo(&world.path.with_file_name(blocked));
        unit.signal("-HUP");
        world.change("on", "no.such.kind", "{}").await;
        world.until("it works on", async |world| world.fate("on").await.0 == "rejected").await;
        let log = || std::fs::read_to_string(world.path.with_file_name("log")).unwrap();
        world.until("the file is named", async |_| log().contains("within 5 s: check the file")).await;
        unit.signal("-HUP");
        unit.signal("-TERM");
        let stopping = Instant::now();
        assert_eq!(unit.ended(), Some(0), "{blocked}");
        assert!(stopping.elapsed() < Duration::from_secs(4), "{blocked}: {:?}", stopping.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_blocks_ends_a_start_with_its_name() {
    for (blocked, more) in [("tallyd.toml", ""), ("i", ""), ("ca.pem", "ca_file = \"ca.pem\"\n")] {
        let world = World::new().await;
        let config = world.path.with_file_name("tallyd.toml");
        let ca = format!("[service]\n{more}")
            .replace("ca.pem", world.path.with_file_name("ca.pem").to_str().unwrap());
        let text = world.toml("").replacen("[service]\n", &ca, 1);
        // A file of certificates is read for https alone.
        let text = if more.is_empty() { text } else { text.replace("http://127.0.0.1", "https://127.0.0.1") };
        std::fs::write(&config, text).unwrap();
        fifo(&world.path.with_file_name(blocked));
        let run = tokio::process::Command::new(env!("CARGO_BIN_EXE_tallyd"))
            .args(["run", "--config"])
            .arg(&config)
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{blocked}: {said}");
        assert!(said.contains("within 5 s: check the file"), "{blocked}: {said}");
    }
}

/// The schedule of every job that reads: due each second.
fn all_due() -> String {
    let kinds = tallyd::model::JobKind::ALL.iter().filter(|kind| **kind != tallyd::model::JobKind::Push);
    kinds.map(|kind| format!("[jobs.{kind}]\nenabled = true\nschedule = \"* * * * * *\"\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_costs_two_calls_a_minute_however_many_jobs_are_due() {
    // Another integration key may be another account's, which the start checks; another gateway key is found by a job.
    for key in ["i", "g"] {
        let world = World::new().await;
        world.track_all().await;
        world.once().await;
        std::fs::write(world.path.with_file_name(key), "nobodys").unwrap();
        let toml = world.toml("");
        let (service, _) = toml.split_once("[jobs.").unwrap();
        let config = world.path.with_file_name("tallyd.toml");
        std::fs::write(&config, format!("{service}{}", all_due())).unwrap();
        let before = world.sandbox.logged_calls().len();
        let notify = world.path.with_file_name("notify");
        let socket = UnixDatagram::bind(&notify).unwrap();
        let mut unit =
            Unit::start_at(socket, notify.to_str().unwrap(), config.clone(), Duration::from_secs(600));
        unit.hear_until("READY=1");
        unit.listen_no_more();
        let refused = "SELECT count(DISTINCT job) FROM run WHERE outcome = 'failed'";
        world.until("many jobs were refused", async |world| world.number(refused).await >= 8).await;
        for _ in 0..3 {
            let mut check = Command::new(env!("CARGO_BIN_EXE_tallyd"));
            let said = check.args(["check", "--online", "--config"]).arg(&config).output().unwrap();
            assert!(!said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
        }
        let calls = world.sandbox.logged_calls().len() - before;
        assert!((1..=2).contains(&calls), "{calls} calls with a key that is refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_is_fed_in_time_while_the_loops_turn() {
    let world = World::new().await;
    let mut unit = Unit::start(&world, "", WATCHDOG);
    unit.hear_until("READY=1");
    for _ in 0..2 {
        let asked = Instant::now();
        unit.hear_until("WATCHDOG=1");
        assert!(asked.elapsed() < WATCHDOG, "fed within its time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_puts_limits_level_and_metrics_in_force_and_names_what_waits() {
    let world = World::new().await;
    let mut unit = Unit::start(&world, "", Duration::from_secs(600));
    unit.hear_until("READY=1");
    let metrics = world.path.with_file_name("tallyd.prom");
    let more = format!(
        "[metrics]\ntextfile = {metrics:?}\n[log]\nlevel = \"debug\"\n[limits]\ncalls_per_minute = 77\n\
         [journal]\nkeep_bodies = \"1d\"\n"
    );
    let changed = world.toml(&more).replacen("[service]\n", "[service]\ntimeout = \"9s\"\n", 1);
    std::fs::write(&unit.config, changed).unwrap();
    unit.signal("-HUP");
    unit.hear_until("RELOADING=1");
    unit.hear_until("READY=1");
    world.until("the metrics are written", async |_| metrics.exists()).await;
    let page = std::fs::read_to_string(&metrics).unwrap();
    assert!(page.contains("\ntallyd_calls_limit 77\n"), "{page}");
    let log = std::fs::read_to_string(world.path.with_file_name("log")).unwrap();
    let waits = log.lines().find(|line| line.contains("\"keys\":\"service.timeout\""));
    assert!(waits.is_some_and(|line| line.contains("restart")), "{log}");
    unit.signal("-TERM");
    assert_eq!(unit.child.wait().unwrap().code(), Some(0));
}

/// A reload with another key file and another schedule completes the calls in flight; the platform is slow
/// meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_of_key_files_and_schedules_drops_no_call() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let before = world.shop().await;
    let slow = json!([{"Operation": UPDATE, "LatencyMs": 5000}]);
    world.post("/_sandbox/faults", &slow).await;
    let mut unit = Unit::start(&world, "", Duration::from_secs(600));
    unit.hear_until("READY=1");
    world.sql(ONE_MORE_OF_ALL).await;
    let sending = "SELECT count(*) FROM outbox WHERE state = 'sending'";
    world.until("calls are in flight", async |world| world.number(sending).await > 0).await;
    let (old, new) = (world.path.with_file_name("i"), world.path.with_file_name("elsewhere"));
    std::fs::rename(&old, &new).unwrap();
    let more = "[jobs.warehouses]\nschedule = \"* * * * * *\"\n";
    std::fs::write(&unit.config, world.toml(more).replace("/i\"", "/elsewhere\"")).unwrap();
    unit.signal("-HUP");
    unit.hear_until("RELOADING=1");
    unit.hear_until("READY=1");
    assert!(world.number(sending).await > 0, "the calls are in flight still");
    unit.listen_no_more();
    let all = i64::try_from(before.len()).unwrap();
    let applied = "SELECT count(*) FROM outbox WHERE state = 'applied'";
    world.until("every change is applied", async |world| world.number(applied).await == all).await;
    let wanted: Vec<_> = before.into_iter().map(|(sku, warehouse, had)| (sku, warehouse, had + 1)).collect();
    assert_eq!(world.shop().await, wanted, "once each");
    let runs = "SELECT count(*) FROM run WHERE job = 'warehouses' AND trigger = 'schedule'";
    world.until("the new schedule is in force", async |world| world.number(runs).await >= 2).await;
    unit.signal("-TERM");
    assert_eq!(unit.child.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_names_the_right_key_file_heals_a_refused_key() {
    let world = World::new().await;
    world.track_all().await;
    std::fs::write(world.path.with_file_name("elsewhere"), world.sandbox.integration_key()).unwrap();
    world.write_key("nobody's");
    let mut unit = Unit::start(&world, "", Duration::from_secs(600));
    unit.hear_until("READY=1");
    unit.listen_no_more();
    let said = |event: &str| {
        let log = std::fs::read_to_string(world.path.with_file_name("log")).unwrap();
        log.contains(&format!("\"event\":\"{event}\""))
    };
    world.until("the wrong key is refused", async |_| said("auth.refused")).await;
    std::fs::write(&unit.config, world.toml("").replace("/i\"", "/elsewhere\"")).unwrap();
    unit.signal("-HUP");
    world.until("the right one works", async |_| said("auth.restored")).await;
}

/// A stop amid the calls of a push, on a slow platform, ends with 0 within 10 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_ends_with_0_within_10_s_and_knows_what_it_does_not_know() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let slow = json!([{"Operation": UPDATE, "LatencyMs": 60_000}]);
    world.post("/_sandbox/faults", &slow).await;
    let mut unit = Unit::start(&world, "", Duration::from_secs(600));
    unit.hear_until("READY=1");
    unit.listen_no_more();
    world.sql(ONE_MORE_OF_ALL).await;
    let sending = "SELECT count(*) FROM outbox WHERE state = 'sending'";
    world.until("calls are in flight", async |world| world.number(sending).await >= 50).await;
    let stopping = Instant::now();
    unit.signal("-TERM");
    assert_eq!(unit.child.wait().unwrap().code(), Some(0));
    assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
    let log = std::fs::read_to_string(world.path.with_file_name("log")).unwrap();
    assert!(log.contains("\"event\":\"daemon.stopping\""), "{log}");
    let count = async |states: &str| {
        world.number(&format!("SELECT count(*) FROM outbox WHERE state IN ({states})")).await
    };
    assert!(count("'in_doubt'").await >= 50, "what was in flight is in doubt");
    assert_eq!(count("'sending', 'applied', 'rejected', 'held'").await, 0, "and nothing is called decided");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_refuses_in_one_line_and_the_first_works_on() {
    let world = World::new().await;
    let mut unit = Unit::start(&world, "", Duration::from_secs(600));
    unit.hear_until("READY=1");
    unit.listen_no_more();
    let second = Command::new(env!("CARGO_BIN_EXE_tallyd"))
        .args(["run", "--config"])
        .arg(&unit.config)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("tallyd: another tallyd uses this database (lock "), "{said}");
    world.change("on", "no.such.kind", "{}").await;
    world.until("the first works on", async |world| world.fate("on").await.0 == "rejected").await;
    unit.signal("-TERM");
    assert_eq!(unit.child.wait().unwrap().code(), Some(0));
}

fn units() -> [PathBuf; 2] {
    ["tallyd.service", "tallyd@.service"]
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(name))
}

#[test]
fn the_units_say_what_the_design_promises() {
    for unit in units() {
        let text = std::fs::read_to_string(&unit).unwrap();
        for line in [
            "Type=notify",
            "OnFailure=tallyd-notify@%n.service",
            "ExecReload=/bin/sh -c 'kill -HUP \"$MAINPID\"'",
            "User=tallyd",
            "Group=tallyd",
            "StateDirectoryMode=2770",
            "UMask=0007",
        ] {
            assert!(text.lines().any(|own| own == line), "{} lacks {line}", unit.display());
        }
        for start in [
            "WatchdogSec=",
            "LoadCredential=integration-key:",
            "LoadCredential=gateway-key:",
            "StateDirectory=tallyd",
        ] {
            assert!(text.lines().any(|own| own.starts_with(start)), "{} lacks {start}", unit.display());
        }
        // A daemon that cannot come back is told of within a minute; a start that fails takes up to a second.
        let number = |key: &str| {
            let value = text.lines().find_map(|own| own.strip_prefix(key)).unwrap();
            value.trim_end_matches('s').parse::<u64>().unwrap()
        };
        assert!(number("StartLimitBurst=") * (number("RestartSec=") + 1) <= 50, "{}", unit.display());
    }
}

/// A command of a notifier that works in the daemon's unit works in that of the notice too.
#[test]
fn the_unit_of_the_notice_has_the_sandbox_of_the_daemon() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (daemon, notice) = (read("tallyd.service"), read("tallyd-notify@.service"));
    let fences = |text: &str| -> Vec<String> {
        let (_, sandbox) = text.split_once("\nProtectSystem=strict\n").unwrap();
        let lines = sandbox.lines().take_while(|line| *line != "[Install]");
        lines.filter(|line| line.contains('=')).map(str::to_owned).collect()
    };
    assert!(fences(&daemon).len() > 20);
    assert_eq!(fences(&notice), fences(&daemon));
    // The daemon's StateDirectory=, which the notice must not create with another mode.
    assert!(notice.lines().any(|line| line == "ReadWritePaths=-/var/lib/tallyd"));
}

#[test]
fn systemd_finds_no_fault_with_the_units_and_rates_them_below_1_5() {
    if !tool("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let others = ["tallyd-notify@.service", "tallyd-web.service"]
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(name));
    for unit in units().into_iter().chain(others) {
        let security =
            Command::new("systemd-analyze").args(["security", "--offline=true"]).arg(&unit).output().unwrap();
        let said = String::from_utf8_lossy(&security.stdout).into_owned();
        let level = said
            .lines()
            .find(|line| line.contains("Overall exposure level"))
            .unwrap_or_else(|| panic!("{said}"));
        let level: f64 = level.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(level < 1.5, "{level}");
        // The packaged binary is not installed here, and a template unit needs an instance name.
        let text = std::fs::read_to_string(&unit).unwrap().replace("/usr/bin/tallyd", "/bin/true");
        let copy = folder.path().join(unit.file_name().unwrap().to_str().unwrap().replace('@', "@north"));
        std::fs::write(&copy, text).unwrap();
        let verify = Command::new("systemd-analyze").arg("verify").arg(&copy).output().unwrap();
        let said = String::from_utf8_lossy(&verify.stderr).into_owned();
        let ours: Vec<_> = said.lines().filter(|line| line.contains("tallyd")).collect();
        assert!(verify.status.success() && ours.is_empty(), "{said}");
    }
}
