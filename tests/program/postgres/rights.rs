//! Rights of programs on a server: the SQL of `tallyd schema`, what it allows, and what the server refuses.

use super::server::{tallyd, text};
use crate::support::World;
use crate::support::cluster::Cluster;
use crate::support::outsider::Outsider;
use serde_json::json;
use tallyd::store::DatabaseLocation;
use tokio::time::{Duration, timeout};

/// The daemon's role and a program's login. The owner of the cluster has another name, so nothing here rests on
/// the rights of a superuser.
const OWNER: &str = "keeper";
const PROGRAM: &str = "picker";

/// Relations of which a program has a right: five views and three tables.
const READABLE: [&str; 8] = [
    "stock",
    "order_line",
    "shipment_item",
    "open_conflict",
    "job_health",
    "outbox",
    "tracked_sku",
    "tracked_order",
];

/// Returns an account without a database, whose daemon uses a role that does not exist yet.
async fn new_world(cluster: &Cluster, schema: &str) -> World {
    let mut world = World::new().await;
    world.location = cluster.location_of(OWNER, schema, &world.path);
    world
}

/// Returns the SQL of `tallyd schema`.
async fn printed(world: &World) -> String {
    let done = tallyd(world, &["schema"]).await;
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout)
}

/// Runs SQL as the owner of the cluster and returns the messages.
fn run_printed(cluster: &Cluster, sql: &str) -> String {
    let done = cluster.psql("tallyd", sql, &[]);
    assert!(done.status.success());
    text(&done.stderr)
}

/// Returns an account in the schema `north` with its facts read, and the location of the login of a program.
pub(in super::super) async fn granted_world(cluster: &Cluster) -> (World, DatabaseLocation) {
    let world = new_world(cluster, "north").await;
    let sql = printed(&world).await;
    assert_eq!(run_printed(cluster, &sql), "");
    // The comment has the lines for a login.
    let login: Vec<&str> = sql.lines().filter_map(|line| line.strip_prefix("--   ")).collect();
    let page = include_str!("../../../docs/postgresql.md");
    assert!(page.contains(&format!("```sql\n{}\n```", login.join("\n").replace('"', ""))), "{login:?}");
    cluster.sql(&login.join("\n"));
    world.track_all().await;
    assert!(world.once().await.is_good());
    let program = cluster.location_of(PROGRAM, "north", &world.path);
    (world, program)
}

/// Returns the SQLSTATE and the message with which a statement fails.
async fn refusal(program: &mut Outsider, sql: &str) -> (String, String) {
    let error = program.run(sql).await.expect_err(sql);
    let error = error.into_database_error().unwrap();
    (error.code().unwrap().into_owned(), error.message().to_owned())
}

#[tokio::test]
async fn a_program_reads_inserts_and_tracks_with_the_printed_grants() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, location) = granted_world(&cluster).await;
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 >= 20).unwrap();
    let mut program = Outsider::at(&location).await;
    for name in READABLE {
        program.run(&format!("SELECT * FROM {name}")).await.unwrap();
    }
    assert!(program.value::<i64>("SELECT count(*) FROM stock").await > 0);

    let mut heard = sqlx::postgres::PgListener::connect(&cluster.url()).await.unwrap();
    heard.listen("tallyd").await.unwrap();
    let change = |key: &str, kind: &str, body: serde_json::Value| {
        format!("INSERT INTO outbox (key, kind, body, priority) VALUES ('{key}', '{kind}', '{body}', 1)")
    };
    let level = json!({"sku": sku, "warehouse_id": warehouse});
    let mut count = level.clone();
    count["quantity"] = json!(quantity - 2);
    let counted = change("count", "quantity.set", count);
    program.run(&counted).await.unwrap();
    let notification = timeout(Duration::from_secs(30), heard.recv()).await.expect("a notification").unwrap();
    assert_eq!(notification.payload(), "north");
    program.run(&counted).await.unwrap();
    let mut adjust = level;
    adjust["delta"] = json!(-3);
    program.run(&change("adjust", "quantity.adjust", adjust.clone())).await.unwrap();
    let (code, why) = refusal(&mut program, &change("adjust", "quantity.set", adjust)).await;
    assert_eq!((code.as_str(), why.contains("already names another change")), ("23505", true), "{why}");
    let long = json!({"sku": "x".repeat(300_000)});
    program.run(&change("long", "quantity.adjust", long)).await.unwrap();
    let fates: Vec<(String, i64)> =
        program.rows("SELECT state, count(*) FROM outbox GROUP BY state ORDER BY state").await;
    assert_eq!(fates, [("pending".into(), 2), ("rejected".into(), 1)]);
    let deciders: Vec<(String,)> = program.rows("SELECT DISTINCT inserted_by FROM outbox").await;
    assert_eq!(deciders, [(format!("role:{PROGRAM}"),)]);
    world.once().await;
    for key in ["count", "adjust"] {
        assert_eq!(world.fate(key).await.0, "applied", "{key}");
    }
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity - 5);

    for (table, column, value) in [("tracked_sku", "sku", "'NEW-1'"), ("tracked_order", "order_id", "77")] {
        let insert = format!("INSERT INTO {table} ({column}) VALUES ({value})");
        let there = format!("SELECT count(*) FROM {table} WHERE {column} = {value}");
        program.run(&format!("{insert}; {insert}")).await.unwrap();
        assert_eq!(program.value::<i64>(&there).await, 1, "{table}");
        program.run(&format!("DELETE FROM {table} WHERE {column} = {value}")).await.unwrap();
        assert_eq!(program.value::<i64>(&there).await, 0, "{table}");
    }
    assert_eq!(world.number("SELECT count(*) FROM untracked_sku WHERE sku = 'NEW-1'").await, 1);
}

