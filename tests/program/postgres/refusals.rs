//! Refusals of a server: each with what to do, and with the exit code of a failure that may pass.

use super::server::{tallyd, text};
use crate::support::World;
use crate::support::cluster::Cluster;
use std::sync::Arc;
use tallyd::daemon::{Daemon, StartError, SystemClock};
use tallyd::model::{Clock, Moment, Timestamp};
use tallyd::store::{DatabaseLocation, DatabaseLock, Durability, PostgresDatabase, Store};

/// Returns a database of the cluster for a role.
fn of(cluster: &Cluster, world: &World, (role, database): (&str, &str)) -> DatabaseLocation {
    let url = cluster.url_of(role).replace("/postgres?", &format!("/{database}?"));
    DatabaseLocation::on_server(PostgresDatabase::new(&url, "north").unwrap(), &world.path)
}

#[tokio::test]
async fn a_refused_connection_names_its_remedy_and_may_pass() {
    let Some(cluster) = Cluster::start() else { return };
    let mut world = World::on_server(&cluster, "north").await;
    cluster.sql("CREATE ROLE keeper LOGIN PASSWORD 'right'; CREATE SCHEMA north AUTHORIZATION keeper;");
    cluster.sql("CREATE DATABASE closed");
    cluster.sql("REVOKE CONNECT ON DATABASE closed FROM PUBLIC");
    cluster.authenticate("local all keeper scram-sha-256");
    let password = world.path.with_file_name("database-password");
    for (role, database, word, reasons) in [
        ("keeper", "postgres", "wrong", ["password authentication failed", "the file of `password_file`"]),
        ("keeper", "nowhere", "right", ["\"nowhere\" does not exist", "create it"]),
        ("keeper", "closed", "right", ["permission denied for database", "grant the role the right"]),
        ("stranger", "postgres", "right", ["no pg_hba.conf entry", "let it in from this host"]),
    ] {
        std::fs::write(&password, word).unwrap();
        world.location = of(&cluster, &world, (role, database));
        for arguments in [&["check"][..], &["run"], &["stock"]] {
            let done = tallyd(&world, arguments).await;
            let why = text(&done.stderr);
            for reason in reasons {
                assert!(why.contains(reason), "{role} {database} {arguments:?}: {why}");
            }
            assert_eq!(done.status.code(), Some(1), "{why}");
        }
    }
    std::fs::write(&password, "right").unwrap();
    world.location = of(&cluster, &world, ("keeper", "postgres"));
    assert!(tallyd(&world, &["run", "--once"]).await.status.success());
}

#[tokio::test]
async fn a_start_waits_for_a_connection_and_for_a_server_that_starts() {
    let Some(cluster) = Cluster::start() else { return };
    let mut world = World::on_server(&cluster, "north").await;
    cluster.sql("CREATE ROLE keeper LOGIN CONNECTION LIMIT 0");
    let lock = DatabaseLock::acquire(&world.path).unwrap();
    world.location = of(&cluster, &world, ("keeper", "postgres"));
    let error = Store::open(&world.location, &lock).await.unwrap_err();
    assert!(error.delays_start() && error.to_string().contains("raise its limit"), "{error}");
    world.location = cluster.location("north", &world.path);
    // A standby that takes no connections answers as a server that starts.
    std::fs::write(cluster.dir().join("data/standby.signal"), "").unwrap();
    cluster.restart_with("-c listen_addresses= -c hot_standby=off");
    let error = Store::open(&world.location, &lock).await.unwrap_err();
    assert!(error.delays_start() && error.to_string().contains("starts or stops"), "{error}");
}

#[tokio::test]
async fn a_standby_server_is_refused_until_it_is_promoted() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.make().await;
    std::fs::write(cluster.dir().join("data/standby.signal"), "").unwrap();
    cluster.restart_with("-c listen_addresses=");
    for arguments in [&["check"][..], &["run"]] {
        let done = tallyd(&world, arguments).await;
        let why = text(&done.stderr);
        assert!(why.contains("is a standby") && why.contains("name the primary"), "{arguments:?}: {why}");
        assert_eq!(done.status.code(), Some(1));
    }
    let beside = Store::open_beside(&world.location).await.unwrap();
    let error = beside.begin_write(Durability::Full).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("name the primary"), "{error}");
    assert_eq!(cluster.sql("SELECT pg_promote()"), ["t"]);
    beside.begin_write(Durability::Full).await.unwrap().commit().await.unwrap();
    assert!(tallyd(&world, &["run", "--once"]).await.status.success());
}

#[tokio::test]
async fn a_full_disk_of_the_server_is_named_and_waited_for() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.make().await;
    cluster.sql(
        "CREATE FUNCTION north.fill() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER fill BEFORE INSERT ON north.session EXECUTE FUNCTION north.fill();",
    );
    let started = Daemon::start(world.config(), Arc::new(SystemClock)).await;
    let Err(StartError::Store(error)) = started else { panic!("it started") };
    assert!(error.delays_start() && error.is_transient(), "{error}");
    assert!(error.to_string().contains("the disk of the server is full: free space"), "{error}");
}

/// Clock that is ahead of the host's by so many milliseconds.
struct AheadClock(i64);

impl Clock for AheadClock {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0)
    }

    fn moment(&self) -> Moment {
        SystemClock.moment()
    }
}

#[tokio::test]
async fn a_server_whose_clock_differs_by_half_a_minute_is_refused() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    for ahead_ms in [-3_600_000, -31_000, 31_000, 3_600_000] {
        let checked = world.location.check_server(&AheadClock(ahead_ms)).await.map(drop);
        let started = Daemon::start(world.config(), Arc::new(AheadClock(ahead_ms))).await.map(drop);
        let Err(StartError::Store(started)) = started else { panic!("{ahead_ms}: it started") };
        for error in [checked.unwrap_err(), started] {
            assert!(!error.delays_start() && !error.is_transient(), "{error}");
            let why = error.to_string();
            assert!(why.contains("clocks of the server and of this host differ by"), "{why}");
            assert!(why.contains("set both by NTP"), "{why}");
        }
    }
    assert_eq!(world.number("SELECT count(*) FROM session").await, 0, "a refused start leaves no session");
    for (ahead_ms, warns) in [(-27_000, true), (-4_000, true), (0, false), (4_000, true), (27_000, true)] {
        let clock = AheadClock(ahead_ms);
        let report = world.location.check_server(&clock).await.unwrap().unwrap();
        let warning = report.clock_warning.unwrap_or_default();
        assert_eq!(warning.contains("differ by"), warns, "{ahead_ms}: {warning}");
        let daemon = Daemon::start(world.config(), Arc::new(clock)).await.unwrap();
        assert!(daemon.run_once().await.unwrap().is_good());
    }
}
