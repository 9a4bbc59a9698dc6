//! Opening the database, and the one writer at a time.

use super::error::Doing;
use super::{Lock, StoreError};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteExecutor, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Sqlite, Transaction};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// How long a statement waits for a program beside us that is writing.
const BUSY: Duration = Duration::from_secs(10);
/// Page cache of a writer, in KiB: beyond SQLite's 2 MiB a backlog's working set would be freed and faulted in anew
/// in every transaction.
const CACHE_KIB: i64 = 16 * 1024;

/// What a commit promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Outlives a power cut (`synchronous=FULL`).
    Full,
    /// Outlives the process (`synchronous=NORMAL`); a power cut may take the last commits, never the file.
    Normal,
}

/// The database.
#[derive(Clone, Debug)]
pub struct Store {
    full: SqlitePool,
    normal: SqlitePool,
    pub(super) read: SqlitePool,
    turn: Arc<Mutex<()>>,
    path: PathBuf,
}

/// A write transaction. Dropped without [`Write::commit`], it never happened.
#[derive(Debug)]
pub struct Write {
    pub(super) tx: Transaction<'static, Sqlite>,
    _turn: OwnedMutexGuard<()>,
}

impl Store {
    /// Opens as the holder of the lock: creates the file if need be and brings the schema up to date.
    pub async fn open(path: &Path, _lock: &Lock) -> Result<Self, StoreError> {
        let made = super::files::create_for_group(path);
        made.map_err(|error| StoreError::Open { path: path.to_owned(), source: error.into() })?;
        let store = Self::connect(path, true).await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Opens beside a holder: reads and inserts wishes, never migrates, never checkpoints.
    pub async fn open_beside(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        let store = Self::connect(path, false).await?;
        refuse_other_schema(&store.read, path).await?;
        Ok(store)
    }

    async fn connect(path: &Path, holder: bool) -> Result<Self, StoreError> {
        Self::over(path, options(path, holder)).await
    }

    /// Makes a mirror in a file that is not there yet, to fold the journal into. Nobody else knows the file, so it needs
    /// no lock; it holds no exchanges, so what points to them is not checked.
    pub async fn create(path: &Path) -> Result<Self, StoreError> {
        let made = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
        let doing = "make the new file";
        made.map_err(|source| StoreError::File { doing, path: path.to_owned(), source })?;
        let store = Self::over(path, options(path, true).foreign_keys(false)).await?;
        store.migrate().await?;
        Ok(store)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        let migrated = sqlx::migrate!("migrations/mirror").run(&self.full).await;
        migrated.map_err(|source| StoreError::Migrate { path: self.path.clone(), source })
    }

    async fn over(path: &Path, options: SqliteConnectOptions) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Open { path: path.to_owned(), source };
        let full = writer(options.clone().synchronous(SqliteSynchronous::Full)).await.map_err(failed)?;
        let normal = SqlitePoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_before_acquire(false)
            .connect_lazy_with(options.clone().synchronous(SqliteSynchronous::Normal));
        let read = SqlitePoolOptions::new()
            .max_connections(4)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(options.read_only(true).create_if_missing(false));
        Ok(Self { full, normal, read, turn: Arc::default(), path: path.to_owned() })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether no statement is under way and no transaction is open: every connection is back in its place. A clock
    /// that is moved by hand may only be moved then.
    pub fn is_at_rest(&self) -> bool {
        [&self.full, &self.normal, &self.read].iter().all(|pool| pool.num_idle() == pool.size() as usize)
    }

    /// Waits for its turn and begins a write transaction. Never hold one over a call to the service.
    pub async fn begin(&self, durability: Durability) -> Result<Write, StoreError> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let pool = match durability {
            Durability::Full => &self.full,
            Durability::Normal => &self.normal,
        };
        let tx = pool.begin_with("BEGIN IMMEDIATE").await.doing("begin a write transaction")?;
        Ok(Write { tx, _turn: turn })
    }

    /// Folds the WAL into the file and closes; the holder's last act.
    pub async fn close(self) -> Result<(), StoreError> {
        self.read.close().await;
        self.normal.close().await;
        let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.full).await;
        self.full.close().await;
        checkpoint.map(drop).doing("fold the write-ahead log into the database")
    }
}

impl Write {
    /// Makes it happen.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await.doing("commit")
    }
}

/// How every connection works; the holder of the lock makes the file and checkpoints.
fn options(path: &Path, holder: bool) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(holder)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(BUSY)
        .foreign_keys(true)
        .pragma("cache_size", format!("-{CACHE_KIB}"))
        .pragma("wal_autocheckpoint", if holder { "1000" } else { "0" })
        .log_statements(tracing::log::LevelFilter::Trace)
        .log_slow_statements(tracing::log::LevelFilter::Warn, Duration::from_secs(1))
}

/// A connection that only reads, beside whoever holds the lock.
pub(super) async fn reader(path: &Path) -> Result<SqliteConnection, StoreError> {
    if !path.exists() {
        return Err(StoreError::Missing { path: path.to_owned() });
    }
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(BUSY)
        .log_statements(tracing::log::LevelFilter::Trace)
        .log_slow_statements(tracing::log::LevelFilter::Debug, Duration::from_secs(1));
    let opened = options.connect().await;
    let mut reader = opened.map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
    refuse_other_schema(&mut reader, path).await?;
    Ok(reader)
}

async fn refuse_other_schema<'e>(read: impl SqliteExecutor<'e>, path: &Path) -> Result<(), StoreError> {
    let migrator = sqlx::migrate!("migrations/mirror");
    let newest = migrator.iter().map(|m| m.version).max();
    let applied: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success")
        .fetch_one(read)
        .await
        .map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
    if applied == newest {
        return Ok(());
    }
    let value = format!("{applied:?}, this program works with {newest:?}; run the tallyd that matches it");
    Err(StoreError::Foreign { what: "a schema version", value })
}

async fn writer(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    let pool =
        SqlitePoolOptions::new().max_connections(1).min_connections(1).max_lifetime(None).idle_timeout(None);
    pool.test_before_acquire(false).connect_with(options).await
}
