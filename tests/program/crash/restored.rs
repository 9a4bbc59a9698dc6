//! A database that went back in time.
//!
//! Changes that may have taken effect since are held, once, and nothing seen before is believed. A crash is no
//! restore.

use super::rig::{self, Moved};
use crate::support::World;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tallyd::daemon::Daemon;
use tallyd::daemon::run_job;
use tallyd::model::{Clock, JobKind, RunTrigger};
use tallyd::outbox::{ChangeKind, Resolution};
use tallyd::store::{Durability, Store};

async fn run(daemon: &Daemon, kind: JobKind) -> String {
    run_job(daemon.context(), kind, RunTrigger::Once).await.unwrap().summary
}

/// Ends a daemon as a kill would, and releases its connections.
async fn kill(daemon: Daemon) {
    let store = daemon.context().store.clone();
    drop(daemon);
    store.close().await.unwrap();
}

fn adjust(sku: &str, warehouse: i64, delta: i64) -> String {
    format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"delta":{delta}}}"#)
}

/// Replaces the database by a file, as an operator does.
fn put_back(from: &Path, database: &Path) {
    for suffix in ["-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        drop(std::fs::remove_file(name));
    }
    std::fs::copy(from, database).unwrap();
}

/// Inserts changes of every kind that is not idempotent, and one count.
async fn changes(world: &World, sku: &str, warehouse: i64) -> [&'static str; 4] {
    let order = world.sandbox.place_order(&[(sku, 1)]).await.unwrap();
    world.change("adjust", "quantity.adjust", &adjust(sku, warehouse, -2)).await;
    world.change("ship", "shipment.create", &format!(r#"{{"order_id":{order}}}"#)).await;
    world.change("track", "tracking.submit", r#"{"shipment_key":"ship","tracking_number":"1Z"}"#).await;
    world.change("house", "warehouse.create", r#"{"Name":"Annex"}"#).await;
    ["adjust", "ship", "track", "house"]
}

#[tokio::test]
async fn a_restored_copy_holds_what_may_have_been_done_until_it_is_released() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    let clock = Moved::new();
    let daemon = rig::daemon(&world, "", &clock).await;
    run(&daemon, JobKind::Warehouses).await;
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    let other = world.shop().await.into_iter().find(|level| level.0 != sku && level.2 > 20).unwrap();
    let doubles = changes(&world, &sku, warehouse).await;
    let count = format!(r#"{{"sku":"{}","warehouse_id":{},"quantity":17}}"#, other.0, other.1);
    world.change("count", "quantity.set", &count).await;
    let copy = world.path.with_file_name("copy.db");
    daemon.context().store.backup_create(&copy, clock.now(), |_, _| {}).await.unwrap();
    let sold = world.shop_level(&sku, warehouse).await;
    assert!(sold <= quantity);
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("adjust").await.0, "applied");
    assert_eq!(world.shop_level(&sku, warehouse).await, sold - 2);
    world.sandbox.sell_units(&other.0, other.1, 5).await.unwrap();
    kill(daemon).await;

    put_back(&copy, &world.path);
    let daemon = rig::daemon(&world, "", &clock).await;
    run(&daemon, JobKind::Push).await;
    for key in doubles.into_iter().chain(["count"]) {
        let (state, reason, detail) = world.fate(key).await;
        assert_eq!((state.as_str(), reason.as_str()), ("held", "restored"), "{key}");
        assert!(detail.contains("is a copy made at") && detail.contains("outbox release"), "{detail}");
    }
    assert_eq!(
        world.shop_level(&other.0, other.1).await,
        12,
        "what was sold since the count was sent stays sold"
    );
    assert_eq!(world.shop_level(&sku, warehouse).await, sold - 2, "nothing was done twice");
    kill(daemon).await;

    let daemon = rig::daemon(&world, "", &clock).await;
    let mut write = daemon.context().store.begin_write(tallyd::store::Durability::Full).await.unwrap();
    assert_eq!(write.brake_release(&[], clock.now()).await.unwrap(), 5, "they stand in one trip");
    write.commit().await.unwrap();
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("adjust").await.0, "applied", "released is released: no second alarm");
    assert_eq!(world.shop_level(&sku, warehouse).await, sold - 4);
}

/// Returns true if a second effect of the kind does no harm. A new kind does not compile here until it is
/// decided, and the trigger `outbox_restored_hold` must agree.
fn is_idempotent(kind: ChangeKind) -> bool {
    match kind {
        ChangeKind::QuantitySet | ChangeKind::ProductUpdate => true,
        ChangeKind::QuantityAdjust
        | ChangeKind::ShipmentCreate
        | ChangeKind::TrackingSubmit
        | ChangeKind::ProductCreate
        | ChangeKind::WarehouseCreate
        | ChangeKind::ListingTemplateCreate => false,
    }
}

/// Declares the database restored, and starts the daemon on it.
async fn declare_restored(world: &World, daemon: Daemon, clock: &Arc<Moved>) -> Daemon {
    kill(daemon).await;
    let store = Store::open_beside(&world.location).await.unwrap();
    let mut write = store.begin_write(Durability::Full).await.unwrap();
    write.restore_declare(clock.now()).await.unwrap();
    write.commit().await.unwrap();
    store.close().await.unwrap();
    rig::daemon(world, "", clock).await
}

async fn release_all(daemon: &Daemon, clock: &Moved) -> u64 {
    let mut write = daemon.context().store.begin_write(Durability::Full).await.unwrap();
    let released = write.brake_release(&[], clock.now()).await.unwrap();
    write.commit().await.unwrap();
    released
}

#[tokio::test]
async fn each_kind_that_could_take_effect_twice_is_held_after_a_restore() {
    let (world, clock) = (World::new().await, Moved::new());
    let daemon = rig::daemon(&world, "", &clock).await;
    for kind in ChangeKind::ALL {
        world.change(kind.as_str(), kind.as_str(), "{}").await;
    }
    let daemon = declare_restored(&world, daemon, &clock).await;
    for kind in ChangeKind::ALL {
        assert_eq!(world.fate(kind.as_str()).await.0, "held", "of the copy: {kind}");
    }
    let mut bodies: Vec<(&str, &str, bool)> =
        ChangeKind::ALL.iter().map(|kind| (kind.as_str(), "{}", !is_idempotent(*kind))).collect();
    bodies.push(("quantity.set", r#"{"seen":7}"#, true));
    bodies.push(("quantity.set", r#"{"counted_at":"2026-01-01T00:00:00Z"}"#, true));
    for (n, (kind, body, is_held)) in bodies.into_iter().enumerate() {
        let key = format!("again {n}");
        world.change(&key, kind, body).await;
        let (state, reason, _) = world.fate(&key).await;
        let expected = if is_held { ("held", "restored") } else { ("pending", "") };
        assert_eq!((state.as_str(), reason.as_str()), expected, "inserted since: {kind} {body}");
    }
    kill(daemon).await;
}

#[tokio::test]
async fn a_database_put_back_by_hand_is_noticed_and_counted_on_from_where_it_was() {
    let world = World::new().await;
    if world.is_on_server("an old file is put back") {
        return;
    }
    let clock = Moved::new();
    let daemon = rig::daemon(&world, "", &clock).await;
    let (sku, warehouse, _) = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    world.change("old", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    kill(daemon).await;
    let old = world.path.with_file_name("old.db");
    std::fs::copy(&world.path, &old).unwrap();

    let daemon = rig::daemon(&world, "", &clock).await;
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("old").await.0, "applied");
    let reached = daemon.context().store.journal_position().await.unwrap();
    kill(daemon).await;

    put_back(&old, &world.path);
    let daemon = rig::daemon(&world, "", &clock).await;
    assert!(
        daemon.context().store.journal_position().await.unwrap() >= reached,
        "no position means two things"
    );
    run(&daemon, JobKind::Push).await;
    let (state, reason, detail) = world.fate("old").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "restored"), "{detail}");
    assert!(detail.contains("is older than it was"), "{detail}");
    release_all(&daemon, &clock).await;
    world.change("new", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    kill(daemon).await;
    let daemon = rig::daemon(&world, "", &clock).await;
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("new").await.0, "applied", "the alarm was raised once");
}

#[tokio::test]
async fn a_count_in_a_restored_copy_does_not_take_our_own_write_for_a_sale() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    let clock = Moved::new();
    let daemon = rig::daemon(&world, "", &clock).await;
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    world.sql(&format!("INSERT INTO tracked_sku (sku) VALUES ('{sku}')")).await;
    run(&daemon, JobKind::Balances).await;
    let count = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"quantity":{}}}"#, quantity - 3);
    world.change("count", "quantity.set", &count).await;
    let other = world.shop().await.into_iter().find(|level| level.0 != sku && level.2 > 20).unwrap();
    let seen =
        format!(r#"{{"sku":"{}","warehouse_id":{},"quantity":9,"seen":{}}}"#, other.0, other.1, other.2);
    let copy = world.path.with_file_name("copy.db");
    daemon.context().store.backup_create(&copy, clock.now(), |_, _| {}).await.unwrap();
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 3);
    kill(daemon).await;

    put_back(&copy, &world.path);
    world.change("seen", "quantity.set", &seen).await;
    let daemon = rig::daemon(&world, "", &clock).await;
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("count").await.1, "restored");
    let mut write = daemon.context().store.begin_write(Durability::Full).await.unwrap();
    write.brake_release(&["count".into()], clock.now()).await.unwrap();
    write.commit().await.unwrap();
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("count").await.0, "applied", "a person says that it is still true");
    assert_eq!(world.fate("seen").await.1, "restored", "what it names was seen before, and no longer tells");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 3);
}

