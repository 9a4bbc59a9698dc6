//! The schema of PostgreSQL beside that of SQLite, created by a server; the statements of the store on a server.
//!
//! Each difference is listed with its reason; a difference that is not listed fails, and so does a listed one
//! that no longer exists.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod guard_states;
mod plans;
mod programs;
mod statements;

use crate::it::support::cluster::Cluster;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use std::collections::BTreeSet;
use tallyd::store::migrations_of;

/// Differences: the engine that has the part, the part, and the reason.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("sqlite", "view change_body_leaf (key, path, type, atom)", "jsonb compares the bodies of a key"),
    ("sqlite", "trigger outbox_body_limit on outbox", "part of outbox_insert_guard"),
    ("sqlite", "trigger outbox_text_guard on outbox", "part of outbox_insert_guard"),
    ("postgres", "trigger tracked_order_lock on tracked_order", "the order of locks of programs"),
    ("sqlite", "primary key parked (exchange_id, record, why)", "an index entry has at most 2,704 bytes"),
    ("postgres", "index parked_key on parked", "a digest in place of the long key"),
    ("postgres", "table change_sequence column id bigint not null", "locked for ids in the order of commits"),
    ("postgres", "primary key change_sequence (id)", "locked for ids in the order of commits"),
    (
        "postgres",
        "constraint change_sequence_single on change_sequence",
        "locked for ids in the order of commits",
    ),
    ("postgres", "trigger outbox_truncate_guard on outbox", "SQLite has no TRUNCATE"),
    ("postgres", "trigger outbox_notify on outbox", "SQLite's file is watched"),
    ("postgres", "trigger event_notify on event", "SQLite's file is watched"),
    ("postgres", "trigger order_read_request_notify on order_read_request", "SQLite's file is watched"),
    ("postgres", "trigger request_notify on request", "SQLite's file is watched"),
    (
        "postgres",
        "trigger order_read_request_before_insert on order_read_request",
        "ids in the order of commits",
    ),
    ("postgres", "trigger discovered_sku_before_insert on discovered_sku", "ON CONFLICT in the table"),
    ("postgres", "trigger tracked_order_before_insert on tracked_order", "ON CONFLICT in the table"),
    ("postgres", "trigger tracked_sku_before_insert on tracked_sku", "ON CONFLICT in the table"),
    ("postgres", "table journal_sequence column session_id bigint", "a file has one host"),
    ("postgres", "table journal_sequence column heartbeat bigint not null", "a file has one host"),
    ("postgres", "table journal_sequence column heartbeat_ms bigint not null", "a file has one host"),
    ("postgres", "table leadership column session_id bigint not null", "a file has one host"),
    ("postgres", "table leadership column instance_id text not null", "a file has one host"),
    ("postgres", "table leadership column host_name text not null", "a file has one host"),
    ("postgres", "table leadership column began_ms bigint not null", "a file has one host"),
    ("postgres", "table leadership column takeover_ms bigint", "a file has one host"),
    ("postgres", "primary key leadership (session_id)", "a file has one host"),
    ("postgres", "table host_seen column host_name text not null", "a file has one host"),
    ("postgres", "table host_seen column seen_ms bigint not null", "a file has one host"),
    ("postgres", "primary key host_seen (host_name)", "a file has one host"),
];

const OF_SQLITE: &str = r#"
SELECT 'table ' || t.name || ' column ' || c.name || ' ' ||
       CASE c.type WHEN 'INTEGER' THEN 'bigint' WHEN 'REAL' THEN 'double precision' WHEN 'BLOB' THEN 'bytea'
                   ELSE lower(c.type) END || CASE WHEN c."notnull" OR c.pk > 0 THEN ' not null' ELSE '' END
FROM sqlite_master t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'
UNION ALL SELECT 'primary key ' || t.name || ' (' || (
       SELECT group_concat(name, ', ') FROM (SELECT c.name FROM pragma_table_info(t.name) c
                                             WHERE c.pk > 0 ORDER BY c.pk)) || ')'
FROM sqlite_master t
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'
  AND EXISTS (SELECT 1 FROM pragma_table_info(t.name) c WHERE c.pk > 0)
UNION ALL SELECT 'foreign key ' || t.name || ' (' || f."from" || ') to ' || f."table" || ' (' || f."to" ||
       ') on delete ' || lower(f.on_delete)
FROM sqlite_master t JOIN pragma_foreign_key_list(t.name) f WHERE t.type = 'table'
UNION ALL SELECT 'index ' || name || ' on ' || tbl_name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL
UNION ALL SELECT 'view ' || v.name || ' (' || (SELECT group_concat(c.name, ', ') FROM pragma_table_info(v.name) c) || ')'
FROM sqlite_master v WHERE v.type = 'view'
UNION ALL SELECT 'trigger ' || name || ' on ' || tbl_name FROM sqlite_master WHERE type = 'trigger'"#;

const OF_POSTGRES: &str = r#"
SELECT 'table ' || table_name || ' column ' || column_name || ' ' ||
       CASE data_type WHEN 'boolean' THEN 'bigint' ELSE data_type END ||
       CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'stock' AND table_type = 'BASE TABLE'
