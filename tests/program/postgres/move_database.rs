//! The move of a database to a server and back: every row, one leader, and what an interruption leaves.

use super::super::replay::fixture;
use super::server::{tallyd, text};
use crate::support::World;
use crate::support::cluster::Cluster;
use crate::support::outsider::Outsider;
use crate::support::replayed;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tallyd::model::{Decider, Timestamp};
use tallyd::sandbox::SandboxOptions;
use tallyd::store::{DatabaseLocation, DatabaseLock, MoveReport, Result, Store, StoreError, move_database};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

const AT: Timestamp = Timestamp(1_900_000_000_000);

static MOVER: LazyLock<Decider> = LazyLock::new(|| Decider::User("anna".into()));

async fn moved(from: &DatabaseLocation, to: &DatabaseLocation) -> Result<MoveReport> {
    move_database(from, to, (AT, &MOVER), |_, _| ()).await
}

/// Rows of the tables that are empty in the fixtures; a table of facts among them would not replay.
const MORE_ROWS: &str = "
    INSERT INTO request (kind, input, asked_at) VALUES ('keys', '{}', 'now'), ('keys', '{}', 'now');
    DELETE FROM request WHERE id = 2;
    INSERT INTO limiter_state VALUES (1, '{}');
    INSERT INTO quarantine VALUES ('read', 'Ä-1', 1, 2, 3, 'it fails');
    INSERT INTO untracked_sku VALUES ('Ä-2');
    INSERT INTO order_read_request (order_id) VALUES (4711);
    INSERT INTO brake_trip (at_ms, what) VALUES (1, 'zeroing');
    INSERT INTO brake_trip_change VALUES (1, 1);
    INSERT INTO mismatch VALUES (1, 2, 3, 4, NULL, 5);
    INSERT INTO adoption VALUES (1, 4711);
    INSERT INTO units_taken VALUES (1, 2, 3, 4, 5);
    INSERT INTO count_resolution VALUES (1, NULL, NULL, NULL)";

/// Unpacks a database of tests/fixtures and starts a daemon of this version on it once. The restore that this start
/// notices is released. A change in doubt is added to those of the fixture.
async fn fixture(name: &str, dir: &Path) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let path = dir.join(name).with_extension("");
    std::fs::write(&path, zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap()).unwrap();
    fixture::start(&path).await;
    let update = "UPDATE outbox SET revision = revision + 1, state_changed_ms = 1";
    let doubt = format!(
        "UPDATE brake_trip SET released_ms = at_ms;
         INSERT INTO outbox (key, kind, body) VALUES ('doubt', 'quantity.adjust', '{{}}');
         {update}, state = 'sending', exchange_id = 1 WHERE key = 'doubt';
         {update}, state = 'in_doubt', reason = 'lost' WHERE key = 'doubt';
         {MORE_ROWS}"
    );
    Outsider::at(&DatabaseLocation::from(&path)).await.run(&doubt).await.unwrap();
    path
}

/// Returns the schema and the rows of each table of a file, as SQLite prints them.
async fn dump(path: &Path) -> BTreeMap<String, Vec<String>> {
    let mut file = SqliteConnectOptions::new().filename(path).read_only(true).connect().await.unwrap();
    let all = async |file: &mut SqliteConnection, sql: String| -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(file).await.unwrap()
    };
    let schema = "SELECT type || name || coalesce(sql, '') FROM sqlite_schema ORDER BY 1";
    let mut found = BTreeMap::from([("schema".to_owned(), all(&mut file, schema.into()).await)]);
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> '_sqlx_migrations'";
    for table in all(&mut file, tables.into()).await {
        let sql = format!("SELECT 'quote(\"' || name || '\")' FROM pragma_table_info('{table}')");
        let columns = all(&mut file, sql).await.join(" || ',' || ");
        let rows = all(&mut file, format!("SELECT {columns} FROM {table} ORDER BY 1")).await;
        found.insert(table, rows);
    }
    file.close().await.unwrap();
    found
}

