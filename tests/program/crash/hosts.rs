//! A database on two hosts.
//!
//! A host that takes over measures by its own clock since its boot. A database without its position file, or
//! from another machine, is recognised.

use super::rig::{self, Moved, Side, Wire};
use crate::support::World;
use std::path::Path;
use std::sync::Arc;
use tallyd::daemon::Daemon;
use tallyd::daemon::run_job;
use tallyd::model::{JobKind, Operation, RunTrigger};

/// The quiet time of a create, with a margin.
const QUIET_MS: i64 = 601_000;
/// The distance of two checks, with a margin.
const LOOKS_APART_MS: i64 = 6_000;

async fn run(daemon: &Daemon, kind: JobKind) -> String {
    run_job(daemon.context(), kind, RunTrigger::Once).await.unwrap().summary
}

async fn end(daemon: Daemon) {
    let store = daemon.context().store.clone();
    drop(daemon);
    store.close().await.unwrap();
}

/// Starts a daemon whose host dies while the create of a shipment is on its way, before a byte arrives.
async fn dies_while_shipping(world: &World, clock: &Arc<Moved>) {
    let daemon = rig::daemon(world, "", clock).await;
    let (sku, ..) = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    let order = world.sandbox.place_order(&[(sku.as_str(), 1)]).await.unwrap();
    world.change("ship", "shipment.create", &format!(r#"{{"order_id":{order}}}"#)).await;
    end(daemon).await;
    let config = rig::config(world, "");
    let (died, mut dead) = tokio::sync::mpsc::unbounded_channel();
    let wire = Wire {
        inner: rig::transport(&config),
        hook: Box::new(move |operation, side| {
            let lives = operation != Operation::CreateShipments || side != Side::Before;
            if !lives {
                died.send(()).unwrap();
            }
            Box::pin(async move { lives })
        }),
    };
    let daemon = rig::daemon_over(config, clock, Arc::new(wire)).await;
    let push = run_job(daemon.context(), JobKind::Push, RunTrigger::Once);
    tokio::select! {
        _ = push => panic!("the create is answered by nobody"),
        _ = dead.recv() => {}
    }
    end(daemon).await;
}

/// Makes all sessions so far another machine's, whose calendar was `behind_ms` behind ours.
async fn on_another_host(world: &World, behind_ms: i64) {
    world
        .sql(&format!(
            "UPDATE session SET boot_id = 'another boot', started_moment = 5, started_ms = started_ms - {behind_ms};
             UPDATE exchange SET sent_ms = sent_ms - {behind_ms}, answered_ms = answered_ms - {behind_ms},
                                 sent_moment = 7, answered_moment = CASE WHEN answered_moment IS NOT NULL THEN 8 END;
             UPDATE in_doubt_check SET sent_ms = sent_ms - {behind_ms}"
        ))
        .await;
}

#[tokio::test]
async fn the_quiet_time_after_a_takeover_runs_from_the_start_that_found_the_call() {
    let (world, clock) = (World::new().await, Moved::new());
    dies_while_shipping(&world, &clock).await;
    on_another_host(&world, 3_600_000).await;

    let daemon = rig::daemon(&world, "", &clock).await;
    for _ in 0..3 {
        run(&daemon, JobKind::Settle).await;
        clock.later(LOOKS_APART_MS);
    }
    let (state, reason, _) = world.fate("ship").await;
    assert_eq!((state.as_str(), reason.as_str()), ("in_doubt", "no_answer"), "the create may still arrive");
    clock.later(QUIET_MS);
    for _ in 0..2 {
        run(&daemon, JobKind::Settle).await;
        clock.later(LOOKS_APART_MS);
    }
    assert_eq!(world.fate("ship").await.0, "pending", "ten quiet minutes of our own and two looks");
    end(daemon).await;
}

#[tokio::test]
async fn looks_of_another_host_do_not_shorten_the_quiet_time() {
    let (world, clock) = (World::new().await, Moved::new());
    dies_while_shipping(&world, &clock).await;
    let daemon = rig::daemon(&world, "", &clock).await;
    run(&daemon, JobKind::Settle).await;
    end(daemon).await;
    // The other host's calendar is an hour ahead, so its check seems to lie after every quiet time.
    on_another_host(&world, -3_600_000).await;

    let daemon = rig::daemon(&world, "", &clock).await;
    clock.later(LOOKS_APART_MS);
    run(&daemon, JobKind::Settle).await;
    assert_eq!(world.fate("ship").await.0, "in_doubt");
    // The first check of this host after the quiet time counts as one; the other host's checks do not count.
    clock.later(QUIET_MS);
    run(&daemon, JobKind::Settle).await;
    assert_eq!(world.fate("ship").await.0, "in_doubt");
    clock.later(LOOKS_APART_MS);
    run(&daemon, JobKind::Settle).await;
    assert_eq!(world.fate("ship").await.0, "pending");
    end(daemon).await;
}

/// Leaves a pending adjust, and a daemon that was stopped in good order.
async fn with_a_movement(world: &World, clock: &Arc<Moved>) {
    let daemon = rig::daemon(world, "", clock).await;
    run(&daemon, JobKind::Warehouses).await;
    let (sku, warehouse, _) = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    let body = format!(r#"{{"sku":"{sku}","warehouse_id":{warehouse},"delta":-1}}"#);
    world.change("move", "quantity.adjust", &body).await;
    end(daemon).await;
}

fn position_file(world: &World) -> std::path::PathBuf {
    world.path.with_file_name(format!("{}.position", world.path.file_name().unwrap().to_str().unwrap()))
}

/// Starts the next daemon with these lines about its database, and pushes; returns the fate of the adjust.
async fn pushed(world: &World, clock: &Arc<Moved>, database: &str) -> (String, String, String) {
    let toml = rig::toml(world, "").replace("[database]\n", &format!("[database]\n{database}"));
    let config = tallyd::config::Config::from_toml(&toml).unwrap();
    let transport = rig::transport(&config);
    let daemon = rig::daemon_over(config, clock, transport).await;
    run(&daemon, JobKind::Push).await;
    let fate = world.fate("move").await;
    end(daemon).await;
    fate
}

#[tokio::test]
async fn a_database_in_use_without_its_position_file_was_copied_by_another_tool() {
    let (world, clock) = (World::new().await, Moved::new());
    if world.is_on_server("a host that stands by for the first time has no position file either") {
        return;
    }
    with_a_movement(&world, &clock).await;
    std::fs::remove_file(position_file(&world)).unwrap();
    let (state, reason, detail) = pushed(&world, &clock, "").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "restored"), "{detail}");
    assert!(detail.contains(".position") && detail.contains("outbox release"), "{detail}");
    assert!(position_file(&world).exists(), "the alarm is raised once");
}

#[tokio::test]
async fn a_new_database_needs_no_position_file_even_if_its_first_start_is_killed() {
    let (world, clock) = (World::new().await, Moved::new());
    world.make().await;
    assert!(!position_file(&world).exists(), "commands alone leave none");
    // The start writes the file before its session, so no session exists without it.
    let daemon = rig::daemon(&world, "", &clock).await;
    assert!(position_file(&world).exists());
    end(daemon).await;
    assert_eq!(world.number("SELECT count(*) FROM brake_trip").await, 0);
    let lines = std::fs::read_to_string(position_file(&world)).unwrap();
    std::fs::write(position_file(&world), &lines[..7]).unwrap();
    with_a_movement(&world, &clock).await;
    assert_eq!(pushed(&world, &clock, "").await.0, "applied", "half a line says nothing");
}

#[tokio::test]
async fn a_database_that_comes_from_another_machine_is_held_unless_its_disk_moves() {
    for (more, expected) in [("", "held"), ("moves_between_hosts = true\n", "applied")] {
        let (world, clock) = (World::new().await, Moved::new());
        if world.is_on_server("any host may lead") {
            return;
        }
        with_a_movement(&world, &clock).await;
        world.sql("UPDATE session SET host = 'another machine'").await;
        let (state, reason, detail) = pushed(&world, &clock, more).await;
        assert_eq!(state, expected, "{detail}");
        if expected == "held" {
            assert_eq!(reason, "restored");
            assert!(detail.contains("another machine") && detail.contains("moves_between_hosts"), "{detail}");
        }
    }
}

async fn says(config: &Path, args: &[&str]) -> (i32, String) {
    let output = rig::program(config, args).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_says_that_the_database_was_restored() {
    let (world, clock) = (World::new().await, Moved::new());
    with_a_movement(&world, &clock).await;
    let config = rig::config_file(&world, "");
    let daemon = rig::daemon(&world, "", &clock).await;
    let (code, said) = says(&config, &["restored"]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("stop"), "a daemon that runs has sent from it already: {said}");
    end(daemon).await;

    let (code, said) = says(&config, &["restored"]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("systemctl start tallyd"), "{said}");
    let (state, reason, detail) = pushed(&world, &clock, "").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "restored"), "{detail}");
    assert!(detail.contains("tallyd restored"), "{detail}");
    let events = "SELECT count(*) FROM event WHERE kind = 'database.declared_restored' \
                  AND decided_by LIKE 'user:%'";
    assert_eq!(world.number(events).await, 1);
    assert_eq!(world.number("SELECT count(*) FROM backup_marker").await, 0, "said once, held once");
}
