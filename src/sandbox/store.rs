//! The sandbox's database: a writing connection and several readers, in memory or over a file.
//!
//! Every statement goes to its connection's thread and back. With a single connection, all others would wait
//! for both ways. Therefore reads use several connections. A write excludes all reads, and writes are
//! serialised: a seed's run is always the same, and no caller gets a busy error. The library's pool is not
//! used: it checks each returned connection through its thread, which costs as much as the answer.
//!
//! A database in memory is a shared database of SQLite (VFS `memdb`), which exists while a connection to it
//! exists. A file is protected by a lock on a file beside it, so that two sandboxes cannot share it. A lock
//! on the database itself would exclude the sandbox's own readers.

use std::fs::{File, TryLockError};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{SandboxError, lock_mutex};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sandbox");
/// Prepared statements per connection: enough for all statements of the sandbox.
const STATEMENT_CACHE_SIZE: usize = 200;
/// Number of reading connections, so that a statement can travel while another runs.
///
/// Each further connection costs about 6 MiB with lookups of 1000 SKUs (its pages, and the answers of its
/// thread).
const READ_CONNECTIONS: u32 = 2;
/// Longest wait for the lock: a sandbox that has just ended may still be closing the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);
const VIEWS_SQL: &str = include_str!("wire.sql");

/// The open database.
#[derive(Debug)]
pub(super) struct SandboxStore {
    /// Writing connection. Its read guards are the permits for connections of `idle`.
    writer: RwLock<SqliteConnection>,
    idle: Mutex<Vec<SqliteConnection>>,
    /// Dropped after the connections are closed.
    _lock: Option<File>,
}

impl SandboxStore {
    /// Opens the database, migrates its tables and creates the views.
    pub(super) async fn open(data: Option<&Path>) -> Result<Self, SandboxError> {
        let at = data.map_or_else(|| "in memory".to_owned(), |path| path.display().to_string());
        Self::connect(data).await.map_err(|cause| SandboxError::Open { at, cause })
    }

    async fn connect(data: Option<&Path>) -> Result<Self, sqlx::Error> {
        let lock = match data {
            Some(path) => Some(lock_file(path).await?),
            None => None,
        };
        let options = connect_options(data);
        let mut writer = options.clone().create_if_missing(true).connect().await?;
        MIGRATIONS.run(&mut writer).await?;
        sqlx::raw_sql(VIEWS_SQL).execute(&mut writer).await?;
        let mut idle = Vec::new();
        for _ in 0..READ_CONNECTIONS {
            let mut reader = options.clone().read_only(true).connect().await?;
            sqlx::raw_sql(VIEWS_SQL).execute(&mut reader).await?;
            idle.push(reader);
        }
        Ok(Self {
            writer: RwLock::with_max_readers(writer, READ_CONNECTIONS),
            idle: Mutex::new(idle),
            _lock: lock,
        })
    }

    /// Returns a reading connection, and waits for a free connection if necessary.
    pub(super) async fn read_connection(&self) -> SandboxReader<'_> {
        let permit = self.writer.read().await;
        SandboxReader { store: self, connection: lock_mutex(&self.idle).pop(), _permit: permit }
    }

    /// Returns the writing connection, after all readers.
    pub(super) async fn write_connection(&self) -> RwLockWriteGuard<'_, SqliteConnection> {
        self.writer.write().await
    }
}

/// A reading connection, returned on drop.
pub(super) struct SandboxReader<'a> {
    store: &'a SandboxStore,
    /// Present until the drop.
    connection: Option<SqliteConnection>,
    _permit: RwLockReadGuard<'a, SqliteConnection>,
}

const CONNECTION_PRESENT: &str = "there are as many readers as permits to read";

impl Deref for SandboxReader<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.connection.as_ref().expect(CONNECTION_PRESENT)
    }
}

impl DerefMut for SandboxReader<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect(CONNECTION_PRESENT)
    }
}

impl Drop for SandboxReader<'_> {
    fn drop(&mut self) {
        lock_mutex(&self.store.idle).extend(self.connection.take());
    }
}

/// Returns the options of every connection.
fn connect_options(data: Option<&Path>) -> SqliteConnectOptions {
    static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
    let options = SqliteConnectOptions::new()
        .statement_cache_capacity(STATEMENT_CACHE_SIZE)
        .busy_timeout(LOCK_TIMEOUT)
        .disable_statement_logging();
    match data {
        // The leading slash makes it a shared database for all connections with the name.
        None => {
            options.filename(format!("/sandbox-{}", NEXT_NUMBER.fetch_add(1, Ordering::Relaxed))).vfs("memdb")
        }
        Some(path) => {
            options.filename(path).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal)
        }
    }
}

/// Locks the file `PATH.lock`.
async fn lock_file(path: &Path) -> Result<File, sqlx::Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = File::options().create(true).truncate(false).write(true).open(name)?;
    for _ in 0..LOCK_TIMEOUT.as_millis() / LOCK_POLL_INTERVAL.as_millis() {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
            Err(TryLockError::Error(cause)) => return Err(cause.into()),
        }
    }
    Err(std::io::Error::new(std::io::ErrorKind::WouldBlock, "the file beside it (.lock) is held").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKE: &str = "INSERT INTO setting (name, value) VALUES ('seed', '7')";
    const COUNT: &str = "SELECT count(*) FROM setting";

    async fn count(store: &SandboxStore) -> i64 {
        sqlx::query_scalar(COUNT).fetch_one(&mut *store.read_connection().await).await.unwrap()
    }

    #[tokio::test]
    async fn every_reader_sees_what_was_written_and_none_can_write() {
        let folder = tempfile::tempdir().unwrap();
        for data in [None, Some(folder.path().join("shop.db"))] {
            let store = SandboxStore::open(data.as_deref()).await.unwrap();
            sqlx::query(MAKE).execute(&mut *store.write_connection().await).await.unwrap();
            let mut readers = Vec::new();
            for _ in 0..READ_CONNECTIONS {
                let mut reader = store.read_connection().await;
                let seen: i64 = sqlx::query_scalar(COUNT).fetch_one(&mut *reader).await.unwrap();
                assert_eq!(seen, 1, "{data:?}");
                assert!(sqlx::query("DELETE FROM setting").execute(&mut *reader).await.is_err(), "{data:?}");
                readers.push(reader);
            }
            drop(readers);
            assert_eq!(lock_mutex(&store.idle).len(), READ_CONNECTIONS as usize, "all are given back");
        }
    }

    #[tokio::test]
    async fn two_sandboxes_in_memory_are_two_shops() {
        let (one, two) = (SandboxStore::open(None).await.unwrap(), SandboxStore::open(None).await.unwrap());
        sqlx::query(MAKE).execute(&mut *one.write_connection().await).await.unwrap();
        assert_eq!((count(&one).await, count(&two).await), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_one_sandboxs_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let first = SandboxStore::open(Some(&path)).await.unwrap();
        let refused = SandboxStore::open(Some(&path)).await.unwrap_err().to_string();
        assert!(refused.contains("shop.db") && refused.contains("another sandbox"), "{refused}");
        drop(first);
        assert!(SandboxStore::open(Some(&path)).await.is_ok());
    }
}