#[tokio::test]
async fn every_row_moves_to_a_server_and_back() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (name, schema) in [("0.1.0.db.zst", "north"), ("0.1.0-pruned.db.zst", "south")] {
        let file = fixture(name, dir.path()).await;
        let mut before = dump(&file).await;
        assert!(before["outbox"].len() >= 12 && before["body"].len() > 5, "the fixture is populated");
        let server = cluster.location(schema, &dir.path().join(schema));
        let there = moved(&DatabaseLocation::from(&file), &server).await.unwrap();
        let tables = before.keys().filter(|table| !["schema", "sqlite_sequence"].contains(&table.as_str()));
        assert_eq!(there.tables.len(), tables.count());
        assert!(there.replaced.is_empty(), "{:?}", there.replaced);
        let empty = there.tables.iter().filter(|table| table.rows == 0).map(|table| table.name.as_str());
        // No answer names a kit of the fixture.
        let without_rows =
            ["backup_marker", "kit", "kit_component", "parked", "pause", "snapshot", "snapshot_table"];
        // The fixture is older than notices.
        let may_be_empty = |table: &str| without_rows.contains(&table) || table.starts_with("notice");
        assert!(empty.clone().all(may_be_empty), "{:?}", empty.collect::<Vec<_>>());
        let disabled = "SELECT tgname FROM pg_trigger WHERE tgenabled <> 'O'";
        assert_eq!(cluster.sql(disabled), Vec::<String>::new(), "the guards work again");
        replayed::assert_replayed(&server).await;
        let back = DatabaseLocation::from(dir.path().join(format!("{schema}-back.db")));
        moved(&server, &back).await.unwrap();
        replayed::assert_replayed(&back).await;
        let mut after = dump(back.path()).await;
        // Each move appends its event.
        let events = after.remove("event").unwrap();
        let is_move = |event: &&String| event.contains("'database.moved'") && event.contains("'user:anna'");
        let moves = events.iter().filter(is_move).count();
        assert_eq!((moves, events.len()), (2, before.remove("event").unwrap().len() + 2));
        assert_ne!(before.remove("journal_sequence"), after.remove("journal_sequence"));
        for (table, rows) in &before {
            assert_eq!(&after[table], rows, "{table} of {name}");
        }
        assert_eq!(after.len(), before.len());
    }
}

