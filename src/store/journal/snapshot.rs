//! Snapshots: all facts at a position, from which a replay begins if the journal before it is pruned.
//!
//! A snapshot holds the tables with their row ids, so entries applied after it find the same rows. It is
//! taken of a replayed mirror, never of the live one (docs/rules.md 22).

use super::detail::unpack_body;
use crate::journal::{BodyPacker, PackedBody};
use crate::model::{Position, Timestamp};
use crate::store::engine::error::SqlContext as _;
use crate::store::engine::table_rows::{TableColumns, read_rows, to_json};
use crate::store::{FACT_TABLES, JournalReader, Result, StoreError, WriteTransaction};
use sqlx_macros::FromRow;
use std::future::poll_fn;

/// Tables of a replayed mirror at a position.
type MirrorTables = Vec<(&'static str, PackedBody)>;

/// Snapshot in the journal, without its tables.
#[derive(Clone, Copy, Debug, FromRow)]
pub(crate) struct SnapshotRow {
    pub position: i64,
    /// Time at which it was taken.
    pub taken_ms: i64,
    /// Position up to which bodies were pruned.
    pub pruned_to: i64,
    /// True if the journal's size pruned bodies earlier than their age would have.
    pub by_size: bool,
}

/// Returns the tables of a snapshot: the facts, and the read batches that products point to.
fn snapshot_table_names() -> impl Iterator<Item = &'static str> {
    FACT_TABLES.iter().map(|table| table.name).chain(["read_batch"])
}

impl JournalReader {
    /// Takes a snapshot of a replayed mirror.
    pub(crate) async fn take_snapshot(&mut self) -> Result<MirrorTables> {
        let mut tables = Vec::new();
        for name in snapshot_table_names() {
            let query = TableColumns::read(&mut self.connection, name).await?.query();
            let (mut list, mut read) = (BodyPacker::new()?, read_rows(&mut self.connection, query));
            let mut separator = "[";
            while let Some(row) = poll_fn(&mut read).await {
                list.write(separator)?;
                list.write(&to_json(&row.context("take a table's snapshot")?))?;
                separator = ",";
            }
            list.write(if separator == "[" { "[]" } else { "]" })?;
            tables.push((name, list.finish()?));
        }
        Ok(tables)
    }

    /// Returns the newest snapshot up to a position from which the journal is whole; `None`: its start.
    pub(crate) async fn snapshot_before(&mut self, to: Position) -> Result<Option<SnapshotRow>> {
        self.projection_reaches(to).await?;
        let sql = "SELECT position, taken_ms, pruned_to, by_size FROM snapshot ORDER BY position DESC";
        let all: Vec<SnapshotRow> = self.fetch_all(sql, (), "read the snapshots").await?;
        let pruned_to = all.iter().map(|row| row.pruned_to).max().unwrap_or(0);
        let usable = |row: &&SnapshotRow| row.position <= to.0 && row.position >= pruned_to;
        match (all.iter().find(usable), all.last()) {
            (None, Some(_)) => {
                let first = all.iter().map(|row| row.position).filter(|at| *at >= pruned_to).min();
                let first = first.unwrap_or(pruned_to);
                let reason = format!(
                    "the journal before position {first} was pruned; name a later time, or restore a backup of that time"
                );
                Err(StoreError::refused(format!("replay up to position {to}"), reason))
            }
            (found, _) => Ok(found.copied()),
        }
    }

    /// Returns name and rows of each table of a snapshot, the rows as JSON.
    pub(crate) async fn snapshot_tables(&mut self, at: Position) -> Result<Vec<(String, String)>> {
        let sql = "SELECT name, size, packed FROM snapshot_table WHERE position = $1";
        let rows: Vec<_> = self.fetch_all(sql, (at,), "read a snapshot").await?;
        let text = |(name, size, packed): (String, i64, Vec<u8>)| {
            Ok((name, String::from_utf8_lossy(&unpack_body(&packed, Some(size))?).into_owned()))
        };
        rows.into_iter().map(text).collect()
    }
}

impl WriteTransaction {
    /// Restores a table of a snapshot into an empty mirror.
    pub(crate) async fn snapshot_restore(&mut self, name: &str, rows: &str) -> Result<()> {
        let Some(name) = snapshot_table_names().find(|known| *known == name) else {
            return Err(StoreError::UnknownValue("a table of a snapshot", name.to_owned()));
        };
        let sql = TableColumns::read(&mut self.tx, name).await?.insertion(&self.tx);
        self.execute(sql, (rows,), "restore a table of a snapshot").await
    }

    /// Stores a snapshot at the journal's current position; of the older ones only the last stays.
    pub(crate) async fn snapshot_store(
        &mut self,
        snapshot: &MirrorTables,
        at: Timestamp,
    ) -> Result<Position> {
        let sql = "INSERT INTO snapshot (position, taken_ms, pruned_to, by_size) \
                   SELECT position, $1, coalesce((SELECT max(pruned_to) FROM snapshot), 0), \
                          coalesce((SELECT by_size FROM snapshot ORDER BY position DESC LIMIT 1), FALSE) \
                   FROM journal_sequence RETURNING position";
        let position: Position = self.fetch_value(sql, (at,), "store a snapshot").await?;
        for (name, body) in snapshot {
            let size = i64::try_from(body.size).unwrap_or(i64::MAX);
            let sql = "INSERT INTO snapshot_table (position, name, size, packed) VALUES ($1, $2, $3, $4)";
            self.execute(sql, (position, name, size, &body.packed), "store a table of a snapshot").await?;
        }
        let sql = "DELETE FROM snapshot WHERE position NOT IN \
                   (SELECT position FROM snapshot ORDER BY position DESC LIMIT 2)";
        self.execute(sql, (), "delete old snapshots").await?;
        Ok(position)
    }

    /// Records the position up to which the snapshot's pruning deleted bodies.
    pub(crate) async fn snapshot_mark_pruned(
        &mut self,
        snapshot: Position,
        to: Position,
        by_size: bool,
    ) -> Result<()> {
        let sql = "UPDATE snapshot SET pruned_to = $2, by_size = $3 WHERE position = $1";
        self.execute(sql, (snapshot.0, to.0, by_size), "store the pruned position").await
    }
}
