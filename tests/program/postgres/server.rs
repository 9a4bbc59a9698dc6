//! A daemon whose database is on a server: the checks before its use, lost connections, a server that is away.

use crate::support::cluster::Cluster;
use crate::support::outsider::Outsider;
use crate::support::{UPDATE, World, replayed};
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;
use tallyd::store::{DatabaseLock, Durability, PostgresDatabase, Store, StoreOptions};
use tokio::process::Command;
use tokio::time::{Duration, Instant, sleep, timeout};

/// Runs a command with the world's configuration; fails if it does not end.
pub(super) async fn tallyd(world: &World, arguments: &[&str]) -> Output {
    let config = world.path.with_file_name("tallyd.toml");
    std::fs::write(&config, world.toml("")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(&config).args(arguments).env_remove("TALLYD_TEST_ENGINE");
    let done = timeout(Duration::from_secs(60), command.kill_on_drop(true).output()).await;
    done.unwrap_or_else(|_| panic!("{arguments:?} does not end")).unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ends all connections of tallyd to the schema's database, as a restart of the server does.
async fn end_connections(world: &World) -> i64 {
    let sql =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tallyd'";
    world.outsider().await.value(sql).await
}

#[tokio::test]
async fn a_daemon_outlives_its_connections_and_sends_each_change_once() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    world.track_all().await;
    assert!(world.once().await.is_good());
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 >= 20).unwrap();
    let mut working = world.work().await;
    let rounds = 5;
    for n in 0..rounds {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}).to_string();
        world.change(&format!("add{n}"), "quantity.adjust", &body).await;
        let sql = "SELECT count(*) FROM outbox WHERE state = 'applied'";
        tokio::select! {
            () = world.until("the change is applied", async |world| world.number(sql).await == n + 1) => {}
            ended = &mut working.ended => panic!("round {n}: the daemon ended: {ended:?}"),
        }
        assert!(end_connections(&world).await >= 3, "one writes, one reads, one listens");
    }
    working.stop().await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity + rounds);
    assert_eq!(world.calls(UPDATE), usize::try_from(rounds).unwrap());
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_server_ends_an_idle_transaction_unless_it_is_to_pause() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let location = |schema: &str| cluster.location(schema, &dir.path().join(schema));
    let [north, south] = [location("north"), location("south")];
    let locks = [&north, &south].map(|location| DatabaseLock::acquire(location.path()).unwrap());
    let pausing_store = Store::open(&north, &locks[0]).await.unwrap();
    let idle_store = Store::open(&south, &locks[1]).await.unwrap();
    // The one that is to pause begins first, so the server would end it first.
    let mut pausing = pausing_store.begin_write(Durability::Full).await.unwrap();
    pausing.allow_pauses().await.unwrap();
    let idle = idle_store.begin_write(Durability::Full).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    let begun = Instant::now();
    while cluster.sql(sql) != ["1"] {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server ends no idle transaction");
        sleep(Duration::from_millis(100)).await;
    }
    pausing.commit().await.unwrap();
    let error = idle.commit().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    idle_store.begin_write(Durability::Full).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn check_shows_the_server_and_no_password() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    std::fs::write(world.path.with_file_name("database-password"), "not-to-be-shown\n").unwrap();
    let before = tallyd(&world, &["check"]).await;
    let shown = text(&before.stdout) + &text(&before.stderr);
    assert_eq!(before.status.code(), Some(0), "{shown}");
    assert!(shown.contains("schema north\n"), "{shown}");
    assert!(shown.contains("no schema yet: nothing is tracked"), "{shown}");
    assert!(shown.contains("is noticed at once, by its notification"), "{shown}");
    assert!(!shown.contains("not-to-be-shown"), "{shown}");
    assert!(shown.contains(", as role tallyd;"), "{shown}");
    let status = tallyd(&world, &["status"]).await;
    assert_eq!(status.status.code(), Some(1));
    assert!(text(&status.stderr).contains("there is no database at postgres://"), "{}", text(&status.stderr));
    world.track_all().await;
    world.once().await;
    for arguments in [&["check"][..], &["status"], &["stock"], &["outbox", "list"], &["verify"]] {
        let done = tallyd(&world, arguments).await;
        assert!(done.status.success(), "{arguments:?}: {}{}", text(&done.stdout), text(&done.stderr));
    }
    let copy = world.path.with_file_name("copy.db");
    let refused = tallyd(&world, &["backup", copy.to_str().unwrap()]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("`pg_dump` of the schema"), "{}", text(&refused.stderr));
}

#[tokio::test]
async fn a_server_that_cannot_serve_is_refused_with_the_remedy() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0;");
    cluster.sql(
        "CREATE ROLE guest LOGIN; REVOKE CREATE ON DATABASE postgres FROM PUBLIC; CREATE SCHEMA others;",
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.db");
    let lock = DatabaseLock::acquire(&path).unwrap();
    let of = |database: &str, user: &str, schema: &str| {
        let url = cluster.url().replace("/postgres?", &format!("/{database}?")).replace("user=tallyd", user);
        tallyd::store::DatabaseLocation::on_server(PostgresDatabase::new(&url, schema).unwrap(), &path)
    };
    for (location, reason, remedy) in [
        (of("latin", "user=tallyd", "north"), "has the encoding LATIN1", "createdb --encoding=UTF8"),
        (
            of("postgres", "user=guest", "north"),
            "permission denied for database",
            "the SQL of `tallyd schema`",
        ),
        (of("postgres", "user=guest", "others"), "schema", "the SQL of `tallyd schema`"),
    ] {
        let error = Store::open(&location, &lock).await.unwrap_err();
        assert!(!error.delays_start(), "{error}");
        assert!(error.to_string().contains(reason) && error.to_string().contains(remedy), "{error}");
    }
    let away = of("postgres", "user=tallyd", "north").to_string();
    drop(cluster);
    let error = Store::open(&of_missing(&path), &lock).await.unwrap_err();
    assert!(error.delays_start(), "{error}");
    assert!(error.to_string().contains("check that the server runs"), "{away}: {error}");
}

