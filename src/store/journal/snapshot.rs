//! Snapshots: all facts at a position, from which a replay begins if the journal before it is pruned.
//!
//! A snapshot holds the tables with their row ids, so entries applied after it find the same rows. It is
//! taken of a replayed mirror, never of the live one (docs/rules.md 38).

use crate::journal::PackedBody;
use crate::model::{Position, Timestamp};
use crate::store::engine::error::SqlContext;
use crate::store::{FACT_TABLES, JournalReader, StoreError, WriteTransaction};
use sqlx::{AssertSqlSafe, FromRow};

/// Tables of a replayed mirror at a position.
#[derive(Debug)]
pub struct MirrorSnapshot {
    tables: Vec<(&'static str, PackedBody)>,
}

/// Snapshot in the journal, without its tables.
#[derive(Clone, Copy, Debug, FromRow)]
pub struct SnapshotRow {
    /// Position.
    pub position: i64,
    /// Time at which it was taken.
    pub taken_ms: i64,
    /// Position up to which bodies were pruned.
    pub pruned_to: i64,
    /// True if the journal's size pruned bodies earlier than their age would have.
    pub by_size: bool,
}

/// Returns the tables of a snapshot: the facts, and the readings that products point to.
fn snapshot_table_names() -> impl Iterator<Item = &'static str> {
    FACT_TABLES.iter().map(|table| table.name).chain(["read_batch"])
}

impl JournalReader {
    /// Takes a snapshot of a replayed mirror.
    pub async fn take_snapshot(&mut self) -> Result<MirrorSnapshot, StoreError> {
        let mut taken = Vec::new();
        for name in snapshot_table_names() {
            let columns = self.table_columns(name).await?.join(", ");
            let sql = format!("SELECT coalesce(json_group_array(json_array({columns})), '[]') FROM {name}");
            let query = sqlx::query_scalar(AssertSqlSafe(sql));
            let rows: String =
                query.fetch_one(&mut self.connection).await.context("take a table's snapshot")?;
            taken.push((name, PackedBody::pack(rows.as_bytes())?));
        }
        Ok(MirrorSnapshot { tables: taken })
    }

    /// Returns the newest snapshot up to a position from which the journal is whole.
    ///
    /// `None`: the journal is whole from its beginning.
    pub async fn snapshot_before(&mut self, to: Position) -> Result<Option<SnapshotRow>, StoreError> {
        self.projection_reaches(to).await?;
        let sql = "SELECT position, taken_ms, pruned_to, by_size FROM snapshot ORDER BY position DESC";
        let all: Vec<SnapshotRow> =
            sqlx::query_as(sql).fetch_all(&mut self.connection).await.context("look for snapshots")?;
        let pruned_to = all.iter().map(|row| row.pruned_to).max().unwrap_or(0);
        let usable = |row: &&SnapshotRow| row.position <= to.0 && row.position >= pruned_to;
        match (all.iter().find(usable), all.last()) {
            (None, Some(_)) => {
                let first = all.iter().map(|row| row.position).filter(|at| *at >= pruned_to).min();
                Err(StoreError::JournalPruned { requested: to, first: Position(first.unwrap_or(pruned_to)) })
            }
            (found, _) => Ok(found.copied()),
        }
    }

    /// Returns name and rows of each table of a snapshot, the rows as JSON.
    pub async fn snapshot_tables(&mut self, at: Position) -> Result<Vec<(String, String)>, StoreError> {
        let sql = "SELECT name, size, packed FROM snapshot_table WHERE position = ?1";
        let rows: Vec<(String, i64, Vec<u8>)> = sqlx::query_as(sql)
            .bind(at.0)
            .fetch_all(&mut self.connection)
            .await
            .context("read a snapshot")?;
        let read = |(name, size, packed): (String, i64, Vec<u8>)| {
            let rows = super::reader::unpack_body(Some(&packed), Some(size))?;
            Ok((name, String::from_utf8_lossy(&rows).into_owned()))
        };
        rows.into_iter().map(read).collect()
    }

    pub(super) async fn table_columns(&mut self, table: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
        let columns = sqlx::query_scalar(sql).bind(table).fetch_all(&mut self.connection).await;
        columns.context("read the columns of a table")
    }
}

impl WriteTransaction {
    /// Restores a table of a snapshot into an empty mirror.
    pub async fn snapshot_restore(&mut self, name: &str, rows: &str) -> Result<(), StoreError> {
        let Some(name) = snapshot_table_names().find(|known| *known == name) else {
            return Err(StoreError::UnknownValue {
                value_kind: "a table of a snapshot",
                value: name.to_owned(),
            });
        };
        let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
        let columns: Vec<String> = sqlx::query_scalar(sql)
            .bind(name)
            .fetch_all(&mut *self.tx)
            .await
            .context("read the columns of a table")?;
        let values: Vec<String> = (0..columns.len()).map(|column| format!("value->>{column}")).collect();
        let (columns, values) = (columns.join(", "), values.join(", "));
        let sql = format!("INSERT INTO {name} ({columns}) SELECT {values} FROM json_each(?1)");
        let done = sqlx::query(AssertSqlSafe(sql)).bind(rows).execute(&mut *self.tx).await;
        done.map(drop).context("restore a table of a snapshot")
    }

    /// Stores a snapshot at the journal's current position; of the older ones only the last stays.
    pub async fn snapshot_store(
        &mut self,
        snapshot: &MirrorSnapshot,
        at: Timestamp,
    ) -> Result<Position, StoreError> {
        let sql = "INSERT INTO snapshot (position, taken_ms, pruned_to, by_size) \
                   SELECT position, ?1, coalesce((SELECT max(pruned_to) FROM snapshot), 0), \
                          coalesce((SELECT by_size FROM snapshot ORDER BY position DESC LIMIT 1), 0) \
                   FROM journal_sequence RETURNING position";
        let position: i64 =
            sqlx::query_scalar(sql).bind(at.0).fetch_one(&mut *self.tx).await.context("keep a snapshot")?;
        for (name, body) in &snapshot.tables {
            let size = i64::try_from(body.size).unwrap_or(i64::MAX);
            let sql = "INSERT INTO snapshot_table (position, name, size, packed) VALUES (?1, ?2, ?3, ?4)";
            let query = sqlx::query(sql).bind(position).bind(name).bind(size).bind(&body.packed);
            query.execute(&mut *self.tx).await.context("keep a table of a snapshot")?;
        }
        let sql = "DELETE FROM snapshot WHERE position NOT IN \
                   (SELECT position FROM snapshot ORDER BY position DESC LIMIT 2)";
        sqlx::query(sql).execute(&mut *self.tx).await.context("drop old snapshots")?;
        Ok(Position(position))
    }

    /// Records the position up to which the snapshot's pruning deleted bodies.
    pub async fn snapshot_mark_pruned(
        &mut self,
        snapshot: Position,
        to: Position,
        by_size: bool,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE snapshot SET pruned_to = ?2, by_size = ?3 WHERE position = ?1";
        let query = sqlx::query(sql).bind(snapshot.0).bind(to.0).bind(by_size);
        query.execute(&mut *self.tx).await.map(drop).context("note what was pruned")
    }
}
