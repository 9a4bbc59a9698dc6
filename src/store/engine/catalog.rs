//! Size of the database, which each engine measures in its own way.

use super::connection::Connection;
use super::error::SqlContext;
use crate::store::{Result, Store, WriteTransaction};

impl Store {
    /// Returns the number of bytes in use in the database.
    pub(crate) async fn database_bytes(&self) -> Result<u64> {
        used_bytes(&mut *self.read_connection().await?).await
    }
}

impl WriteTransaction {
    /// Returns the number of bytes in use in the database, without what this transaction deleted.
    pub(crate) async fn database_used_bytes(&mut self) -> Result<u64> {
        used_bytes(&mut self.tx).await
    }
}

async fn used_bytes(from: &mut Connection) -> Result<u64> {
    let sql = match from {
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
    let used: Option<(i64,)> = from.first_row(sql, ()).await.context("measure the database")?;
    Ok(used.map_or(0, |(bytes,)| bytes.unsigned_abs()))
}
