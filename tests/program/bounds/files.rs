//! Files: one database under each of its paths, and a wait for every foreign lock on it.

use super::support::World;
use super::{Running, configured, program, tallyd};
use sqlx::Executor;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

/// Writes a configuration with another path to the database; returns its path.
fn linked(world: &World, link: &PathBuf) -> PathBuf {
    let toml = world.toml("").replace(&format!("{:?}", world.path), &format!("{link:?}"));
    assert!(toml.contains(link.to_str().unwrap()));
    let config = world.path.with_file_name("linked.toml");
    std::fs::write(&config, toml).unwrap();
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_by_a_link_is_refused_whichever_came_first() {
    let world = World::new().await;
    let (config, link) = (configured(&world, ""), world.path.with_file_name("link.db"));
    // The link exists before its target.
    symlink(&world.path, &link).unwrap();
    let by_link = linked(&world, &link);
    for (first, second) in [(&by_link, &config), (&config, &by_link)] {
        let mut running = Running::start(first).await;
        running.until("daemon.ready").await;
        let refused = tallyd(second, &["run", "--once"]).await;
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("another tallyd uses this database"), "{said}");
        // The daemon on one path notices a change inserted by the other.
        world.change(&format!("by {}", first.display()), "no.kind", "{}").await;
        running.until("outbox.finished").await;
        assert_eq!(running.stop().await, Some(0));
    }
    if world.is_on_server("there is no file to which the link leads") {
        return;
    }
    for beside in ["link.db.lock", "link.db.position", "link.db-wal"] {
        assert!(!world.path.with_file_name(beside).exists(), "{beside}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_waits_for_a_foreign_lock_and_says_so() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    let config = configured(&world, "");
    world.track_all().await;
    let mut other = world.outsider().await.into_sqlite();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let mut running = Running::start(&config).await;
    let line = running.until("database.write_failed").await;
    assert!(
        line.contains("cannot open the database yet") && line.contains("another program holds"),
        "{line}"
    );
    other.execute("ROLLBACK").await.unwrap();
    running.until("daemon.ready").await;
    assert_eq!(running.stop().await, Some(0));
}

/// A start waits while another program holds the file exclusively, and a stop ends the wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_waits_where_not_even_a_read_is_let_in_and_a_stop_ends_the_wait() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    let config = configured(&world, "");
    world.make().await;
    let mut other = world.outsider().await.into_sqlite();
    other.execute("PRAGMA locking_mode = EXCLUSIVE").await.unwrap();
    other.execute("BEGIN EXCLUSIVE").await.unwrap();
    other.execute("UPDATE journal_sequence SET position = position").await.unwrap();
    let mut running = Running::start(&config).await;
    running.until("database.write_failed").await;
    assert_eq!(running.stop().await, Some(0), "a start that is broken off is no failure");
}

/// A command gives up and names the holder, because a person waits for its output.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_gives_up_and_says_who_is_in_the_way() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    let config = configured(&world, "");
    world.make().await;
    let mut other = world.outsider().await.into_sqlite();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let online = program(&config).args(["check", "--online"]).output();
    let output = tokio::time::timeout(Duration::from_secs(60), online).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another program holds a write transaction open"), "{said}");
    let checked = tallyd(&config, &["check"]).await;
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(said.contains("another program holds a write transaction open"), "{said}");
    other.execute("ROLLBACK").await.unwrap();
    let checked = tallyd(&config, &["check"]).await;
    assert!(!String::from_utf8(checked.stdout).unwrap().contains("another program"));
}

/// A timer starts the next `run --once` while this one would still wait, and the next would find the lock taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_once_beside_a_foreign_lock_ends_with_the_reason_and_lets_the_lock_go() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    let config = configured(&world, "");
    world.make().await;
    let mut other = world.outsider().await.into_sqlite();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let once = program(&config).args(["run", "--once"]).output();
    let output = tokio::time::timeout(Duration::from_secs(60), once).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another program holds a write transaction open"), "{said}");
    other.execute("ROLLBACK").await.unwrap();
    assert_eq!(tallyd(&config, &["run", "--once"]).await.status.code(), Some(0));
}

/// A foreign lock that comes while `run --once` works ends the run within its patience.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_once_that_cannot_commit_any_more_ends_with_the_reason() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    world.track_all().await;
    let daemon = world.daemon().await;
    let mut other = world.outsider().await.into_sqlite();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(90), daemon.run_once()).await.unwrap();
    let error = ended.err().unwrap().to_string();
    assert!(error.contains("another program holds a write transaction open"), "{error}");
}

/// A replay whose disk is full names the disk, not a version, and leaves no part of a file.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stdout, reason = "a test that skips says so")]
async fn a_replay_on_a_full_disk_says_so_and_leaves_nothing() {
    let world = World::new().await;
    let config = configured(&world, "");
    world.make().await;
    let small = world.path.with_file_name("small");
    std::fs::create_dir(&small).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
    if !std::process::Command::new("mount").args(mount).arg(&small).status().is_ok_and(|done| done.success())
    {
        println!("skipped: only root may mount a small disk");
        return;
    }
    let output = tallyd(&config, &["replay", "--into", small.join("m.db").to_str().unwrap()]).await;
    let left = std::fs::read_dir(&small).unwrap().count();
    assert!(std::process::Command::new("umount").arg(&small).status().unwrap().success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the disk is full") && !said.contains("newer"), "{said}");
    assert_eq!((output.status.code(), left), (Some(1), 0), "{said}");
}

/// A reload waits for the database too.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_beside_a_foreign_lock_does_not_end_the_daemon() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    // Jobs would wait for the lock one after the other, and the reload behind them.
    let jobs = ["balances", "order_lines", "warehouses", "storefronts", "work_queue"];
    let config = configured(&world, &jobs.map(|job| format!("[jobs.{job}]\nenabled = false\n")).concat());
    let mut running = Running::start(&config).await;
    running.until("daemon.ready").await;
    let mut other = world.outsider().await.into_sqlite();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    running.signal("-HUP");
    // Other work of the daemon waits for the lock too, and logs that.
    while !running.until("database.write_failed").await.contains("apply the changed configuration") {}
    other.execute("ROLLBACK").await.unwrap();
    running.until("config.reloaded").await;
    assert_eq!(running.stop().await, Some(0));
}
