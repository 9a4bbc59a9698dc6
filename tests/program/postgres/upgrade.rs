//! Two hosts, one of which has a newer version: the schema belongs to the leader.

use super::hosts::{Host, adjust, begin};
use crate::support::World;
use crate::support::cluster::Cluster;
use crate::support::outsider::Outsider;
use sqlx::migrate::Migrator;
use tallyd::store::{Store, migrations_of};
use tokio::time::{Duration, Instant};

/// Marks the schema as one that a newer version migrated.
const NEWER: &str = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     VALUES (9999, 'of a newer version', TRUE, '\\x00', 0)";

/// Returns the number of times that a daemon took the lead.
async fn leads(world: &World) -> i64 {
    world.number("SELECT count(*) FROM leadership").await
}

#[tokio::test]
async fn an_older_version_refuses_a_newer_schema_and_says_so_and_the_newer_one_leads_on() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut newer = Host::start(&world, "newer");
    newer.until("daemon.ready").await;
    let mut older = Host::start(&world, "older");
    older.until("lead.standby").await;
    world.sql(NEWER).await;
    assert_eq!(older.ended().await, Some(1), "a standby that could not lead stands by no longer");
    older.until_line("migration 9999").await;
    let before = leads(&world).await;
    let mut again = Host::start(&world, "older");
    assert_eq!(again.ended().await, Some(1));
    again.until_line("Install the newer version on this host too").await;
    adjust(&world, &level, "meanwhile").await;
    newer.signal("-TERM").await;
    assert_eq!(newer.ended().await, Some(0));
    let mut alone = Host::start(&world, "older");
    assert_eq!(alone.ended().await, Some(1), "not even if nobody leads");
    assert_eq!(leads(&world).await, before, "the older version never took the lead from the newer one");
    // The older host gets the newer version.
    world.sql("DELETE FROM _sqlx_migrations WHERE version = 9999").await;
    let mut upgraded = Host::start(&world, "older");
    upgraded.until("daemon.ready").await;
    adjust(&world, &level, "after").await;
    upgraded.signal("-TERM").await;
    assert_eq!(upgraded.ended().await, Some(0));
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 2);
}

#[tokio::test]
async fn a_schema_of_other_migrations_is_refused_with_what_to_do() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, _) = begin(&cluster).await;
    let mut first = Host::start(&world, "first");
    first.until("daemon.ready").await;
    first.signal("-TERM").await;
    assert_eq!(first.ended().await, Some(0));
    world.sql("UPDATE _sqlx_migrations SET checksum = '\\x00' WHERE version = 1").await;
    let before = leads(&world).await;
    let mut again = Host::start(&world, "first");
    assert_eq!(again.ended().await, Some(1));
    again.until_line("migration 1 differs").await;
    assert_eq!(leads(&world).await, before);
    let beside = Store::open_beside(&world.location).await.unwrap_err().to_string();
    assert!(
        beside.contains("migration 1 differs") && beside.contains("set `database.schema` to a new one"),
        "{beside}"
    );
}

#[tokio::test]
async fn an_upgrade_of_the_standby_and_then_of_the_leader_is_not_a_second_without_a_leader() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut first = Host::start(&world, "first");
    first.until("daemon.ready").await;
    let mut second = Host::start(&world, "second");
    second.until("lead.standby").await;
    // The standby gets the new version and is restarted; the leader works on.
    second.signal("-TERM").await;
    assert_eq!(second.ended().await, Some(0));
    let before = leads(&world).await;
    let mut second = Host::start(&world, "second");
    second.until("lead.standby").await;
    adjust(&world, &level, "between").await;
    assert_eq!(leads(&world).await, before);
    // Then the leader.
    first.signal("-TERM").await;
    assert_eq!(first.ended().await, Some(0));
    let without = Instant::now();
    second.until("lead.taken").await;
    assert!(without.elapsed() < Duration::from_secs(1), "{:?}", without.elapsed());
    let mut first = Host::start(&world, "first");
    first.until("lead.standby").await;
    adjust(&world, &level, "after").await;
    assert_eq!(leads(&world).await, before + 1);
    second.signal("-TERM").await;
    assert_eq!(second.ended().await, Some(0));
    first.until("daemon.ready").await;
}

/// Makes the schema of a world as the version before the newest migration left it.
async fn make_older_schema(world: &World) {
    let mut files = migrations_of(true);
    files.pop();
    let older = tempfile::tempdir().unwrap();
    for (version, text) in &files {
        std::fs::write(older.path().join(format!("{version:04}_older.sql")), text).unwrap();
    }
    let Outsider::Postgres(mut connection) = world.outsider().await else { panic!("it is on a server") };
    let older = Migrator::new(older.path()).await.unwrap();
    older.run_direct(None, &mut connection, false).await.unwrap();
}

#[tokio::test]
async fn a_standby_of_a_newer_version_migrates_the_schema_when_it_leads_and_not_before() {
    const LEAD: &str = "WITH led AS (UPDATE journal_sequence SET heartbeat = heartbeat + 1, \
                            session_id = nextval(pg_get_serial_sequence('session', 'id')) RETURNING session_id) \
                        INSERT INTO leadership (session_id, instance_id, host_name, began_ms) \
                        SELECT session_id, 'older', 'older', 0 FROM led";
    const RELEASE: &str =
        "UPDATE journal_sequence SET session_id = NULL; SELECT pg_notify('tallyd', 'north released')";
    const VERSION: &str = "SELECT max(version) FROM _sqlx_migrations";
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    cluster.sql("CREATE SCHEMA north");
    make_older_schema(&world).await;
    let before = world.number(VERSION).await;
    // The rows of a leader of the older version.
    world.sql(LEAD).await;
    let mut newer = Host::start(&world, "newer");
    assert_eq!(newer.until("lead.standby").await["leader"], "older");
    assert_eq!(world.number(VERSION).await, before, "the older version still works on it");
    world.sql(RELEASE).await;
    let released = Instant::now();
    newer.until("daemon.ready").await;
    assert!(released.elapsed() < Duration::from_secs(4), "{:?}", released.elapsed());
    assert!(world.number(VERSION).await > before);
}
