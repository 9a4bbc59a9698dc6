//! Copies of the database: made during operation, verified and marked, and put back (docs/rules.md 13).
//!
//! `VACUUM INTO` reads one state of the database and writes it compactly. Writers wait only until the copying
//! reader and the comparing reader see the same state. A copy is checked and compared with its
//! original, table by table, before it gets its name. It is written under another name first, so a file
//! with the final name is complete.
//!
//! `cp` is no substitute. It misses the write-ahead log, and without the marker a restored copy would repeat
//! the writes made since.

use super::connection::Connection;
use super::error::SqlContext;
use super::files::{GROUP_MODE, no_follow_options, parent_folder, resolve_path, sync_folder, with_suffix};
use super::reader::connect_file;
use super::table_rows::table_sums;
use crate::model::{Position, Timestamp};
use crate::store::{DatabaseLock, Durability, Result, Store, StoreError};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// File mode of a copy: its owner writes, its group reads.
const COPY_MODE: u32 = 0o640;
/// Interval at which the growing file is polled for the copy's start and progress.
const COPY_POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedCopy {
    pub size_bytes: u64,
    pub tables: usize,
    pub rows: u64,
    pub position: Position,
}

impl Store {
    /// Copies the database to a new file; `progress` gets the bytes written and the approximate total.
    pub async fn backup_create(
        &self,
        to: &Path,
        at: Timestamp,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<VerifiedCopy> {
        if self.location().server().is_some() {
            let reason = "the database is on a PostgreSQL server, which has its own copies: `pg_dump` of the schema, or \
                          `pg_basebackup` with archived WAL (docs/backup.md)";
            return Err(no_copy(to, reason));
        }
        if to.exists() {
            let reason =
                "a file of this name exists; choose another name, because backups never overwrite a file";
            return Err(no_copy(to, reason));
        }
        let partial = PartialCopy::create_file(to)?;
        let original = self.copy_into(&partial.path, progress).await?;
        let copied = verify_copy(original, &partial.path, to, at).await?;
        partial.publish_as(to).await?;
        Ok(copied)
    }

    /// Writes the copy and returns a connection that still sees the copied state.
    async fn copy_into(
        &self,
        partial: &Path,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<Connection> {
        let mut gate = Some(self.begin_write(Durability::Normal).await?);
        let mut original = connect_file(self.path(), false).await?;
        let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size, journal_sequence";
        original.run("BEGIN").await.context("begin a read transaction")?;
        let total = original.first_row(sql, ()).await.context("begin a copy")?;
        let total = total.map_or(0, |(bytes,): (i64,)| bytes);
        let mut copying = connect_file(self.path(), false).await?;
        let into = partial.display().to_string();
        let mut copying = tokio::spawn(async move {
            copying.change("VACUUM INTO $1", (into,)).await.map(drop).context("write the copy")
        });
        loop {
            tokio::select! {
                done = &mut copying => {
                    return done.unwrap_or_else(|broken| resume_unwind(broken.into_panic())).map(|()| original);
                }
                () = tokio::time::sleep(COPY_POLL_INTERVAL) => {}
            }
            let written = std::fs::metadata(partial).map_or(0, |file| file.len());
            progress(written, total.unsigned_abs());
            // SQLite writes the first byte after its read began: other writers may continue.
            if written > 0 {
                gate.take();
            }
        }
    }

    /// Puts a copy in the place of the database at a path, whose lock the caller holds. Returns the new name
    /// of the database before, and the number of changes of the copy in each state.
    ///
    /// SQLite reads the copy, so a log beside it counts, and it is marked as restored before it is in place.
    /// Nothing is changed if tallyd never worked on the copy, or another version did.
    pub(crate) async fn restore_copy(
        database: &Path,
        copy: &Path,
        _lock: &DatabaseLock,
        at: Timestamp,
    ) -> Result<(PathBuf, Vec<(String, i64)>)> {
        let (database, copy) = (resolve_path(database), resolve_path(copy));
        let mut source = connect_file(&copy, true).await?;
        let partial = PartialCopy::create_file(&database)?;
        let into = partial.path.display().to_string();
        source.change("VACUUM INTO $1", (into,)).await.opening(&copy.as_path().into())?;
        let store = Self::open_unlocked(&partial.path).await?;
        let used = store.fetch_value("SELECT EXISTS (SELECT 1 FROM session)", (), "read the copy").await;
        if !used.unwrap_or(false) {
            let reason = "tallyd never worked on the copy; name a copy of its database";
            return Err(no_copy(&database, reason));
        }
        store.migrate().await?;
        let changes = store.outbox_counts().await?;
        let mut write = store.begin_write(Durability::Full).await?;
        write.restore_declare(at).await?;
        write.commit().await?;
        store.close().await?;
        let kept = with_suffix(&database, &format!(".before-{}", at.to_rfc3339().replace(':', "")));
        give_and_move_aside(&partial.path, &database, &kept)
            .map_err(StoreError::of_file("move aside the database", &database))?;
        partial.publish_as(&database).await?;
        Ok((kept, changes))
    }

    /// Removes the oldest copies beyond `keep` in a folder and returns their number. A copy has the name of a
    /// scheduled copy and this database's marker.
    pub(crate) async fn backup_rotate(&self, folder: &Path, keep: usize) -> Result<usize> {
        let failed = StoreError::of_file("list the folder", folder);
        let entries = std::fs::read_dir(folder).map_err(&failed)?;
        let names: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut names = names.map_err(failed)?;
        names.retain(|path| is_scheduled_copy(path));
        names.sort();
        let mut copies = Vec::new();
        for path in names {
            if self.is_own_copy(&path).await {
                copies.push(path);
            }
        }
        copies.truncate(copies.len().saturating_sub(keep));
        for path in &copies {
            std::fs::remove_file(path).map_err(StoreError::of_file("remove the old copy", path))?;
        }
        Ok(copies.len())
    }

    /// Returns true if a file is a marked copy of this database; false if it cannot be read.
    async fn is_own_copy(&self, path: &Path) -> bool {
        let own = self.account_binding().await.map(|own| own.salt);
        let Ok(mut copy) = connect_file(path, true).await else { return false };
        let sql = "SELECT b.salt FROM account_binding b JOIN backup_marker m ON m.id = b.id";
        let its: Result<Option<(Vec<u8>,)>, _> = copy.first_row(sql, ()).await;
        matches!((own, its), (Ok(own), Ok(Some((its,)))) if own == its)
    }
}

fn no_copy(to: &Path, reason: impl Into<String>) -> StoreError {
    StoreError::refused(format!("copy the database to {}", to.display()), reason)
}

/// Returns the name of a scheduled copy; names sort by time.
pub fn scheduled_copy_name(at: Timestamp) -> String {
    format!("tallyd-{}.db", at.to_rfc3339().replace(':', ""))
}

fn is_scheduled_copy(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let shape = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "0");
    name.map(shape) == Some(shape(&scheduled_copy_name(Timestamp(0))))
}

/// Checks the copy, compares it with the original, and marks it.
async fn verify_copy(
    mut original: Connection,
    partial: &Path,
    to: &Path,
    at: Timestamp,
) -> Result<VerifiedCopy> {
    let mut copy = connect_file(partial, false).await?;
    let sound: Option<(String,)> =
        copy.first_row("PRAGMA integrity_check(1)", ()).await.context("check the copy")?;
    if let Some((damage,)) = sound.filter(|(sound,)| sound != "ok") {
        return Err(no_copy(to, format!("the copy is damaged ({damage}); check the disk of the copy")));
    }
    let (expected, copied) = (table_sums(&mut original).await?, table_sums(&mut copy).await?);
    original.close().await.context("close the connection to the original")?;
    if let Some((table, _)) = expected.iter().find(|(table, sum)| copied.get(*table) != Some(sum)) {
        let reason = format!("the copy's table {table} differs from the original; check both disks");
        return Err(no_copy(to, reason));
    }
    let sql = "INSERT OR REPLACE INTO backup_marker (id, made_ms, position) \
               SELECT 1, $1, position FROM journal_sequence RETURNING position";
    let position = copy.first_row(sql, (at,)).await.context("mark the copy")?;
    let (position,) = position.ok_or(sqlx::Error::RowNotFound).context("mark the copy")?;
    copy.close().await.context("close the copy")?;
    let size_bytes = std::fs::metadata(partial).map_or(0, |file| file.len());
    let rows = copied.values().map(|sum| sum.rows).sum();
    Ok(VerifiedCopy { size_bytes, tables: copied.len(), rows, position })
}

/// Copy without its final name, removed on drop.
pub(super) struct PartialCopy {
    pub(super) path: PathBuf,
}

impl PartialCopy {
    pub(super) fn create_file(to: &Path) -> Result<Self> {
        let path = with_suffix(to, ".partial");
        let created = no_follow_options().write(true).create(true).truncate(true).mode(COPY_MODE).open(&path);
        match created.and_then(|file| file.set_permissions(Permissions::from_mode(COPY_MODE))) {
            Ok(()) => Ok(Self { path }),
            Err(source) => {
                Err(no_copy(to, format!("{source}; check that the folder exists and is writable")))
            }
        }
    }