/// Acts that only the owner may do, with the part of the schema that each would break.
const FORBIDDEN: &[(&str, &str)] = &[
    ("a change", "UPDATE outbox SET state = 'cancelled', settled_at = created_at"),
    ("a change", "DELETE FROM outbox"),
    ("a change", "TRUNCATE outbox"),
    ("an id", "INSERT INTO outbox (id, key, kind, body) VALUES (7, 'n', 'zzz', '{}')"),
    ("a state", "INSERT INTO outbox (key, kind, body, state) VALUES ('n', 'zzz', '{}', 'held')"),
    ("a name", "INSERT INTO outbox (key, kind, body, inserted_by) VALUES ('n', 'zzz', '{}', 'role:keeper')"),
    ("a base", "INSERT INTO outbox (key, kind, body, base_quantity) VALUES ('n', 'zzz', '{}', 1)"),
    (
        "a body",
        "INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '[]') ON CONFLICT (key) DO UPDATE SET body = '[]'",
    ),
    ("an id", "SELECT nextval('outbox_id_seq')"),
    ("the journal", "SELECT packed FROM body"),
    ("the journal", "SELECT id FROM exchange"),
    ("the journal", "SELECT id FROM session"),
    ("the journal", "COPY event TO STDOUT"),
    (
        "a decision",
        "INSERT INTO event (position, at_ms, kind, subject) VALUES (0, 0, 'outbox.resolved', 'k')",
    ),
    ("a command", "INSERT INTO request (kind, input, asked_at) VALUES ('job.run', '{}', '')"),
    ("the account", "SELECT salt FROM account_binding"),
    ("the quota", "UPDATE limiter_state SET state = '{}'"),
    ("a fact", "UPDATE balance SET quantity = 0"),
    ("a fact", "INSERT INTO product (sku, case_key) VALUES ('N', 'n')"),
    ("a fact", "UPDATE job_health SET last_outcome = 'ok'"),
    ("an origin", "INSERT INTO tracked_sku (sku, origin) VALUES ('N', 'learnt')"),
    ("an origin", "UPDATE tracked_sku SET origin = 'learnt'"),
    ("the write lock", "SELECT position FROM journal_sequence FOR UPDATE"),
    ("the lock of ids", "SELECT id FROM change_sequence FOR UPDATE"),
    ("a lock", "SELECT key FROM outbox FOR UPDATE"),
    ("a lock", "BEGIN; LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE"),
    ("a guard", "DROP TRIGGER outbox_update_guard ON outbox"),
    ("a guard", "ALTER TABLE outbox DISABLE TRIGGER ALL"),
    ("a guard", "SET session_replication_role = replica"),
    (
        "a guard",
        "CREATE OR REPLACE FUNCTION north.refuse() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    ),
    ("the schema", "CREATE TABLE north.mine (id BIGINT)"),
    ("the schema", "DROP SCHEMA north CASCADE"),
    ("a migration", "SELECT version FROM _sqlx_migrations"),
    ("the owner", "SET ROLE keeper"),
    ("the owner's rights", "SELECT outbox_after_insert()"),
];

#[tokio::test]
async fn the_server_refuses_a_program_every_other_act() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, location) = granted_world(&cluster).await;
    let mut program = Outsider::at(&location).await;
    program.run("INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{}')").await.unwrap();
    for (part, sql) in FORBIDDEN {
        let (code, why) = refusal(&mut program, sql).await;
        assert_eq!(code, "42501", "{part}: {sql}: {why}");
        program.run("ROLLBACK").await.unwrap();
    }
    // A trigger on a table of one's own would run with the owner's rights and with rows of one's own.
    program.run("CREATE TEMP TABLE bait (sku TEXT, key TEXT, state TEXT, order_id BIGINT)").await.unwrap();
    let sql = "SELECT CAST(p.oid::REGPROC AS TEXT) FROM pg_proc p \
               WHERE p.pronamespace = 'north'::REGNAMESPACE AND p.prosecdef";
    let definers: Vec<(String,)> = world.outsider().await.rows(sql).await;
    assert!(definers.len() >= 6, "{definers:?}");
    for (function,) in definers {
        let sql =
            format!("CREATE TRIGGER hook AFTER INSERT ON bait FOR EACH ROW EXECUTE FUNCTION {function}()");
        assert_eq!(refusal(&mut program, &sql).await.0, "42501", "{function}");
    }
    let sql = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'north'::REGNAMESPACE AND prosecdef \
               AND NOT coalesce(proconfig @> ARRAY['search_path=north, pg_temp'], FALSE)";
    assert_eq!(world.number(sql).await, 0, "each function with the owner's rights has a fixed search_path");
    assert_eq!(world.fate("k").await.0, "pending");
}