UNION ALL SELECT 'primary key ' || conrelid::REGCLASS || ' (' || (
       SELECT string_agg(a.attname, ', ' ORDER BY k.n) FROM unnest(conkey) WITH ORDINALITY k(col, n)
       JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.col) || ')'
FROM pg_constraint WHERE connamespace = 'stock'::REGNAMESPACE AND contype = 'p'
UNION ALL SELECT 'constraint ' || conname || ' on ' || conrelid::REGCLASS
FROM pg_constraint WHERE connamespace = 'stock'::REGNAMESPACE AND contype IN ('c', 'u')
UNION ALL SELECT 'foreign key ' || conrelid::REGCLASS || ' (' || a.attname || ') to ' || confrelid::REGCLASS || ' (' ||
       b.attname || ') on delete ' || CASE confdeltype WHEN 'c' THEN 'cascade' ELSE 'no action' END
FROM pg_constraint JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1]
JOIN pg_attribute b ON b.attrelid = confrelid AND b.attnum = confkey[1]
WHERE connamespace = 'stock'::REGNAMESPACE AND contype = 'f'
UNION ALL SELECT 'index ' || i.relname || ' on ' || x.indrelid::REGCLASS
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid WHERE i.relnamespace = 'stock'::REGNAMESPACE
  AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = i.oid AND contype IN ('p', 'u'))
UNION ALL SELECT 'view ' || table_name || ' (' || string_agg(column_name, ', ' ORDER BY ordinal_position) || ')'
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'stock' AND table_type = 'VIEW' GROUP BY table_name
UNION ALL SELECT 'trigger ' || tgname || ' on ' || tgrelid::REGCLASS FROM pg_trigger
JOIN pg_class c ON c.oid = tgrelid WHERE NOT tgisinternal AND c.relnamespace = 'stock'::REGNAMESPACE"#;

/// Creates the schema `stock` on a server.
fn create_stock(cluster: &Cluster) {
    let files: Vec<String> = migrations_of(true).into_iter().map(|(_, text)| text).collect();
    cluster.sql(&format!("CREATE SCHEMA stock; SET search_path = stock;\n{}", files.join("\n")));
}

/// Creates the schema in the memory of SQLite.
async fn create_file() -> SqliteConnection {
    let mut memory = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    for (_, file) in migrations_of(false) {
        sqlx::raw_sql(AssertSqlSafe(file)).execute(&mut memory).await.unwrap();
    }
    memory
}

/// Returns the parts of SQLite's schema.
async fn sqlite_parts() -> BTreeSet<String> {
    let mut memory = create_file().await;
    let found: Vec<String> = sqlx::query_scalar(OF_SQLITE).fetch_all(&mut memory).await.unwrap();
    let mut parts: BTreeSet<String> = found.into_iter().collect();
    let sql = "SELECT name, sql FROM sqlite_master WHERE type = 'table'";
    let tables: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&mut memory).await.unwrap();
    for (table, text) in tables {
        let named = text.split("CONSTRAINT ").skip(1).filter_map(|named| named.split_whitespace().next());
        parts.extend(named.map(|name| format!("constraint {name} on {table}")));
    }
    parts
}

/// A snapshot holds rows as lists of values. The server may store it, and the file of a replay restores it.
#[tokio::test]
async fn the_columns_of_each_table_of_a_snapshot_are_in_the_same_order() {
    let Some(cluster) = Cluster::start() else { return };
    create_stock(&cluster);
    let mut memory = create_file().await;
    for table in tallyd::store::FACT_TABLES.iter().map(|table| table.name).chain(["read_batch"]) {
        let sql = format!("SELECT name FROM pragma_table_info('{table}') ORDER BY cid");
        let sqlite: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut memory).await.unwrap();
        let postgres = cluster.sql(&format!(
            "SELECT column_name FROM information_schema.columns \
             WHERE table_schema = 'stock' AND table_name = '{table}' ORDER BY ordinal_position"
        ));
        assert!(!sqlite.is_empty(), "{table}");
        assert_eq!(postgres, sqlite, "{table}");
    }
}

#[tokio::test]
async fn both_schemas_have_the_same_parts() {
    let Some(cluster) = Cluster::start() else { return };
    create_stock(&cluster);
    let postgres: BTreeSet<String> =
        cluster.sql(&format!("SET search_path = stock; {OF_POSTGRES}")).into_iter().collect();
    let sqlite = sqlite_parts().await;
    assert!(postgres.len() > 500, "the query finds the parts: {}", postgres.len());
    let only =
        |engine: &'static str, has: &BTreeSet<String>, lacks: &BTreeSet<String>| -> Vec<(String, String)> {
            has.difference(lacks).map(|part| (engine.to_owned(), part.clone())).collect()
        };
    let mut found = only("sqlite", &sqlite, &postgres);
    found.extend(only("postgres", &postgres, &sqlite));
    let mut listed: Vec<(String, String)> =
        DIFFERENCES.iter().map(|(engine, part, _)| ((*engine).to_owned(), (*part).to_owned())).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
}