/// A daemon that has just read a stock level, whose own write of −7 is lost by a restore since.
async fn lost_write(world: &World, clock: &Arc<Moved>) -> (Daemon, (String, i64, i64)) {
    let daemon = rig::daemon(world, "", clock).await;
    let level = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    world.sql(&format!("INSERT INTO tracked_sku (sku) VALUES ('{}')", level.0)).await;
    run(&daemon, JobKind::Balances).await;
    // The database would have the write and its own delta, if it had not gone back.
    world.sandbox.sell_units(&level.0, level.1, 7).await.unwrap();
    (declare_restored(world, daemon, clock).await, level)
}

#[tokio::test]
async fn a_movement_after_a_restore_stands_on_no_fact_from_before_it() {
    let (world, clock) = (World::new().await, Moved::new());
    let (daemon, (sku, warehouse, quantity)) = lost_write(&world, &clock).await;
    release_all(&daemon, &clock).await;
    world.change("sold", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("sold").await.0, "applied");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 8);
    kill(daemon).await;
}

#[tokio::test]
async fn a_count_after_a_restore_has_no_base_from_before_it() {
    let (world, clock) = (World::new().await, Moved::new());
    let (daemon, (sku, warehouse, quantity)) = lost_write(&world, &clock).await;
    let count = |extra: &str| {
        format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"quantity":{}{extra}}}"#, quantity - 7)
    };
    world.change("count", "quantity.set", &count("")).await;
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("count").await.0, "applied");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 7, "our own write was no sale");
    kill(daemon).await;
    // The next start is no restore, and what was seen before the last one is no base for it either.
    let daemon = rig::daemon(&world, "", &clock).await;
    release_all(&daemon, &clock).await;
    let before = tallyd::model::Timestamp(clock.now().0 - 60_000).to_rfc3339();
    world.change("earlier", "quantity.set", &count(&format!(r#","counted_at":"{before}""#))).await;
    run(&daemon, JobKind::Balances).await;
    run(&daemon, JobKind::Push).await;
    let (state, reason, detail) = world.fate("earlier").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "stale_base"), "{detail}");
    assert!(detail.contains("restored"), "{detail}");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 7);
    kill(daemon).await;
}

