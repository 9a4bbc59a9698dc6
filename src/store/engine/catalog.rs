//! Questions about the database itself, which each engine answers in its own way.

use super::fetch::{self, Connection};
use crate::store::{Result, Store, WriteTransaction};

impl Store {
    /// Returns the bytes that the database occupies: its file, or its tables and indexes on the server.
    pub(crate) async fn database_bytes(&self) -> Result<i64> {
        let mut from = self.read_connection().await?;
        let sql = match *from {
            Connection::Sqlite(_) => {
                "SELECT p.page_count * s.page_size FROM pragma_page_count p, pragma_page_size s"
            }
            Connection::Postgres(_) => {
                "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) FROM pg_class \
                 WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r'"
            }
        };
        let rows: Vec<(i64,)> = fetch::all(&mut from, sql, (), "measure the database").await?;
        Ok(rows.first().map_or(0, |(bytes,)| *bytes))
    }
}

impl WriteTransaction {
    /// Returns the number of bytes in use in the database.
    pub(crate) async fn database_used_bytes(&mut self) -> Result<u64> {
        let sql = match *self.tx {
            Connection::Sqlite(_) => {
                "SELECT (p.page_count - f.freelist_count) * s.page_size \
                 FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s"
            }
            // A table keeps its size when rows go. The bodies are most of the bytes, and those that go are known.
            Connection::Postgres(_) => {
                "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) \
                     + (SELECT CAST(coalesce(sum(pg_column_size(packed)), 0) AS BIGINT) FROM body) \
                 FROM pg_class \
                 WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r' \
                   AND relname <> 'body'"
            }
        };
        let bytes: i64 = self.fetch_value(sql, (), "measure the database").await?;
        Ok(bytes.unsigned_abs())
    }
}