#[tokio::test]
async fn a_daemon_goes_on_where_the_database_moved_and_never_on_the_side_left_behind() {
    let Some(cluster) = Cluster::start() else { return };
    let mut world = World::new().await;
    if world.is_on_server("the move begins with a file") {
        return;
    }
    world.track_all().await;
    assert!(world.once().await.is_good());
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 >= 20).unwrap();
    let add = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}).to_string();
    let file = world.path.to_str().unwrap().to_owned();
    let url = cluster.url();
    let there = ["move", "--from", &file, "--to", &url, "--json"];
    let working = world.work().await;
    let refused = tallyd(&world, &there).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("a running daemon uses"), "{}", text(&refused.stderr));
    working.stop().await;
    world.change("before", "quantity.adjust", &add).await;

    let done = tallyd(&world, &there).await;
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["was_moved"], false);
    for (arguments, code) in [
        (&["run", "--once"][..], 2),
        (&["sku", "add", "NEW-1"], 2),
        (&["quantity", "adjust", &sku, &warehouse.to_string(), "5"], 2),
        (&["outbox", "cancel", "before"], 1),
        (&["restored"], 2),
        (&["check"], 2),
        (&["outbox", "list"], 0),
        (&["stock"], 0),
    ] {
        let done = tallyd(&world, arguments).await;
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {}", text(&done.stderr));
        let says_where =
            text(&done.stderr).contains("schema tallyd on 20") && text(&done.stderr).contains("set url = ");
        assert_eq!(says_where, code != 0, "{arguments:?}: {}", text(&done.stderr));
    }
    let left = "INSERT INTO outbox (key, kind, body) VALUES ('left', 'quantity.adjust', '{}')";
    let error = world.outsider().await.run(left).await.unwrap_err().to_string();
    assert!(error.contains("moved to postgres:"), "{error}");

    world.location = cluster.location("tallyd", &world.path);
    let working = world.work().await;
    world.change("after", "quantity.adjust", &add).await;
    let applied = "SELECT count(*) FROM outbox WHERE state = 'applied'";
    world.until("both are applied", async |world| world.number(applied).await == 2).await;
    let elsewhere = world.path.with_file_name("back.db");
    let elsewhere = elsewhere.to_str().unwrap();
    let refused = tallyd(&world, &["move", "--from", &url, "--to", elsewhere]).await;
    assert!(text(&refused.stderr).contains("a running daemon uses"), "{}", text(&refused.stderr));
    working.stop().await;
    replayed::assert_replayed(&world.location).await;

    let back = ["move", "--from", &url, "--to", &file];
    let refused = tallyd(&world, &back).await;
    assert!(text(&refused.stderr).contains("a move overwrites none"), "{}", text(&refused.stderr));
    std::fs::rename(&world.path, world.path.with_file_name("old.db")).unwrap();
    let done = tallyd(&world, &back).await;
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains(&format!("path = {file:?}")), "{}", text(&done.stdout));
    let refused = tallyd(&world, &["run", "--once"]).await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let error = world.outsider().await.run(left).await.unwrap_err().to_string();
    assert!(error.contains(&format!("moved to {file}")), "{error}");
    world.location = world.path.clone().into();
    let working = world.work().await;
    world.change("again", "quantity.adjust", &add).await;
    world.until("all are applied", async |world| world.number(applied).await == 3).await;
    working.stop().await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity + 3);
    assert_eq!(world.number("SELECT count(*) FROM outbox").await, 3, "none is held as restored");
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_place_that_is_not_empty_is_refused_and_kept() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let source = DatabaseLocation::from(fixture("0.1.0.db.zst", dir.path()).await);
    let used = cluster.location("used", &dir.path().join("used"));
    let lock = DatabaseLock::acquire(used.path()).unwrap();
    Store::open(&used, &lock).await.unwrap().close().await.unwrap();
    drop(lock);
    Outsider::at(&used).await.track_skus(&["KEPT"]).await;
    let refusal = moved(&source, &used).await.unwrap_err().to_string();
    assert!(refusal.contains("a move overwrites none"), "{refusal}");
    assert_eq!(cluster.sql("SELECT sku FROM used.tracked_sku"), ["KEPT"]);
    let lock = DatabaseLock::acquire(used.path()).unwrap();
    let refusal = moved(&source, &used).await.unwrap_err().to_string();
    assert!(refusal.contains("a running daemon uses postgres:"), "{refusal}");
    drop(lock);
    // A schema that was only migrated is empty.
    cluster.sql("DELETE FROM used.tracked_sku; DELETE FROM used.untracked_sku");
    moved(&source, &used).await.unwrap();
    for name in ["there.db", "there.db-wal"] {
        let there = dir.path().join(name);
        std::fs::write(&there, "kept").unwrap();
        let refusal = moved(&used, &dir.path().join("there.db").into()).await.unwrap_err().to_string();
        assert!(refusal.contains("a move overwrites none"), "{refusal}");
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "kept");
        std::fs::remove_file(there).unwrap();
    }
    let nowhere = DatabaseLocation::from(dir.path().join("nowhere.db"));
    let refusal = moved(&nowhere, &used).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Missing { .. }), "{refusal}");
    let missing = cluster.location("missing", &dir.path().join("missing"));
    let refusal = moved(&missing, &nowhere).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Missing { .. }), "{refusal}");
    assert_eq!(cluster.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'missing'"), ["0"]);
}