    /// Gives the copy its name after syncing it to the disk.
    pub(super) async fn publish_as(self, to: &Path) -> Result<()> {
        let (from, target) = (self.path.clone(), to.to_owned());
        let named = tokio::task::spawn_blocking(move || link_and_sync(&from, &target)).await;
        let named = named.unwrap_or_else(|broken| resume_unwind(broken.into_panic()));
        named.map_err(StoreError::of_file("move the copy to", to))
    }
}

/// Gives a copy the mode and owner of the database, and renames the database with its log and index.
fn give_and_move_aside(copy: &Path, database: &Path, kept: &Path) -> io::Result<()> {
    std::fs::set_permissions(copy, Permissions::from_mode(GROUP_MODE))?;
    let owner = std::fs::metadata(database).or_else(|_| std::fs::metadata(parent_folder(database)))?;
    // Only root may give files away. For others the group of the folder decides.
    drop(chown(copy, Some(owner.uid()), Some(owner.gid())));
    for end in ["-wal", "-shm", ""] {
        match std::fs::rename(with_suffix(database, end), with_suffix(kept, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

impl Drop for PartialCopy {
    fn drop(&mut self) {
        // There is none after `publish_as`. A file left behind is overwritten by the next copy of this name.
        drop(std::fs::remove_file(&self.path));
    }
}

fn link_and_sync(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    // Unlike a rename, it fails if a file of this name appeared meanwhile.
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)?;
    sync_folder(to)
}