#[tokio::test]
async fn a_number_of_a_person_after_a_restore_is_compared_with_nothing_from_before_it() {
    let (world, clock) = (World::new().await, Moved::new());
    let (daemon, (sku, warehouse, _)) = lost_write(&world, &clock).await;
    let body = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"quantity":5}}"#);
    world.change("count", "quantity.set", &body).await;
    world
        .sql(
            "UPDATE outbox SET revision = revision + 1, state = 'held', reason = 'conflict', state_changed_ms = 1 \
             WHERE key = 'count'",
        )
        .await;
    let hour = std::time::Duration::from_secs(3_600);
    let mut write = daemon.context().store.begin_write(Durability::Full).await.unwrap();
    let number = Resolution::Exactly(tallyd::model::Quantity(5));
    let refused = write.outbox_resolve("count", number, hour, clock.now()).await.unwrap();
    assert!(refused.unwrap_err().contains("let the daemon read"), "the fact is from before the restore");
    drop(write);
    kill(daemon).await;
}

#[tokio::test]
async fn what_is_inserted_again_after_a_restore_is_held_until_one_release_of_all() {
    let (world, clock) = (World::new().await, Moved::new());
    let (daemon, (sku, warehouse, quantity)) = lost_write(&world, &clock).await;
    let store = Store::open_beside(&world.location).await.unwrap();
    let sign =
        async || store.health_rows(clock.now(), clock.now()).await.unwrap().restore.map(|(sign, _)| sign);
    assert!(sign().await.unwrap().contains("tallyd restored"), "it is said while nothing is held yet");
    world.change("lost", "quantity.adjust", &adjust(&sku, warehouse, -7)).await;
    world.change("lost", "quantity.adjust", &adjust(&sku, warehouse, -7)).await;
    world.change("other", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    run(&daemon, JobKind::Push).await;
    for key in ["lost", "other"] {
        let (state, reason, detail) = world.fate(key).await;
        assert_eq!((state.as_str(), reason.as_str()), ("held", "restored"), "{detail}");
        assert!(detail.contains("outbox release"), "{detail}");
    }
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 7, "it was not done twice");
    kill(daemon).await;
    let daemon = rig::daemon(&world, "", &clock).await;

    // A release by key lets that change go, and ends nothing.
    let mut write = daemon.context().store.begin_write(Durability::Full).await.unwrap();
    assert_eq!(write.brake_release(&["other".into()], clock.now()).await.unwrap(), 1);
    assert!(write.outbox_cancel("lost", clock.now()).await.unwrap().is_ok());
    write.commit().await.unwrap();
    world.change("third", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("other").await.0, "applied");
    assert_eq!(world.fate("third").await.1, "restored");
    assert_eq!(release_all(&daemon, &clock).await, 1);
    world.change("fourth", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    run(&daemon, JobKind::Push).await;
    for key in ["third", "fourth"] {
        assert_eq!(world.fate(key).await.0, "applied", "{key}");
    }
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 10);
    assert_eq!(sign().await, None);
    kill(daemon).await;
}

