//! Hash of each table, for comparing a copy with its original.
//!
//! Rows are read in the order of their keys and in pages, because a table of bodies does not fit into memory.
//! The hash covers SQLite's literal of each value, so 1, 1.0 and '1' differ.

use super::error::SqlContext;
use crate::store::Result;
use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// Number of rows in a page; a body has a few kilobytes.
const PAGE_ROWS: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableHash {
    pub(super) rows: u64,
    digest: [u8; 32],
}

/// Returns the hash of every table of a database by name. The caller holds a transaction or excludes writers,
/// so all hashes are of one state.
pub(super) async fn table_hashes(connection: &mut SqliteConnection) -> Result<BTreeMap<String, TableHash>> {
    let sql = "SELECT name, wr FROM pragma_table_list \
               WHERE schema = 'main' AND type = 'table' AND name <> 'sqlite_schema' ORDER BY name";
    let tables: Vec<(String, bool)> =
        sqlx::query_as(sql).fetch_all(&mut *connection).await.context("list the tables")?;
    let mut hashes = BTreeMap::new();
    for (table, has_no_rowid) in tables {
        let sql = "SELECT name, pk FROM pragma_table_info($1) ORDER BY cid";
        let columns: Vec<(String, i64)> =
            sqlx::query_as(sql).bind(&table).fetch_all(&mut *connection).await.context("list the columns")?;
        let mut key: Vec<&(String, i64)> = columns.iter().filter(|(_, rank)| *rank > 0).collect();
        key.sort_by_key(|(_, rank)| *rank);
        let key: Vec<String> = match has_no_rowid {
            true => key.iter().map(|(name, _)| quoted_name(name)).collect(),
            false => vec!["rowid".into()],
        };
        let columns: Vec<String> = columns.iter().map(|(name, _)| quoted_name(name)).collect();
        let hash = hash_rows(connection, &quoted_name(&table), &key, &columns).await?;
        hashes.insert(table, hash);
    }
    Ok(hashes)
}

async fn hash_rows(
    connection: &mut SqliteConnection,
    table: &str,
    key: &[String],
    columns: &[String],
) -> Result<TableHash> {
    let literals = |columns: &[String]| {
        let each: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
        each.join(" || ',' || ")
    };
    // The literal of each row's key, and those of all its values.
    let (keys, values, key) = (literals(key), literals(columns), key.join(", "));
    let (mut hasher, mut rows, mut behind) = (Sha256::new(), 0, String::new());
    loop {
        let sql = format!("SELECT {keys}, {values} FROM {table} {behind} ORDER BY {key} LIMIT {PAGE_ROWS}");
        let query = sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut *connection);
        let page: Vec<(String, String)> = query.await.context("compare a table")?;
        for (_, row) in &page {
            hasher.update(row.as_bytes());
            hasher.update([0]);
        }
        rows += page.len() as u64;
        match page.get(PAGE_ROWS - 1) {
            Some((last, _)) => behind = format!("WHERE ({key}) > ({last})"),
            None => return Ok(TableHash { rows, digest: hasher.finalize().into() }),
        }
    }
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::{Connection, Executor};

    /// Returns the hashes of three tables of 1200 rows with every type, after the statement `change`.
    async fn hashes(change: &'static str) -> BTreeMap<String, TableHash> {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let fill = "CREATE TABLE a (id INTEGER PRIMARY KEY, t TEXT, r REAL, b BLOB);
                    CREATE TABLE k (x TEXT, y INTEGER, v, PRIMARY KEY (x, y)) WITHOUT ROWID;
                    CREATE TABLE \"o\"\"dd\" (v);
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
                    INSERT INTO a SELECT i, 't''' || i, i / 7.0, x'00ff' FROM n;
                    INSERT INTO k SELECT t, id % 3, NULL FROM a;
                    INSERT INTO \"o\"\"dd\" SELECT id FROM a;";
        connection.execute(fill).await.unwrap();
        connection.execute(change).await.unwrap();
        table_hashes(&mut connection).await.unwrap()
    }

    #[tokio::test]
    async fn any_change_of_any_value_changes_its_tables_hash_and_no_other() {
        let before = hashes("SELECT 1").await;
        assert_eq!(before.values().map(|hash| hash.rows).collect::<Vec<_>>(), [1200; 3]);
        assert_eq!(hashes("SELECT 2").await, before);
        let changes = [
            ("a", "UPDATE a SET b = x'00fe' WHERE id = 1200"),
            ("a", "UPDATE a SET t = NULL WHERE id = 501"),
            ("a", "DELETE FROM a WHERE id = 500"),
            ("k", "UPDATE k SET v = 1 WHERE x = 't''77'"),
            ("k", "DELETE FROM k WHERE x = 't''1000'"),
            ("o\"dd", "UPDATE \"o\"\"dd\" SET v = '7' WHERE v = 7"),
        ];
        for (table, change) in changes {
            let after = hashes(change).await;
            let changed: Vec<&String> = after.keys().filter(|name| after[*name] != before[*name]).collect();
            assert_eq!(changed, [table], "{change}");
        }
    }
}
