//! The findings of `tallyd status` beside the outbox: no daemon runs, or it runs on another file. The tests
//! use the real program, its lock and its signals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::support::World;
use serde_json::{Value, json};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use tallyd::daemon::SystemClock;
use tallyd::model::Clock;
use tallyd::store::{DatabaseLock, Store};

/// The program as installed, with the daemon's log in a file.
struct Host<'a> {
    world: &'a World,
    config: PathBuf,
}

impl<'a> Host<'a> {
    fn of(world: &'a World) -> Self {
        let config = world.path.with_file_name("tallyd.toml");
        std::fs::write(&config, world.toml("")).unwrap();
        Self { world, config }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(&self.config).args(args).stdin(Stdio::null());
        command
    }

    async fn output(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Returns (exit code, first line, codes of the findings).
    async fn status(&self) -> (Option<i32>, String, Vec<String>) {
        let text = self.output(&["status"]).await;
        let json = self.output(&["status", "--json"]).await;
        assert_eq!(text.status.code(), json.status.code());
        let all: Value = serde_json::from_slice(&json.stdout).unwrap();
        let codes = all["findings"].as_array().unwrap().iter();
        let codes = codes.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
        assert_eq!(all["well"], json!(text.status.code() == Some(0)));
        let first = String::from_utf8(text.stdout).unwrap().lines().next().unwrap().to_owned();
        (text.status.code(), first, codes)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.world.path.with_file_name("log")).unwrap_or_default()
    }

    /// Starts a daemon and waits until it is ready.
    async fn daemon(&self) -> Running {
        let log = File::create(self.world.path.with_file_name("log")).unwrap();
        let child = self.command(&["run"]).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let running = Running(child);
        self.world.until("it is ready", async |_| self.log().contains("daemon.ready")).await;
        running
    }
}

struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    async fn end(mut self, world: &World) -> ExitStatus {
        let ended = std::cell::RefCell::new(None);
        let child = std::cell::RefCell::new(&mut self.0);
        world
            .until("it has ended", async |_| {
                *ended.borrow_mut() = child.borrow_mut().try_wait().unwrap();
                ended.borrow().is_some()
            })
            .await;
        ended.into_inner().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_knows_at_once_whether_a_daemon_runs() {
    let world = World::new().await;
    world.track_all().await;
    let host = Host::of(&world);
    let (code, first, codes) = host.status().await;
    assert_eq!((code, &codes[..]), (Some(3), &["no_daemon".to_owned()][..]), "{first}");
    assert!(first.starts_with("tallyd does not run, and has never run"), "{first}");

    let daemon = host.daemon().await;
    world.until("it is well", async |_| host.status().await.0 == Some(0)).await;
    let text = String::from_utf8(host.output(&["status"]).await.stdout).unwrap();
    assert!(
        text.starts_with("all is well\n") && text.lines().count() < 8,
        "when all is well it is short: {text}"
    );
    let all = String::from_utf8(host.output(&["status", "--all"]).await.stdout).unwrap();
    assert!(all.starts_with(text.lines().next().unwrap()) && all.contains("last successful run"), "{all}");

    daemon.signal("-KILL");
    daemon.end(&world).await;
    let (code, first, codes) = host.status().await;
    assert_eq!((code, &codes[..]), (Some(3), &["no_daemon".to_owned()][..]), "{first}");
    assert!(
        first.contains("ended in the middle of its work") && first.contains("systemctl start tallyd"),
        "{first}"
    );

    let daemon = host.daemon().await;
    assert_eq!(host.status().await.2, Vec::<String>::new());
    daemon.signal("-TERM");
    assert!(daemon.end(&world).await.success());
    let (code, first, _) = host.status().await;
    assert!(code == Some(3) && first.starts_with("tallyd does not run; it ended in good order"), "{first}");

    // From now on cron runs the daemon; a `verify` in between does not change that.
    assert!(host.output(&["run", "--once"]).await.status.success());
    assert_eq!(host.status().await.0, Some(0));
    assert!(host.output(&["verify"]).await.status.code().is_some());
    assert_eq!(host.status().await.0, Some(0), "{}", host.status().await.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_removed_or_replaced_ends_the_daemon_with_a_clear_error() {
    for is_replaced in [false, true] {
        let world = World::new().await;
        if world.is_on_server("its file is replaced") {
            return;
        }
        world.track_all().await;
        let host = Host::of(&world);
        let daemon = host.daemon().await;
        let copy = world.path.with_file_name("copy.db");
        if is_replaced {
            assert!(host.output(&["backup", copy.to_str().unwrap()]).await.status.success());
            std::fs::rename(&copy, &world.path).unwrap();
        } else {
            std::fs::remove_file(&world.path).unwrap();
        }
        let status = daemon.end(&world).await;
        assert_eq!(status.code(), Some(1), "systemd starts it again: {}", host.log());
        let lines = host.log();
        let said = lines.lines().find(|line| line.contains("database.replaced"));
        let how = if is_replaced { "was replaced by another file" } else { "was removed" };
        assert!(said.is_some_and(|line| line.contains(how) && line.contains("ERROR")), "{lines}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_file_that_is_removed_ends_the_daemon_before_a_second_one_works_long_beside_it() {
    let world = World::new().await;
    world.track_all().await;
    let host = Host::of(&world);
    let daemon = host.daemon().await;
    let lock =
        world.path.with_file_name(format!("{}.lock", world.path.file_name().unwrap().to_str().unwrap()));
    std::fs::remove_file(&lock).unwrap();
    let status = daemon.end(&world).await;
    assert_eq!(status.code(), Some(1), "systemd starts it again, with a lock: {}", host.log());
    let lines = host.log();
    let said = lines.lines().find(|line| line.contains("database.replaced"));
    assert!(said.is_some_and(|line| line.contains(".lock was removed")), "{lines}");
}

/// Status reports that the holder of the lock works on another file, if the holder itself is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn status_says_that_the_holder_works_on_another_file() {
    let world = World::new().await;
    if world.is_on_server("its file is replaced") {
        return;
    }
    world.track_all().await;
    world.once().await;
    let host = Host::of(&world);
    let lock = DatabaseLock::acquire(&world.path).unwrap();
    let store = Store::open(&world.path, &lock).await.unwrap();
    assert_eq!(host.status().await.0, Some(0));
    let aside = world.path.with_file_name("aside.db");
    std::fs::copy(&world.path, &aside).unwrap();
    std::fs::rename(&aside, &world.path).unwrap();
    let (code, first, codes) = host.status().await;
    assert_eq!((code, codes.first().map(String::as_str)), (Some(3), Some("database_replaced")), "{first}");
    assert!(first.starts_with("the database that tallyd has open is not the file at its path"), "{first}");
    std::fs::remove_file(&world.path).unwrap();
    let (code, _, codes) = host.status().await;
    assert_eq!((code, &codes[..]), (Some(3), &["database_replaced".to_owned()][..]));
    assert!(store.check_in_place().is_err());
    drop((store, lock));
    assert_eq!(host.output(&["status"]).await.status.code(), Some(1), "now there is no database at all");
}

/// Status finds an unreachable platform and an old backup in the rows; the rules have unit tests beside them.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_cannot_be_reached_and_an_old_copy_are_found_in_the_rows() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let _lock = DatabaseLock::acquire(&world.path).unwrap();
    let host = Host::of(&world);
    assert_eq!(host.status().await.0, Some(0), "{}", host.status().await.1);
    world
        .sql(
            "UPDATE exchange SET verdict = 'not_sent', status = NULL, message = 'connection refused', \
                                 sent_ms = sent_ms - 60000",
        )
        .await;
    let (_, first, codes) = host.status().await;
    assert_eq!(codes, ["unreachable"], "{first}");
    assert!(
        first.starts_with("the platform cannot be reached") && first.contains("connection refused"),
        "{first}"
    );
    world.sql("UPDATE exchange SET status = 200, verdict = 'accepted'").await;
    let then = SystemClock.now().0 - 180_000_000;
    world
        .sql(&format!(
            "UPDATE job_state SET enabled = TRUE, interval_ms = 86400000, last_good_ms = {then} \
             WHERE job = 'backup'"
        ))
        .await;
    let (code, first, codes) = host.status().await;
    assert_eq!((code, &codes[..]), (Some(3), &["backup_old".to_owned()][..]), "{first}");
    assert!(first.starts_with("the last good copy of the database is 2 d 2 h old"), "{first}");
}
