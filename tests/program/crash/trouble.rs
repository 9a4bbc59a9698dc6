//! An unusable database: each message says what was being done, on what, why it failed and what to do. The
//! attempt changes nothing.

use super::rig;
use crate::support::World;
use std::path::Path;
use tallyd::store::{DatabaseLock, Store, StoreError};

/// Returns the exit code and the message of `tallyd run` on the database.
async fn refused(world: &World) -> (i32, String) {
    let config = rig::config_file(world, "");
    let output = rig::program(&config, &["run"]).await;
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

async fn open(path: &Path) -> Result<Store, StoreError> {
    let lock = DatabaseLock::acquire(path).unwrap();
    Store::open(path, &lock).await
}

fn all_in(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_database_is_named_and_left_alone() {
    let world = World::new().await;
    if world.is_on_server("a letter is no file of SQLite") {
        return;
    }
    let content = b"a letter, and not short either ".repeat(200);
    std::fs::write(&world.path, &content).unwrap();
    let (code, said) = refused(&world).await;
    assert_eq!(code, 1);
    let path = world.path.display().to_string();
    all_in(&said, &["cannot open the database", &path, "damaged or no database", "restore a backup"]);
    assert_eq!(std::fs::read(&world.path).unwrap(), content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_stops_the_daemon_with_what_to_do() {
    let world = World::new().await;
    if world.is_on_server("its file is damaged") {
        return;
    }
    world.make().await;
    let mut bytes = std::fs::read(&world.path).unwrap();
    // All pages after the first, which holds the schema's root.
    bytes[4096..].fill(0xA5);
    std::fs::write(&world.path, &bytes).unwrap();
    let (code, said) = refused(&world).await;
    assert_eq!(code, 1, "{said}");
    all_in(&said, &["damaged", "stop tallyd and restore a backup"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_version_is_named_and_left_alone() {
    let world = World::new().await;
    world.make().await;
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 SELECT 9000, 'of tomorrow', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1";
    world.sql(newer).await;
    let before = world.number("SELECT count(*) FROM session").await;
    let (code, said) = refused(&world).await;
    assert_eq!(code, 1);
    let words = match world.location.server() {
        // A host with an older version does not lead.
        Some(_) => ["9000", "a newer version of tallyd", "Install the newer version on this host too"],
        None => ["9000", "written by a newer tallyd", "install that version again"],
    };
    all_in(&said, &words);
    assert_eq!(world.number("SELECT count(*) FROM session").await, before);
    let beside = Store::open_beside(&world.location).await.unwrap_err().to_string();
    all_in(&beside, &["9000", "run the tallyd that matches it"]);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let world = World::new().await;
    if world.is_on_server("it has no folder") {
        return;
    }
    let path = world.path.with_file_name("nowhere").join("t.db");
    let said = DatabaseLock::acquire(&path).unwrap_err().to_string();
    all_in(&said, &["nowhere", "check that the folder exists and is writable"]);
    let lock = DatabaseLock::acquire(&world.path).unwrap();
    let said = Store::open(&path, &lock).await.unwrap_err().to_string();
    all_in(&said, &["nowhere", "check that the folder exists"]);
}

#[tokio::test]
async fn a_killed_migration_leaves_no_half_of_it() {
    let world = World::new().await;
    if world.is_on_server("the tables are those of a migration of SQLite") {
        return;
    }
    world.make().await;
    // The state before the newest migration, without the views that it created.
    world
        .sql(
            "DROP VIEW stock; \
             DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
        )
        .await;
    let store = open(&world.path).await.unwrap();
    assert!(store.rollback_sign(None).await.unwrap().is_none());
    store.close().await.unwrap();
    assert_eq!(world.number("SELECT count(*) FROM stock").await, 0);
}

/// Ignored by default: `sudo cargo test --test program -- --ignored read_only`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "mounts a disk read-only, which only root may"]
async fn a_read_only_file_system_is_named() {
    let mut world = World::new().await;
    if world.is_on_server("its disk is not the one of this test") {
        return;
    }
    let disk = world.path.with_file_name("disk");
    std::fs::create_dir(&disk).unwrap();
    let target = disk.to_str().unwrap().to_owned();
    let call =
        |args: &[&str]| std::process::Command::new(args[0]).args(&args[1..]).status().unwrap().success();
    assert!(call(&["mount", "-t", "tmpfs", "tmpfs", &target]), "are you root?");
    world.path = disk.join("tallyd.db");
    world.location = (&world.path).into();
    world.make().await;
    let config = rig::config_file(&world, "");
    assert!(call(&["mount", "-o", "remount,ro", &target]));
    let output = rig::program(&config, &["run"]).await;
    assert!(call(&["umount", "-l", &target]));
    let (code, said) = (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(code, 1);
    all_in(&said, &["tallyd.db.lock", "ead-only file system", "is writable"]);
}
