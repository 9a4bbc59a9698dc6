//! The examples of `docs/database.md`, run as they stand against a database of each engine with a running daemon.
//!
//! SQLite: the host's `sqlite3` runs SQL and shell, its `python3` runs Python. PostgreSQL: the server's `psql`
//! runs SQL and shell, as a login with the rights of `tallyd schema`. Only path, address, SKU and warehouse are
//! replaced.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use crate::postgres::rights::granted_world;
use crate::support::cluster::Cluster;
use crate::support::outsider::Outsider;
use crate::support::{World, tool};
use std::process::Command;
use tallyd::outbox::ChangeKind;

const PAGE: &str = include_str!("../../docs/database.md");

/// Path, address, SKU and warehouses of the page.
const PATH: &str = "/var/lib/tallyd/tallyd.db";
const ADDRESS: &str = "postgres://picker@db.example/stock";
const SKU: &str = "SKU-1";
const WAREHOUSES: [&str; 3] = ["\"warehouse_id\":3,", "\"warehouse_id\": 3,", "'warehouse_id', 3,"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Sqlite,
    Postgres,
}

/// Returns the fenced examples of an engine, in order: language and text. The line above a block names the engine
/// unless the block is for both.
fn examples(engine: Engine) -> Vec<(&'static str, &'static str)> {
    let parts: Vec<&str> = PAGE.split("```").collect();
    let blocks = parts.chunks_exact(2).filter(|part| {
        let above = part[0].trim_end().lines().last().unwrap();
        let names = |name: &str| above.contains(name) && above.ends_with(':');
        let (is_sqlite, is_postgres) = (names("SQLite"), names("PostgreSQL"));
        is_sqlite == is_postgres || is_sqlite == (engine == Engine::Sqlite)
    });
    blocks.map(|part| part[1].split_once('\n').unwrap()).collect()
}

/// Runs the examples of an engine and returns what they print.
fn run_examples(
    engine: Engine,
    level: (&str, i64),
    database: &str,
    command: impl Fn(&str) -> Command,
) -> Vec<String> {
    let (sku, warehouse) = level;
    assert!(!sku.contains(['\'', '"']), "{sku} would need quoting");
    let run = |(language, text): (&str, &str)| {
        let mut text = text.replace(PATH, database).replace(ADDRESS, database).replace(SKU, sku);
        for named in WAREHOUSES {
            text = text.replace(named, &named.replace('3', &warehouse.to_string()));
        }
        let output = command(language).arg(&text).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaint.is_empty(), "{text}\n{complaint}");
        String::from_utf8(output.stdout).unwrap()
    };
    examples(engine).into_iter().map(run).collect()
}

/// Runs the examples beside a daemon and checks the rows that they read and the changes that they insert.
async fn run_page(engine: Engine, world: &World, database: &str, command: impl Fn(&str) -> Command) {
    let (sku, warehouse, _) = world.shop().await.into_iter().find(|(_, _, quantity)| *quantity > 5).unwrap();
    let working = world.work().await;
    let heard = run_examples(engine, (&sku, warehouse), database, command);
    assert!(heard.len() >= 9, "the examples were not found");
    assert!(heard.iter().any(|said| said.contains(&format!("{sku}|{warehouse}|"))), "{heard:?}");
    assert!(heard.iter().any(|said| said.starts_with("sku,on_hand")), "{heard:?}");
    assert!(heard.last().unwrap().starts_with("applied "), "the program saw its change done: {heard:?}");
    for key in ["pick-4711", "desk-7-0815", "count-2031-05-04-17"] {
        world
            .until("the change is settled", async |world| {
                !["pending", "sending"].contains(&world.fate(key).await.0.as_str())
            })
            .await;
        let fate = world.fate(key).await;
        assert!(["applied", "cancelled"].contains(&fate.0.as_str()), "{key}: {fate:?}");
    }
    working.stop().await;
}

#[test]
fn the_page_has_every_kind_of_change() {
    let rows: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    for kind in ChangeKind::ALL {
        let name = format!("`{kind}`");
        assert!(rows.iter().any(|row| row.contains(&name)), "no row of docs/database.md has {name}");
    }
}