/// Returns true if the database leads: a daemon could start on it.
async fn leads(location: &DatabaseLocation) -> bool {
    let lock = DatabaseLock::acquire(location.path()).unwrap();
    match Store::open(location, &lock).await {
        Ok(store) => {
            let is_filled = store.journal_position().await.unwrap().0 > 0;
            store.close().await.unwrap();
            is_filled
        }
        Err(error) => {
            assert!(matches!(error, StoreError::Moved { .. }), "{error}");
            false
        }
    }
}

#[tokio::test]
async fn a_move_that_ends_anywhere_leaves_one_leader_at_most_and_is_repeated() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut from = DatabaseLocation::from(fixture("0.1.0.db.zst", dir.path()).await);
    let mut interrupted_after_mark = 0;
    for (round, stop_at) in [0, 1, 25, 60, 90, usize::MAX, 3, 51, 75, usize::MAX].into_iter().enumerate() {
        let to = match from.server() {
            None => cluster.location(&format!("s{round}"), &dir.path().join(format!("s{round}"))),
            Some(_) => dir.path().join(format!("f{round}.db")).into(),
        };
        let stop = Notify::new();
        let progress = |done: usize, of: usize| {
            if done == stop_at.min(of) {
                stop.notify_one();
            }
        };
        tokio::select! {
            biased;
            () = stop.notified() => {}
            done = move_database(&from, &to, (AT, &MOVER), progress) => {
                panic!("it ended before its interruption: {done:?}")
            }
        }
        if stop_at == usize::MAX {
            // The commit of the mark was under way.
            interrupted_after_mark += usize::from(!leads(&from).await);
        } else {
            assert!(leads(&from).await, "interrupted at {stop_at}");
        }
        let done = moved(&from, &to).await.unwrap();
        assert!(!done.tables.is_empty());
        assert!(!leads(&from).await);
        assert!(leads(&to).await);
        replayed::assert_replayed(&to).await;
        let again = moved(&from, &to).await.unwrap();
        assert!(again.tables.is_empty() && again.sentence == done.sentence, "it is there already");
        from = to;
    }
    assert!(interrupted_after_mark <= 2);
}

#[tokio::test]
async fn a_target_that_fails_after_the_mark_is_filled_by_a_repetition() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = DatabaseLocation::from(fixture("0.1.0.db.zst", dir.path()).await);
    let server = cluster.location("north", &dir.path().join("north"));
    let lost = |done: usize, of: usize| {
        if done == of {
            cluster.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tallyd'",
            );
        }
    };
    let error = move_database(&file, &server, (AT, &MOVER), lost).await.unwrap_err().to_string();
    assert!(error.contains("is marked as moved already"), "{error}");
    assert!(!leads(&file).await && !leads(&server).await);
    assert!(!moved(&file, &server).await.unwrap().tables.is_empty());
    replayed::assert_replayed(&server).await;

    let back = DatabaseLocation::from(dir.path().join("back.db"));
    let taken = |done: usize, of: usize| {
        if done == of {
            std::fs::write(back.path(), "another program's").unwrap();
        }
    };
    let error = move_database(&server, &back, (AT, &MOVER), taken).await.unwrap_err().to_string();
    assert!(error.contains("is marked as moved already"), "{error}");
    assert_eq!(std::fs::read_to_string(back.path()).unwrap(), "another program's");
    std::fs::remove_file(back.path()).unwrap();
    assert!(!leads(&server).await);
    assert!(!moved(&server, &back).await.unwrap().tables.is_empty());
    assert!(leads(&back).await);
}