#[tokio::test]
async fn a_guard_uses_no_object_of_the_program() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, location) = granted_world(&cluster).await;
    let mut program = Outsider::at(&location).await;
    let hiding = "CREATE TEMP TABLE change_transition (key TEXT); CREATE TEMP TABLE change_sequence (id BIGINT); \
                  CREATE TEMP TABLE untracked_sku (sku TEXT); CREATE DOMAIN pg_temp.jsonb AS TEXT";
    program.run(hiding).await.unwrap();
    program.run("INSERT INTO outbox (key, kind, body) VALUES ('k', 'zzz', '{}')").await.unwrap();
    program.run("DELETE FROM tracked_sku").await.unwrap();
    let (code, why) =
        refusal(&mut program, "INSERT INTO outbox (key, kind, body) VALUES ('n', 'zzz', 'no JSON')").await;
    assert_eq!((code.as_str(), why.contains("the body is no JSON text")), ("22P02", true), "{why}");
    assert_eq!(world.number("SELECT count(*) FROM outbox WHERE key = 'k'").await, 1);
    assert!(world.number("SELECT count(*) FROM untracked_sku").await > 0);
}

/// Returns each relation of a schema on which anybody but its owner has a right.
fn rights(cluster: &Cluster, schema: &str) -> Vec<String> {
    let group = format!("{schema}_programs");
    let sql = format!(
        "SELECT c.relname, replace(CAST(c.relacl AS TEXT), '{group}', 'programs'), \
                (SELECT string_agg(a.attname || replace(CAST(a.attacl AS TEXT), '{group}', 'programs'), ' ' \
                                   ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid) \
         FROM pg_class c WHERE c.relnamespace = '{schema}'::REGNAMESPACE AND c.relkind IN ('r', 'v', 'S') \
         ORDER BY c.relname"
    );
    cluster.sql(&sql).into_iter().filter(|row| !row.ends_with("||")).collect()
}

#[tokio::test]
async fn programs_have_the_same_rights_whichever_comes_first() {
    let Some(cluster) = Cluster::start() else { return };
    let world = new_world(&cluster, "north").await;
    let sql = printed(&world).await;
    assert_eq!(run_printed(&cluster, &sql), "");
    world.make().await;
    let by_first_start = rights(&cluster, "north");
    assert_eq!(by_first_start.len(), READABLE.len(), "{by_first_start:?}");
    for said in run_printed(&cluster, &sql).lines() {
        assert!(said.contains("already exists"), "{said}");
    }
    assert_eq!(rights(&cluster, "north"), by_first_start, "the printed text run again");

    let late = new_world(&cluster, "south").await;
    cluster.sql(&format!("CREATE SCHEMA south AUTHORIZATION {OWNER}"));
    late.make().await;
    run_printed(&cluster, &printed(&late).await);
    assert_eq!(rights(&cluster, "south"), by_first_start, "the printed text run after the first start");
}

#[tokio::test]
async fn a_file_has_no_roles() {
    let mut world = World::new().await;
    world.location = world.path.clone().into();
    let done = tallyd(&world, &["schema"]).await;
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(1), String::new()));
    let why = text(&done.stderr);
    assert!(why.contains("a file has no roles") && why.contains("sudo adduser USER tallyd"), "{why}");
}