#[tokio::test]
async fn a_password_file_that_users_outside_of_its_group_can_read_is_warned_of() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    let file = world.path.with_file_name("database-password");
    std::fs::write(&file, "word").unwrap();
    let warning = format!("other users can read {}; chmod 0640 it", file.display());
    for (mode, warns) in [(0o644, true), (0o640, false), (0o400, false)] {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        for arguments in [&["check"][..], &["run", "--once"]] {
            let done = tallyd(&world, arguments).await;
            let shown = text(&done.stdout) + &text(&done.stderr);
            assert!(done.status.success(), "{shown}");
            assert_eq!(shown.contains(&warning), warns, "{mode:o} {arguments:?}: {shown}");
        }
    }
}

/// Follows docs/postgresql.md, *Two hosts*, with a copy for `scp` and without the group, which only root can set.
#[test]
fn the_ten_commands_of_the_second_host_give_its_files_their_modes() {
    let page = include_str!("../../../docs/postgresql.md");
    let block = page.split("Ten commands there:\n\n```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(block.lines().count(), 10);
    assert!(!block.contains('*'), "a user who may not list /etc/tallyd cannot expand it: {block}");
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, mode: u32| {
        let file = dir.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, name).unwrap();
        std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    };
    // The package brings the configuration.
    write("second/tallyd.toml", 0o640);
    let files = [
        ("tallyd.toml", 0o640),
        ("integration-key", 0o400),
        ("gateway-key", 0o400),
        ("database-password", 0o640),
    ];
    for (name, mode) in files {
        write(&format!("first/{name}"), mode);
    }
    let there = block.lines().filter(|line| line.contains("/etc/tallyd/"));
    let there = there.map(|line| line.replace("sudo scp first:/etc/tallyd", "cp first"));
    let there = there.map(|line| line.replace("sudo chgrp tallyd ", "test -f ").replace("sudo ", ""));
    let script: Vec<String> = there.map(|line| line.replace("/etc/tallyd", "second")).collect();
    let script = format!("umask 022\n{}", script.join("\n"));
    let done =
        std::process::Command::new("sh").args(["-ec", &script]).current_dir(dir.path()).status().unwrap();
    assert!(done.success(), "{script}");
    for (name, mode) in files {
        let file = dir.path().join("second").join(name);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("first/{name}"));
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    assert!(block.contains("sudo chgrp tallyd /etc/tallyd/database-password\n"), "{block}");
}

#[tokio::test]
async fn a_schema_may_have_the_name_of_a_keyword() {
    let Some(cluster) = Cluster::start() else { return };
    for schema in ["user", "order", "_1"] {
        let world = World::on_server(&cluster, schema).await;
        world.track_all().await;
        assert!(world.once().await.is_good());
        let done = tallyd(&world, &["check"]).await;
        assert!(done.status.success(), "{}", text(&done.stderr));
        let sql = format!("SELECT count(*) > 0 FROM \"{schema}\".stock");
        assert_eq!(cluster.sql(&sql), ["t"]);
    }
}

#[tokio::test]
async fn status_of_a_database_that_moved_names_its_new_place() {
    let Some(cluster) = Cluster::start() else { return };
    let mut world = World::on_server(&cluster, "north").await;
    let there = std::mem::replace(&mut world.location, world.path.clone().into());
    world.make().await;
    let url = cluster.url();
    let path = world.path.display().to_string();
    let moved = world.toml("").replace("[database]\n", "[database]\nschema = \"north\"\n");
    let config = world.path.with_file_name("move.toml");
    std::fs::write(&config, moved).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    let command = command.arg("--config").arg(&config).args(["move", "--from", &path, "--to", &url]);
    let done = command.output().await.unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    for arguments in [&["status"][..], &["status", "--json"], &["check"], &["run"]] {
        let done = tallyd(&world, arguments).await;
        let why = text(&done.stderr);
        assert!(why.contains(&format!("moved to {there}")), "{arguments:?}: {}{why}", text(&done.stdout));
        assert_eq!(done.status.code(), Some(2), "{why}");
    }
    assert!(tallyd(&world, &["stock"]).await.status.success(), "the side left behind can be read");
}

#[tokio::test]
async fn a_schema_is_made_while_that_of_another_account_waits() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let open = async |schema: &str| {
        let location = cluster.location(schema, &dir.path().join(schema));
        let lock = DatabaseLock::acquire(location.path()).unwrap();
        // As a leader does, whose look at the row of the leader was before. A look that waits is given up.
        Store::open_to_lead(location, &lock, StoreOptions::default()).await?.migrate().await
    };
    open("north").await.unwrap();
    let mut program = Outsider::at(&cluster.location("north", &dir.path().join("north"))).await;
    program.run("BEGIN; LOCK TABLE _sqlx_migrations").await.unwrap();
    let others = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while cluster.sql(waits) != ["1"] {
            sleep(Duration::from_millis(20)).await;
        }
        let opened = open("south").await;
        program.run("ROLLBACK").await.unwrap();
        opened.unwrap();
    };
    let (waited, ()) = tokio::join!(open("north"), others);
    waited.unwrap();
}

/// Returns a location at which no server answers.
fn of_missing(path: &std::path::Path) -> tallyd::store::DatabaseLocation {
    let url = format!("postgres:///stock?user=tallyd&host={}", path.parent().unwrap().display());
    tallyd::store::DatabaseLocation::on_server(PostgresDatabase::new(&url, "north").unwrap(), path)
}