#[tokio::test]
async fn a_second_restore_is_held_and_released_by_itself() {
    let (world, clock) = (World::new().await, Moved::new());
    let (daemon, (sku, warehouse, quantity)) = lost_write(&world, &clock).await;
    world.change("first", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    let daemon = declare_restored(&world, daemon, &clock).await;
    world.change("second", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    assert_eq!(release_all(&daemon, &clock).await, 2, "one release ends both");
    let daemon = declare_restored(&world, daemon, &clock).await;
    for key in ["first", "second"] {
        assert_eq!(world.fate(key).await.1, "restored", "released, not sent, and restored again: {key}");
    }
    // Nothing else is held: a release ends the hold all the same.
    world.change("third", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    assert_eq!(release_all(&daemon, &clock).await, 3);
    assert_eq!(release_all(&daemon, &clock).await, 0);
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 10);
    kill(daemon).await;
}

#[tokio::test]
async fn a_change_that_was_held_or_in_doubt_in_the_copy_does_not_go_on_by_itself() {
    let (world, clock) = (World::new().await, Moved::new());
    let daemon = rig::daemon(&world, "", &clock).await;
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    for (key, reason) in [("unread", "not_shown"), ("below", "negative")] {
        world.change(key, "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
        world
            .sql(&format!(
                "UPDATE outbox SET revision = revision + 1, state = 'held', reason = '{reason}', \
                 state_changed_ms = 1 WHERE key = '{key}'"
            ))
            .await;
    }
    let count = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"quantity":{}}}"#, quantity + 4);
    world.change("count", "quantity.set", &count).await;
    world.sandbox.lose_next_answer("POST /api/inventory/updateQuantityOnHand").unwrap();
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("count").await.0, "in_doubt");
    let daemon = declare_restored(&world, daemon, &clock).await;
    clock.later(700_000);
    for job in [JobKind::Settle, JobKind::Push, JobKind::Settle] {
        run(&daemon, job).await;
        clock.later(200_000);
    }
    for key in ["unread", "below", "count"] {
        let (state, reason, _) = world.fate(key).await;
        assert_eq!((state.as_str(), reason.as_str()), ("held", "restored"), "{key}");
    }
    kill(daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_put_back_by_a_command_and_the_database_before_is_kept() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    let clock = Moved::new();
    let config = rig::config_file(&world, "");
    let said = |output: &std::process::Output| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let daemon = rig::daemon(&world, "", &clock).await;
    let (sku, warehouse, _) = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    world.change("old", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    let copy = world.path.with_file_name("copy.db");
    daemon.context().store.backup_create(&copy, clock.now(), |_, _| {}).await.unwrap();
    let restore = ["restore", copy.to_str().unwrap()];
    let (code, text) = said(&rig::program(&config, &restore).await);
    assert!(code == Some(1) && text.contains("Stop it (`sudo systemctl stop tallyd`)"), "{text}");
    run(&daemon, JobKind::Push).await;
    kill(daemon).await;

    // What is no copy changes nothing.
    let text_file = world.path.with_file_name("notes.txt");
    std::fs::write(&text_file, "these are no pages of a database, but a note of some length").unwrap();
    let empty = world.path.with_file_name("empty.db");
    std::fs::write(&empty, "").unwrap();
    for wrong in [&text_file, &empty, &world.path.with_file_name("none.db")] {
        let (code, text) = said(&rig::program(&config, &["restore", wrong.to_str().unwrap()]).await);
        assert_eq!(code, Some(1), "{text}");
        assert_eq!(world.fate("old").await.0, "applied", "{text}");
    }

    let (code, text) = said(&rig::program(&config, &restore).await);
    assert!(
        code == Some(0) && text.contains("pending") && text.contains("outbox list --state held"),
        "{text}"
    );
    let mode = std::fs::metadata(&world.path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o660, "the group of the programs writes to it");
    let kept = text.split_once("is kept as ").unwrap().1.split(". ").next().unwrap();
    assert_eq!(
        rig::number_in(Path::new(kept), "SELECT count(*) FROM outbox WHERE state = 'applied'").await,
        1
    );
    let daemon = rig::daemon(&world, "", &clock).await;
    assert_eq!(world.fate("old").await.1, "restored");
    kill(daemon).await;

    // A file of another tool has no marker, and no position file tells either.
    let (code, text) = said(&rig::program(&config, &["restore", kept]).await);
    assert_eq!(code, Some(0), "{text}");
    let daemon = rig::daemon(&world, "", &clock).await;
    world.change("again", "quantity.adjust", &adjust(&sku, warehouse, -1)).await;
    assert_eq!(world.fate("again").await.1, "restored");
    kill(daemon).await;
}

#[tokio::test]
async fn a_kill_right_after_a_commit_is_no_restore() {
    let world = World::new().await;
    let clock = Moved::new();
    for _ in 0..3 {
        let daemon = rig::daemon(&world, "", &clock).await;
        run(&daemon, JobKind::Warehouses).await;
        drop(daemon);
        let store = Store::open_beside(&world.location).await.unwrap();
        assert!(store.rollback_sign(None).await.unwrap().is_none());
    }
    assert_eq!(world.number("SELECT count(*) FROM brake_trip").await, 0);
}
