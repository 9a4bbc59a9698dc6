//! Backups: complete while others write, never over another file, and rotated without touching foreign files.

use super::rig;
use crate::support::World;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tallyd::config::Config;
use tallyd::daemon::Daemon;
use tallyd::model::{Clock, JobKind, RunTrigger};
use tallyd::store::{Store, scheduled_copy_name};

/// Returns the number of rows of a table in a file, as any program with SQLite sees them.
async fn count(file: &Path, table: &str) -> i64 {
    rig::number_in(file, &format!("SELECT count(*) FROM {table}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_beside_a_running_daemon_is_whole_private_and_marked() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    world.track_all().await;
    let config = rig::config_file(&world, "");
    let working = world.work().await;
    world.until("the mirror is filled", async |w| w.number("SELECT count(*) FROM balance").await > 0).await;
    let file = world.path.with_file_name("copy.db");
    let sku = world.shop().await[0].clone();
    let inserting = async {
        for n in 0..40 {
            let body = format!(r#"{{"sku":"{}","warehouse_id":{},"delta":1}}"#, sku.0, sku.1);
            world.change(&format!("w{n}"), "quantity.adjust", &body).await;
        }
    };
    let args = ["backup", file.to_str().unwrap(), "--json"];
    let (output, ()) = tokio::join!(rig::program(&config, &args), inserting);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(names, ["elapsed_ms", "file", "made_at", "position", "rows", "size_bytes", "tables"]);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(count(&file, "backup_marker").await, 1);
    assert_eq!(count(&file, "balance").await, world.number("SELECT count(*) FROM balance").await);
    assert!(!world.path.with_file_name("copy.db.partial").exists());

    let before = std::fs::read(&file).unwrap();
    let output = rig::program(&config, &args).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("choose another name, because backups never overwrite a file")
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
    working.stop().await;
}

#[tokio::test]
async fn a_copy_that_cannot_be_written_says_so_and_leaves_nothing() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    world.make().await;
    let store = Store::open_beside(&world.path).await.unwrap();
    let now = tallyd::daemon::SystemClock.now();
    let nowhere = world.path.with_file_name("no").join("copy.db");
    let error = store.backup_create(&nowhere, now, |_, _| {}).await.unwrap_err().to_string();
    assert!(error.contains("no/copy.db") && error.contains("check that the folder exists"), "{error}");
    assert!(!nowhere.exists());
}

#[tokio::test]
async fn the_job_keeps_the_newest_and_removes_nothing_it_did_not_make() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    let folder = world.path.with_file_name("copies");
    let more = format!("[backup]\ndirectory = {folder:?}\nkeep = 2\n");
    let moved = rig::Moved::new();
    let daemon = rig::daemon(&world, &more, &moved).await;
    std::fs::create_dir(&folder).unwrap();
    let strange = scheduled_copy_name(tallyd::model::Timestamp(1_000));
    std::fs::write(folder.join(&strange), "no copy of anything").unwrap();
    std::fs::write(folder.join("tallyd.db"), "somebody's own").unwrap();
    let another = World::new().await;
    another.make().await;
    let foreign = folder.join(scheduled_copy_name(tallyd::model::Timestamp(2_000)));
    let other = Store::open_beside(&another.path).await.unwrap();
    other.backup_create(&foreign, moved.now(), |_, _| {}).await.unwrap();
    for _ in 0..4 {
        moved.later(1_000);
        let finished =
            tallyd::daemon::run_job(daemon.context(), JobKind::Backup, RunTrigger::Once).await.unwrap();
        assert!(finished.summary.contains("rows compared"), "{}", finished.summary);
    }
    let names = std::fs::read_dir(&folder).unwrap();
    let mut names: Vec<String> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.len(), 5, "two copies of ours, and three files that are not: {names:?}");
    assert!(names.contains(&strange) && names.contains(&"tallyd.db".to_owned()) && foreign.exists());
    let newest = folder.join(&names[3]);
    assert_eq!(count(&newest, "backup_marker").await, 1, "{newest:?}");
}

#[tokio::test]
async fn a_single_run_keeps_the_house_only_when_its_hour_has_passed() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    let (moved, more) = (rig::Moved::new(), "[jobs.prune]\nenabled = true\n[jobs.backup]\nenabled = true\n");
    let copies = world.path.with_file_name("backup");
    let mut seen = Vec::new();
    for later_ms in [0, 60_000, 2 * 86_400_000, 60_000] {
        moved.later(later_ms);
        let config = Config::from_toml(&kept_house(&world, more)).unwrap();
        let once =
            Daemon::start(config, Arc::<rig::Moved>::clone(&moved)).await.unwrap().run_once().await.unwrap();
        assert!(once.runs.iter().any(|run| run.kind == JobKind::Warehouses), "what reads is read each time");
        seen.push(once.runs.iter().filter(|run| run.kind == JobKind::Backup).count());
    }
    assert_eq!(seen, [0, 0, 1, 0]);
    assert_eq!(
        std::fs::read_dir(copies).unwrap().count(),
        1,
        "beside the database, where nothing else is said"
    );
}

/// Returns the world's configuration with the maintenance jobs enabled.
fn kept_house(world: &World, more: &str) -> String {
    let toml = world.toml("");
    let others =
        toml.replace("[jobs.prune]\nenabled = false\n", "").replace("[jobs.backup]\nenabled = false\n", "");
    format!("{others}{more}")
}
