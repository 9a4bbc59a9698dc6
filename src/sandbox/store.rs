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

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::{Mutex, RwLock, RwLockWriteGuard};

use super::SandboxError;

static MIGRATIONS: Migrator = sqlx_macros::migrate!("migrations/sandbox");
/// Prepared statements per connection: enough for all statements of the sandbox.
const STATEMENT_CACHE_SIZE: usize = 200;
/// Number of reading connections, so that a statement can travel while another runs. Each further connection
/// costs about 6 MiB with lookups of 1000 SKUs (its pages, and the answers of its thread).
const READ_CONNECTIONS: u32 = 2;
/// Longest wait for SQLite's lock: a sandbox that has just ended may still be closing the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const VIEWS_SQL: &str = include_str!("wire.sql");

/// Values of a statement's parameters, in the order of `?1`, `?2` and so on.
macro_rules! values {
    ($($value:expr),+ $(,)?) => {{
        let mut arguments = sqlx::sqlite::SqliteArguments::default();
        $(sqlx::Arguments::add(&mut arguments, $value).expect("numbers and texts are always encoded");)+
        arguments
    }};
}
pub(super) use values;

#[derive(Debug)]
pub(super) struct SandboxStore {
    /// Writing connection. Its read guards are the permits for the readers.
    writer: RwLock<SqliteConnection>,
    readers: Vec<Mutex<SqliteConnection>>,
    /// Dropped after the connections are closed.
    _lock: Option<File>,
}

impl SandboxStore {
    pub(super) async fn open(data: Option<&Path>) -> Result<Self, SandboxError> {
        let at = data.map_or_else(|| "in memory".to_owned(), |path| path.display().to_string());
        Self::connect(data).await.map_err(|cause| SandboxError::Open { at, cause })
    }

    async fn connect(data: Option<&Path>) -> Result<Self, sqlx::Error> {
        let lock = data.map(lock_file).transpose()?;
        let options = connect_options(data);
        let mut writer = options.clone().create_if_missing(true).connect().await?;
        MIGRATIONS.run(&mut writer).await?;
        sqlx::raw_sql(VIEWS_SQL).execute(&mut writer).await?;
        let mut readers = Vec::new();
        for _ in 0..READ_CONNECTIONS {
            let mut reader = options.clone().read_only(true).connect().await?;
            sqlx::raw_sql(VIEWS_SQL).execute(&mut reader).await?;
            readers.push(Mutex::new(reader));
        }
        Ok(Self { writer: RwLock::with_max_readers(writer, READ_CONNECTIONS), readers, _lock: lock })
    }

    /// Runs `work` on a reading connection, and waits for a free connection if necessary.
    pub(super) async fn read<T>(&self, work: impl AsyncFnOnce(&mut SqliteConnection) -> T) -> T {
        let _permit = self.writer.read().await;
        let mut readers = self.readers.iter();
        let free = readers.find_map(|reader| reader.try_lock().ok());
        work(&mut free.expect("there are as many readers as permits to read")).await
    }

    pub(super) async fn write_connection(&self) -> RwLockWriteGuard<'_, SqliteConnection> {
        self.writer.write().await
    }
}

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

fn lock_file(path: &Path) -> std::io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = File::options().create(true).truncate(false).write(true).open(name)?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Barrier;
    use tokio::task::JoinSet;

    use super::*;

    const MAKE: &str = "INSERT INTO setting (name, value) VALUES ('seed', '7')";
    const COUNT: &str = "SELECT count(*) FROM setting";

    async fn count(store: &SandboxStore) -> i64 {
        store.read(async |db| sqlx::query_scalar(COUNT).fetch_one(db).await.unwrap()).await
    }

    #[tokio::test]
    async fn every_reader_sees_what_was_written_and_none_can_write() {
        let folder = tempfile::tempdir().unwrap();
        for data in [None, Some(folder.path().join("shop.db"))] {
            let store = SandboxStore::open(data.as_deref()).await.unwrap();
            sqlx::query(MAKE).execute(&mut *store.write_connection().await).await.unwrap();
            // All reads are held at once, so that each has a connection of its own.
            let (store, all_reads) = (Arc::new(store), Arc::new(Barrier::new(READ_CONNECTIONS as usize)));
            let mut reads = JoinSet::new();
            for _ in 0..READ_CONNECTIONS {
                let (store, all_reads) = (Arc::clone(&store), Arc::clone(&all_reads));
                reads.spawn(async move {
                    let read = async |db: &mut SqliteConnection| {
                        all_reads.wait().await;
                        let seen: i64 = sqlx::query_scalar(COUNT).fetch_one(&mut *db).await.unwrap();
                        (seen, sqlx::query("DELETE FROM setting").execute(db).await.is_err())
                    };
                    store.read(read).await
                });
            }
            assert_eq!(reads.join_all().await, [(1, true); READ_CONNECTIONS as usize], "{data:?}");
            assert!(store.readers.iter().all(|reader| reader.try_lock().is_ok()), "all are given back");
        }
    }

    #[tokio::test]
    async fn two_sandboxes_in_memory_are_two_shops() {
        let (one, two) = (SandboxStore::open(None).await.unwrap(), SandboxStore::open(None).await.unwrap());
        sqlx::query(MAKE).execute(&mut *one.write_connection().await).await.unwrap();
        assert_eq!((count(&one).await, count(&two).await), (1, 0));
    }

    #[tokio::test]
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
