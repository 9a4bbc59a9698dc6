//! Opening and closing of the database.

use super::connection::{BUSY_TIMEOUT, ConnectTo, Connection, ConnectionGuard, ConnectionSlot, StoreOptions};
use super::error::SqlContext;
use super::files::{create_for_group, parent_folder, resolve_path};
use super::leader::Fence;
use super::location::DatabaseLocation;
use super::position_file::PositionFile;
use super::postgres_database::{Access, PostgresDatabase};
use super::{migrations, server_check};
use crate::model::Decider;
use crate::store::{DatabaseLock, Durability, FileId, Result, StoreError};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Page cache of each connection, in KiB. SQLite's 2 MiB do not hold a backlog's working set, which would
/// then be freed and read again in every transaction.
const CACHE_KIB: i64 = 16 * 1024;

/// Page cache of each connection beside the holder of the lock, in KiB. Such a program reads pages of rows, and the page
/// in a browser is served by a process that runs for months.
const CACHE_BESIDE_KIB: i64 = 4 * 1024;

/// Growth of the write-ahead log after which a checkpoint runs, in pages of 4 KiB. SQLite's 1000 pages would
/// copy a page of an index several times in a load and sync four times as often.
const CHECKPOINT_PAGES: &str = "4000";

/// Size in bytes to which the write-ahead log is cut when it restarts: twice the growth between two
/// checkpoints. A reader with an old snapshot lets it grow without limit, and SQLite would keep that size.
const LOG_MAX_BYTES: &str = "33554432";

#[derive(Clone, Debug)]
pub struct Store {
    pub(super) writer: ConnectionSlot,
    /// Connections for reads. Each holds the schema, its statements and a thread, about 400 KiB, also while
    /// idle. A read takes a few milliseconds, so a third connection would rarely be used.
    readers: [ConnectionSlot; 2],
    location: DatabaseLocation,
    /// Position file; `None` unless this process holds the lock.
    pub(super) position_file: Option<Arc<PositionFile>>,
    pub(super) fence: Arc<Fence>,
    /// Paths of the database and of its lock, each with the identity of the file when it was opened.
    opened_files: Vec<(PathBuf, FileId)>,
    /// Person who decides with this handle; `None`: the daemon.
    pub(super) decider: Option<Arc<str>>,
}