#[tokio::test]
async fn text_that_a_server_refuses_is_replaced_and_named() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = DatabaseLocation::from(fixture("0.1.0.db.zst", dir.path()).await);
    let mut program = Outsider::at(&file).await;
    // As a file of an earlier version may hold it.
    let write = "DROP TRIGGER outbox_text_guard;
                 INSERT INTO tracked_sku (sku) VALUES (CAST(x'436166e9' AS TEXT)), ('Café');
                 INSERT INTO outbox (key, kind, body) VALUES ('nul', 'quantity.adjust', '{\"sku\":\"a\\u0000b\"}');
                 UPDATE run SET summary = 'a' || char(0) || 'b' WHERE id = 1";
    program.run(write).await.unwrap();
    let change: i64 = program.value("SELECT id FROM outbox WHERE key = 'nul'").await;
    drop(program);
    let server = cluster.location("north", &dir.path().join("north"));
    let done = moved(&file, &server).await.unwrap();
    let named: Vec<String> =
        done.replaced.iter().map(|text| format!("{}.{} {}", text.table, text.column, text.row)).collect();
    let expected = [
        format!("outbox.body id {change}"),
        "outbox.sku id".into(),
        "run.summary id 1".into(),
        "tracked_sku.sku sku Caf\u{FFFD}".into(),
    ];
    for line in &named {
        assert!(expected.iter().any(|start| line.starts_with(start)), "{named:?}");
    }
    assert!(named.len() >= 3, "{named:?}");
    let sql = "SELECT body FROM north.outbox WHERE key = 'nul'; SELECT summary FROM north.run WHERE id = 1; \
               SELECT sku FROM north.tracked_sku WHERE sku LIKE 'Caf%' ORDER BY sku";
    assert_eq!(cluster.sql(sql), [r#"{"sku":"a\ufffdb"}"#, "a\u{FFFD}b", "Café", "Caf\u{FFFD}"]);
}

#[tokio::test]
async fn a_database_that_went_back_in_time_starts_once_before_it_moves() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = fixture("0.1.0.db.zst", dir.path()).await;
    std::fs::write(dir.path().join("0.1.0.db.position"), format!("{0:020} {0:020}\n", 99_999)).unwrap();
    let server = cluster.location("north", &dir.path().join("north"));
    let refusal = moved(&DatabaseLocation::from(&file), &server).await.unwrap_err().to_string();
    assert!(
        refusal.contains("older than it was") && refusal.contains("Start tallyd on it once"),
        "{refusal}"
    );
}

/// `cargo test --release --test program -- --ignored a_hundred_thousand --nocapture` prints the seconds.
#[tokio::test]
#[ignore = "takes minutes: it loads 100,000 SKUs first"]
#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement prints its figures")]
async fn a_hundred_thousand_skus_move_there_and_back() {
    let Some(cluster) = Cluster::start() else { return };
    let options =
        SandboxOptions { skus: 100_000, orders: 1_000, calls_per_minute: 0, ..SandboxOptions::default() };
    let world = World::with(options, "").await;
    world.track_all().await;
    assert!(world.once().await.is_good());
    let before = dump(&world.path).await;
    let server = cluster.location("north", &world.path);
    let back = DatabaseLocation::from(world.path.with_file_name("back.db"));
    let begun = Instant::now();
    let there = moved(&world.location, &server).await.unwrap();
    let there_took = begun.elapsed();
    moved(&server, &back).await.unwrap();
    let both_took = begun.elapsed();
    let rows: u64 = there.tables.iter().map(|table| table.rows).sum();
    let size = std::fs::metadata(back.path()).unwrap().len() / 1_000_000;
    println!("{rows} rows, {size} MB: there {there_took:.1?}, there and back {both_took:.1?}");
    let after = dump(back.path()).await;
    for (table, rows) in before {
        let is_equal = ["event", "journal_sequence"].contains(&table.as_str()) || after[&table] == rows;
        assert!(is_equal, "{table}");
    }
    replayed::assert_replayed(&back).await;
    assert!(both_took <= Duration::from_secs(60), "{both_took:?}");
}
