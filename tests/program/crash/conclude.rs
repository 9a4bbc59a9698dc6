//! An answer that cannot be committed is kept until it can, and nothing new is claimed.

use super::rig::{self, Hook, Life, Moved, Side, Wire};
use crate::support::{UPDATE, World};
use sqlx::Executor;
use sqlx::sqlite::SqliteConnection;
use std::sync::Arc;
use std::time::Duration;
use tallyd::model::{JobKind, Operation};
use tallyd::store::StoreOptions;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, timeout};

/// A foreign connection that takes the write lock when an update was answered, and a notification of that.
struct Blocker {
    connection: Mutex<SqliteConnection>,
    has_lock: Notify,
}

impl Blocker {
    async fn new(world: &World) -> Arc<Self> {
        world.make().await;
        Arc::new(Self {
            connection: Mutex::new(world.outsider().await.into_sqlite()),
            has_lock: Notify::new(),
        })
    }

    fn hook(self: &Arc<Self>) -> Hook {
        let blocker = Arc::clone(self);
        Box::new(move |operation, side| {
            let blocker = Arc::clone(&blocker);
            Box::pin(async move {
                if (operation, side) == (Operation::UpdateQuantityOnHand, Side::After) {
                    blocker.connection.lock().await.execute("BEGIN IMMEDIATE").await.unwrap();
                    blocker.has_lock.notify_one();
                }
                true
            })
        })
    }

    fn wire(self: &Arc<Self>, world: &World) -> Arc<Wire> {
        let inner = rig::transport(&rig::config(world, ""));
        Arc::new(Wire { inner, hook: self.hook() })
    }

    async fn let_go(&self) {
        self.connection.lock().await.execute("ROLLBACK").await.unwrap();
    }
}

/// Inserts a change of one stock level; returns that stock level.
async fn change(world: &World) -> (String, i64, i64) {
    let level = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    let body = format!(r#"{{"sku":"{}","warehouse_id":{},"delta":-4}}"#, level.0, level.1);
    world.change("a", "quantity.adjust", &body).await;
    level
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_held_beyond_the_busy_timeout_delays_the_conclusion_and_loses_nothing() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    let blocker = Blocker::new(&world).await;
    let level = change(&world).await;
    let opening = StoreOptions { busy_timeout: Duration::from_millis(20), ..StoreOptions::default() };
    let life = Life::begin(&world, &Moved::new(), blocker.wire(&world), opening).await.unwrap();
    let push = tokio::spawn(async move { life.run(JobKind::Push).await });
    blocker.has_lock.notified().await;
    // Ten times the busy time-out, so the commit has failed several times by then.
    sleep(Duration::from_millis(400)).await;
    assert!(!push.is_finished());
    assert_eq!(world.fate("a").await.0, "sending", "the answer is kept, not given up");
    blocker.let_go().await;
    let summary = push.await.unwrap();
    assert!(summary.starts_with("1 change applied in 1 call"), "{summary}");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 - 4);
    assert_eq!(world.calls(UPDATE), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_somebody_elses_lock_and_the_next_start_finds_out_what_was_done() {
    let world = World::new().await;
    if world.is_on_server("BEGIN IMMEDIATE is the lock of a file") {
        return;
    }
    let blocker = Blocker::new(&world).await;
    let level = change(&world).await;
    let daemon = rig::daemon_over(rig::config(&world, ""), &Moved::new(), blocker.wire(&world)).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let (_reload, changed) = tokio::sync::mpsc::channel(1);
    let working = tokio::spawn(daemon.run(stop.clone(), changed));
    blocker.has_lock.notified().await;
    let answer = Instant::now();
    stop.cancel();
    timeout(Duration::from_secs(10), working).await.expect("within 10 s").unwrap().unwrap();
    assert!(answer.elapsed() >= Duration::from_secs(8), "it tried as long as it may");
    assert_eq!(world.fate("a").await.0, "sending");
    blocker.let_go().await;

    let clock = Moved::new();
    let daemon = rig::daemon(&world, "", &clock).await;
    assert_eq!(world.fate("a").await.0, "in_doubt");
    tallyd::daemon::run_job(daemon.context(), JobKind::Settle, tallyd::model::RunTrigger::Once)
        .await
        .unwrap();
    assert_eq!(world.fate("a").await.0, "applied");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 - 4);
    assert_eq!(world.calls(UPDATE), 1);
}

#[tokio::test]
async fn below_the_floor_of_free_space_nothing_is_claimed_and_work_goes_on_above_it() {
    let world = World::new().await;
    if world.is_on_server("the daemon measures no disk of a server") {
        return;
    }
    world.make().await;
    let level = change(&world).await;
    let daemon = world.daemon().await;
    let context = daemon.context();
    let wide = context.settings();
    let mut narrow = (*wide).clone();
    narrow.free_floor_bytes = u64::MAX;
    context.reconfigure(narrow);
    let push = async || {
        tallyd::daemon::run_job(context, JobKind::Push, tallyd::model::RunTrigger::Once).await.unwrap()
    };
    let summary = push().await.summary;
    assert!(summary.contains("MiB are free on the disk of") && summary.contains("Free space"), "{summary}");
    assert_eq!((world.fate("a").await.0.as_str(), world.calls(UPDATE)), ("pending", 0));
    context.reconfigure((*wide).clone());
    push().await;
    assert_eq!(world.fate("a").await.0, "applied");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 - 4);
}

/// The same on a disk that is really full: `sudo cargo test --test program -- --ignored small_disk`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "mounts a small disk, which only root may"]
async fn on_a_small_disk_that_fills_up_the_answer_is_kept_until_there_is_room() {
    let mut world = World::new().await;
    if world.is_on_server("its disk is not the one of this test") {
        return;
    }
    let disk = world.path.with_file_name("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount =
        |args: &[&str]| std::process::Command::new(args[0]).args(&args[1..]).status().unwrap().success();
    let target = disk.to_str().unwrap().to_owned();
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", &target]), "are you root?");
    world.path = disk.join("tallyd.db");
    world.location = (&world.path).into();
    world.make().await;
    let level = change(&world).await;
    let ballast = disk.join("ballast");
    let (fill, full) = (ballast.clone(), Arc::new(Notify::new()));
    let filled = Arc::clone(&full);
    let hook: Hook = Box::new(move |operation, side| {
        if (operation, side) == (Operation::UpdateQuantityOnHand, Side::After) {
            // Until not one page fits any more.
            let mut file = std::fs::File::create(&fill).unwrap();
            while std::io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
            filled.notify_one();
        }
        Box::pin(async { true })
    });
    let inner = rig::transport(&rig::config(&world, ""));
    let life =
        Life::begin(&world, &Moved::new(), Arc::new(Wire { inner, hook }), StoreOptions::default()).await;
    let life = life.unwrap();
    let mut settings = (*life.context.settings()).clone();
    settings.free_floor_bytes = 0;
    life.context.reconfigure(settings);
    let push = tokio::spawn(async move { life.run(JobKind::Push).await });
    full.notified().await;
    sleep(Duration::from_millis(500)).await;
    assert!(!push.is_finished());
    std::fs::remove_file(&ballast).unwrap();
    let summary = push.await.unwrap();
    assert!(summary.starts_with("1 change applied in 1 call"), "{summary}");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 - 4);
    world.assert_sound().await;
    assert!(mount(&["umount", "-l", &target]));
}