impl Store {
    /// Opens the database as the holder of the lock: creates a missing one and migrates the schema.
    ///
    /// Fails with [`StoreError::Led`] if a daemon of any host leads the schema of a server.
    pub async fn open(location: impl Into<DatabaseLocation>, lock: &DatabaseLock) -> Result<Self> {
        let store = Self::open_to_lead(location, lock, StoreOptions::default()).await?;
        store.refuse_led(lock).await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Opens the database as [`Store::open`] does, with options, but migrates the schema of a server only if no version of
    /// tallyd can lead it yet. The daemon that leads migrates it ([`Store::migrate`]).
    pub async fn open_to_lead(
        location: impl Into<DatabaseLocation>,
        lock: &DatabaseLock,
        opening: StoreOptions,
    ) -> Result<Self> {
        let location = location.into();
        let mut store = match location.server() {
            Some(server) => Self::open_server(&location, server, &opening).await?,
            None => Self::open_file(&location, lock, &opening).await?,
        };
        let held =
            lock.opened_file().map_err(|error| StoreError::of_opening(store.location())(error.into()))?;
        store.opened_files.push(held);
        // By the file that the path leads to, like the lock.
        store.position_file = Some(Arc::new(PositionFile::for_database(&resolve_path(store.path()))));
        store.refuse_moved().await?;
        if !store.can_be_led().await? {
            store.migrate().await?;
        }
        Ok(store)
    }

    /// Returns true if the schema of a server knows leaders.
    async fn can_be_led(&self) -> Result<bool> {
        let mut writer = self.writer.acquire().await.opening(&self.location)?;
        let Connection::Postgres(_) = *writer else { return Ok(false) };
        let sql = "SELECT to_regclass('leadership') IS NOT NULL";
        let is_led = writer.first_row(sql, ()).await.opening(&self.location)? == Some((true,));
        if is_led {
            migrations::check_applied(&mut writer, &self.location).await?;
        }
        Ok(is_led)
    }

    async fn open_file(
        location: &DatabaseLocation,
        lock: &DatabaseLock,
        opening: &StoreOptions,
    ) -> Result<Self> {
        let path = resolve_path(location.path());
        let failed = StoreError::of_opening(location);
        create_for_group(&path).map_err(|error| failed(error.into()))?;
        let options = connect_options(&path, true).busy_timeout(opening.busy_timeout);
        let mut store = Self::connect_file(path, options, opening).await?;
        let opened = FileId::from_path(store.path()).map_err(|error| failed(error.into()))?;
        if let Some(opened) = opened {
            lock.write_file_id(opened).map_err(|error| failed(error.into()))?;
        }
        store.opened_files.extend(opened.map(|opened| (location.path().to_owned(), opened)));
        Ok(store)
    }

    async fn open_server(
        location: &DatabaseLocation,
        server: &PostgresDatabase,
        opening: &StoreOptions,
    ) -> Result<Self> {
        server_check::refuse_unusable(location, server).await?;
        let store = Self::connect_server(location, server, opening).await?;
        let mut writer = store.writer.acquire().await.opening(location)?;
        let sql = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
        let found: Option<(bool,)> = writer.first_row(sql, (server.schema(),)).await.opening(location)?;
        // An existing schema needs no right to create one.
        if found != Some((true,)) {
            writer.change(server.create_schema(), ()).await.context("create the schema of the database")?;
        }
        drop(writer);
        Ok(store)
    }

    /// Fails with [`StoreError::FileReplaced`] if a path names another file than the opened one: later writes would
    /// be lost, or another process would hold the lock too. A path that cannot be read is no error.
    pub fn check_in_place(&self) -> Result<()> {
        for (path, opened) in &self.opened_files {
            let how = match FileId::from_path(path) {
                Ok(Some(now)) if now == *opened => continue,
                Ok(Some(_)) => "replaced by another file",
                Ok(None) => "removed",
                Err(_) => continue,
            };
            return Err(StoreError::FileReplaced { path: path.clone(), file_change: how });
        }
        Ok(())
    }

    /// Opens the database beside a lock holder, to read and insert, without migrations and checkpoints.
    pub async fn open_beside(location: impl Into<DatabaseLocation>) -> Result<Self> {
        let (location, opening) = (location.into(), StoreOptions::default());
        let mut store = match location.server() {
            Some(server) => {
                server_check::refuse_pooler(&location, server).await?;
                Self::connect_server(&location, server, &opening).await?
            }
            None if location.is_missing_file() => return Err(StoreError::Missing { database: location }),
            None => {
                let path = resolve_path(location.path());
                let options = connect_options(&path, false);
                Self::connect_file(path, options, &opening).await?
            }
        };
        migrations::check_schema(&mut *store.read_connection().await?, store.location()).await?;
        if store.location().server().is_none() {
            let opened =
                FileId::from_path(store.path()).map_err(StoreError::of_file("open", store.path()))?;
            store.opened_files.extend(opened.map(|opened| (location.path().to_owned(), opened)));
        }
        Ok(store)
    }

    /// Creates an empty mirror in a new file, as the target of a replay. It needs no lock, because no other
    /// program knows the file. It holds no exchanges, so foreign keys are not checked.
    pub async fn create_unlocked(path: &Path) -> Result<Self> {
        std::fs::File::create_new(path).map_err(StoreError::of_file("create the new file", path))?;
        let store = Self::open_unlocked(path).await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Opens a mirror of [`Store::create_unlocked`] again, to continue the replay.
    pub async fn open_unlocked(path: &Path) -> Result<Self> {
        let options = connect_options(path, true).foreign_keys(false);
        Self::connect_file(path.to_owned(), options, &StoreOptions::default()).await
    }

    async fn connect_file(
        path: PathBuf,
        options: SqliteConnectOptions,
        opening: &StoreOptions,
    ) -> Result<Self> {
        let to_read = options.clone().read_only(true).create_if_missing(false);
        let (to_write, to_read) = (ConnectTo::Sqlite(options), ConnectTo::Sqlite(to_read));
        Self::connect(path.into(), to_write, to_read, opening).await
    }

    async fn connect_server(
        location: &DatabaseLocation,
        server: &PostgresDatabase,
        opening: &StoreOptions,
    ) -> Result<Self> {
        let to = |access| {
            let connector = server.connector(access).opening(location)?;
            Ok::<_, StoreError>(ConnectTo::Postgres(connector.with_lock_timeout(opening.busy_timeout)))
        };
        Self::connect(location.clone(), to(Access::Write)?, to(Access::Read)?, opening).await
    }

    async fn connect(
        location: DatabaseLocation,
        to_write: ConnectTo,
        to_read: ConnectTo,
        opening: &StoreOptions,
    ) -> Result<Self> {
        let writer = ConnectionSlot::new(to_write, opening);
        writer.acquire().await.map(drop).opening(&location)?;
        let reader = || match opening.is_single {
            true => writer.clone(),
            false => ConnectionSlot::new(to_read.clone(), &StoreOptions::default()),
        };
        let readers = [reader(), reader()];
        let fence = Arc::default();
        Ok(Self {
            readers,
            writer,
            location,
            position_file: None,
            fence,
            opened_files: Vec::new(),
            decider: None,
        })
    }

    /// Returns a handle whose events and inserted changes name this person.
    #[must_use]
    pub(crate) fn decided_by(mut self, decider: &Decider) -> Self {
        self.decider = Some(decider.to_string().into());
        self
    }

    /// Returns the location of the database.
    pub fn location(&self) -> &DatabaseLocation {
        &self.location
    }

    /// Returns the path of the database file, or [`DatabaseLocation::path`] of a server's database.
    pub fn path(&self) -> &Path {
        self.location.path()
    }

    /// Returns true if no connection is in use; only then may a manually driven clock move.
    pub fn is_idle(&self) -> bool {
        self.readers.iter().chain([&self.writer]).all(ConnectionSlot::is_free)
    }

    /// Returns true if another program's write transaction stays open while a statement waits for it.
    pub(crate) async fn is_locked(&self) -> Result<bool> {
        match self.begin_write(Durability::Normal).await {
            Ok(_) => Ok(false),
            Err(error) if error.is_busy() => Ok(true),
            Err(error) => Err(error),
        }
    }

    pub(in crate::store) async fn read_connection(&self) -> Result<ConnectionGuard> {
        let [one, other] = &self.readers;
        let taken = tokio::select! {
            biased;
            held = one.lock_slot() => one.open_locked(held).await,
            held = other.lock_slot() => other.open_locked(held).await,
        };
        taken.context("open the database to read")
    }

    /// Returns the free bytes of the disk with the database file. With a server these are the files of this host.
    pub(crate) fn free_disk_bytes(&self) -> Result<u64> {
        let failed = StoreError::of_file("read the free disk space for", self.path());
        let disk = rustix::fs::statvfs(parent_folder(self.path())).map_err(|error| failed(error.into()))?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Fails if the disk has less than `floor_bytes` free. A server reports its full disk itself.
    pub(crate) fn check_free_space(&self, floor_bytes: u64) -> Result<()> {
        if self.location.server().is_some() {
            return Ok(());
        }
        let free = self.free_disk_bytes()?;
        if free >= floor_bytes {
            return Ok(());
        }
        const MIB: u64 = 1024 * 1024;
        Err(StoreError::LowDiskSpace {
            path: self.path().to_owned(),
            free_mib: free / MIB,
            floor_mib: floor_bytes.div_ceil(MIB),
        })
    }

    /// Returns the path of the position file if it belongs to another user than the database.
    pub(crate) fn foreign_position_file(&self) -> Option<PathBuf> {
        let file = PositionFile::for_database(&resolve_path(self.path()));
        (self.location.server().is_none() && file.is_foreign()).then(|| file.path().to_owned())
    }

    /// Runs a checkpoint and closes the database; the holder's last operation.
    pub async fn close(self) -> Result<()> {
        for reader in &self.readers {
            reader.close().await;
        }
        let Ok(mut writer) = self.writer.acquire().await else {
            // A simulation has one connection, which is closed already; SQLite ran the checkpoint then.
            return Ok(());
        };
        let checkpoint = match *writer {
            Connection::Sqlite(_) => writer.run("PRAGMA wal_checkpoint(TRUNCATE)").await,
            Connection::Postgres(_) => Ok(()),
        };
        drop(writer);
        self.writer.close().await;
        checkpoint.context("run a checkpoint")
    }
}

/// Returns the options of every connection; only the lock's holder creates the file and runs checkpoints.
fn connect_options(path: &Path, holder: bool) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(holder)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .pragma("cache_size", format!("-{}", if holder { CACHE_KIB } else { CACHE_BESIDE_KIB }))
        .pragma("wal_autocheckpoint", if holder { CHECKPOINT_PAGES } else { "0" })
        .pragma("journal_size_limit", LOG_MAX_BYTES)
        .log_statements(tracing::log::LevelFilter::Trace)
        .log_slow_statements(tracing::log::LevelFilter::Warn, Duration::from_secs(1))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::Position;

    pub(in crate::store::engine) async fn open_new() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        let lock = DatabaseLock::acquire(&path).unwrap();
        (dir, Store::open(&path, &lock).await.unwrap())
    }

    async fn pragma(connection: &mut Connection, name: &'static str) -> i64 {
        let (value,) = connection.first_row(name, ()).await.unwrap().unwrap();
        value
    }

    /// Writes more pages than the test's limit allows.
    async fn fill(store: &Store) -> Result<()> {
        let mut write = store.begin_write(Durability::Full).await?;
        let big = "INSERT INTO parked VALUES (1, 1, NULL, 'x', hex(zeroblob(100000)))";
        write.tx.run(big).await.context("fill the disk")?;
        write.commit().await
    }

    #[tokio::test]
    async fn claims_are_synced_and_facts_are_not() {
        let (_dir, store) = open_new().await;
        for (durability, level) in [(Durability::Full, 2), (Durability::Normal, 1), (Durability::Full, 2)] {
            let mut write = store.begin_write(durability).await.unwrap();
            assert_eq!(pragma(&mut write.tx, "PRAGMA synchronous").await, level, "{durability:?}");
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_named_leaves_nothing_half_written_and_work_goes_on_once_there_is_room() {
        let (_dir, store) = open_new().await;
        let mut writer = store.writer.acquire().await.unwrap();
        writer.run("PRAGMA foreign_keys = 0").await.unwrap();
        let pages = pragma(&mut writer, "PRAGMA page_count").await;
        let limit = format!("PRAGMA max_page_count = {}", pages + 5);
        writer.change(sqlx::AssertSqlSafe(limit), ()).await.unwrap();
        drop(writer);
        let error = fill(&store).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(error.to_string().contains("the disk is full: free space"), "{error}");
        let parked = pragma(&mut store.read_connection().await.unwrap(), "SELECT count(*) FROM parked").await;
        assert_eq!(parked, 0);
        let limit = "PRAGMA max_page_count = 100000";
        store.writer.acquire().await.unwrap().run(limit).await.unwrap();
        let mut write = store.begin_write(Durability::Full).await.unwrap();
        write.tx.run("UPDATE journal_sequence SET position = 7").await.unwrap();
        write.commit().await.unwrap();
        assert_eq!(store.journal_position().await.unwrap(), Position(7));
    }

    #[tokio::test]
    async fn a_read_only_database_is_named() {
        let (_dir, store) = open_new().await;
        store.writer.acquire().await.unwrap().run("PRAGMA query_only = 1").await.unwrap();
        let error = fill(&store).await.unwrap_err();
        assert!(error.to_string().contains("read-only: give the user tallyd write permission"), "{error}");
    }

    #[tokio::test]
    async fn the_log_shrinks_after_the_end_of_an_old_snapshot() {
        let (_dir, store) = open_new().await;
        let size = || std::fs::metadata(store.path().with_file_name("t.db-wal")).unwrap().len();
        let most: u64 = LOG_MAX_BYTES.parse().unwrap();
        let mut reader = super::super::reader::open_reader(store.location()).await.unwrap();
        reader.run("BEGIN; SELECT * FROM journal_sequence").await.unwrap();
        let mut number = 0;
        let mut fill = async || {
            let mut write = store.begin_write(Durability::Normal).await.unwrap();
            let sql = "INSERT INTO body (digest, size, packed) VALUES ($1, 1, zeroblob(8000000))";
            number += 1;
            write.execute(sql, (format!("{number:016}").into_bytes(),), "fill the log").await.unwrap();
            write.commit().await.unwrap();
        };
        while size() < 2 * most {
            fill().await;
        }
        reader.run("COMMIT").await.unwrap();
        // The first commit runs the checkpoint, the second restarts the log.
        fill().await;
        fill().await;
        assert!(size() <= most, "the log has {} bytes", size());
    }

    #[tokio::test]
    async fn a_closed_database_gives_no_connection() {
        let (_dir, store) = open_new().await;
        let other = store.clone();
        store.close().await.unwrap();
        assert!(other.begin_write(Durability::Full).await.is_err());
        assert!(other.journal_position().await.is_err());
    }
}