#[test]
fn a_block_for_one_engine_has_its_counterpart() {
    let [sqlite, postgres] = [Engine::Sqlite, Engine::Postgres].map(examples);
    assert_eq!(sqlite.len(), postgres.len());
    let of_one = |own: &[(&str, &str)], other: &[(&str, &str)]| {
        own.iter().filter(|block| !other.contains(block)).map(|block| block.1.to_owned()).collect::<Vec<_>>()
    };
    assert!(of_one(&sqlite, &postgres).len() >= 4);
    assert!(of_one(&sqlite, &postgres).iter().all(|text| text.contains("sqlite3")));
    assert!(of_one(&postgres, &sqlite).iter().all(|text| text.contains(ADDRESS)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_page_works_beside_a_running_daemon() {
    if !tool("sqlite3") || !tool("python3") {
        return;
    }
    let mut world = World::new().await;
    world.location = world.path.clone().into();
    world.track_all().await;
    world.once().await;
    let path = world.path.to_str().unwrap();
    let command = |language: &str| {
        let (program, arguments) = match language {
            "python" => ("python3", vec!["-c"]),
            "sh" => ("sh", vec!["-c"]),
            "sql" => {
                ("sqlite3", vec!["-cmd", ".timeout 10000", "-cmd", "PRAGMA wal_autocheckpoint = 0", path])
            }
            other => panic!("an example in {other}: say how it is run"),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    run_page(Engine::Sqlite, &world, path, command).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_page_works_on_a_server_with_the_rights_of_a_program() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, program) = granted_world(&cluster).await;
    let address = program.server().unwrap().url();
    let mut folders = vec![cluster.programs().to_owned()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let path = std::env::join_paths(folders).unwrap();
    let command = |language: &str| {
        let mut command = Command::new(if language == "sql" { "psql" } else { "sh" });
        command.env("PATH", &path).env("PSQLRC", "/dev/null");
        match language {
            "sql" => command.args(["-At", "-v", "ON_ERROR_STOP=1", address, "-c"]),
            "sh" => command.arg("-c"),
            other => panic!("an example in {other}: say how it is run"),
        };
        command
    };
    run_page(Engine::Postgres, &world, address, command).await;
}

/// Returns the columns of the page's table of views: view, column and type on a server.
fn promised() -> Vec<(String, String, String)> {
    let table = PAGE.split("| view or table | columns |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix("` |"));
    let named = rows.map(|row| row.split_once("` | `").unwrap());
    let mut columns: Vec<_> = named
        .flat_map(|(view, columns)| columns.split(", ").map(move |column| (view, column)))
        .map(|(view, column)| (view.to_owned(), column.to_owned(), type_of(column).to_owned()))
        .collect();
    columns.sort();
    columns
}

/// Returns the type of a column by the sentences under the table.
fn type_of(column: &str) -> &'static str {
    let integers =
        ["quantity", "pending_quantity", "quantity_sold", "quantity_left", "priority", "age_seconds"];
    match column {
        "is_active" | "include_in_sync" | "is_shipped" | "is_confirmed" | "stale" => "boolean",
        "unit_price" => "double precision",
        _ if column.ends_with("_id") || integers.contains(&column) => "bigint",
        _ => "text",
    }
}

#[tokio::test]
async fn a_server_has_the_columns_of_the_page_with_their_types() {
    let Some(cluster) = Cluster::start() else { return };
    let (_world, program) = granted_world(&cluster).await;
    let sql = "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT) \
               FROM information_schema.columns WHERE table_schema = 'north'";
    let found: Vec<(String, String, String)> = Outsider::at(&program).await.rows(sql).await;
    let internal = ["outbox", "tracked_sku"];
    let promised = promised();
    assert!(promised.len() > 50, "{promised:?}");
    for column in &promised {
        assert!(found.contains(column), "a program does not see {column:?}");
    }
    for column in found.iter().filter(|column| !internal.contains(&column.0.as_str())) {
        assert!(promised.contains(column), "the page lacks {column:?}");
    }
}

#[tokio::test]
async fn a_file_has_the_columns_of_the_page_with_their_types() {
    let mut world = World::new().await;
    world.location = world.path.clone().into();
    world.track_all().await;
    world.once().await;
    let mut program = world.outsider().await;
    let mut seen = 0;
    for (view, column, of_server) in promised() {
        let sql = format!("SELECT DISTINCT typeof({column}) FROM {view} WHERE {column} IS NOT NULL");
        let expected = match of_server.as_str() {
            "bigint" | "boolean" => "integer",
            "double precision" => "real",
            _ => "text",
        };
        let found: Vec<(String,)> = program.rows(&sql).await;
        assert!(found.iter().all(|(kind,)| kind == expected), "{view}.{column}: {found:?}");
        seen += found.len();
    }
    assert!(seen > 20, "{seen} columns have values");
}
