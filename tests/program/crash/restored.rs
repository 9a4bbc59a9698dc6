//! A database that went back in time.
//!
//! Changes that may have taken effect since are held, once. A crash is no restore.

use super::rig::{self, Moved};
use crate::support::World;
use std::path::Path;
use tallyd::daemon::Daemon;
use tallyd::daemon::run_job;
use tallyd::model::{Clock, JobKind, RunTrigger};
use tallyd::outbox::ChangeKind;
use tallyd::store::Store;

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
    kill(daemon).await;

    put_back(&copy, &world.path);
    let daemon = rig::daemon(&world, "", &clock).await;
    run(&daemon, JobKind::Push).await;
    for key in doubles {
        let (state, reason, detail) = world.fate(key).await;
        assert_eq!((state.as_str(), reason.as_str()), ("held", "restored"), "{key}");
        assert!(detail.contains("is a copy made at") && detail.contains("outbox release"), "{detail}");
    }
    assert_eq!(world.fate("count").await.0, "applied", "a count is absolute");
    assert_eq!(world.shop_level(&sku, warehouse).await, sold - 2, "nothing was done twice");
    kill(daemon).await;

    let daemon = rig::daemon(&world, "", &clock).await;
    let mut write = daemon.context().store.begin_write(tallyd::store::Durability::Full).await.unwrap();
    assert_eq!(write.brake_release(&[], clock.now()).await.unwrap(), 4, "they stand in one trip");
    write.commit().await.unwrap();
    run(&daemon, JobKind::Push).await;
    assert_eq!(world.fate("adjust").await.0, "applied", "released is released: no second alarm");
    assert_eq!(world.shop_level(&sku, warehouse).await, sold - 4);
}

/// Returns true if a second effect of the kind does no harm. A new kind does not compile here until it is
/// decided, and `NON_IDEMPOTENT_CHANGES` of the store must agree.
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

#[tokio::test]
async fn each_kind_that_could_take_effect_twice_is_held_after_a_restore() {
    let world = World::new().await;
    if world.is_on_server("PostgreSQL makes its own copies") {
        return;
    }
    let clock = Moved::new();
    let daemon = rig::daemon(&world, "", &clock).await;
    for kind in ChangeKind::ALL {
        world.change(kind.as_str(), kind.as_str(), "{}").await;
    }
    let copy = world.path.with_file_name("copy.db");
    daemon.context().store.backup_create(&copy, clock.now(), |_, _| {}).await.unwrap();
    kill(daemon).await;
    put_back(&copy, &world.path);
    drop(rig::daemon(&world, "", &clock).await);
    for kind in ChangeKind::ALL {
        let expected = if is_idempotent(*kind) { "pending" } else { "held" };
        assert_eq!(world.fate(kind.as_str()).await.0, expected, "{kind}");
    }
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
    assert_eq!(world.fate("count").await.0, "applied");
    assert_eq!(world.fate("seen").await.1, "restored", "what it names was seen before, and no longer tells");
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 3);
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
