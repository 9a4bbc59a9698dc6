//! The migrations of the mirror, and the refusal of a database that others made.

use super::connection::Connection;
use super::error::SqlContext;
use super::files::with_suffix;
use super::leadership::LeaderRow;
use super::location::DatabaseLocation;
use super::postgres;
use crate::store::{Result, Store, StoreError};
use sqlx::ConnectOptions as _;
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use std::path::Path;
use std::time::Duration;

pub(super) static MIGRATIONS: Migrator = sqlx_macros::migrate!("migrations/mirror");

/// Refuses a database of other migrations before a connection may write to it.
///
/// Without a log beside it, the file is read as immutable, because that creates no files and takes no locks.
/// A file that cannot be read is left to the connection that opens it next; its error names the cause.
pub(super) async fn check_before_opening(path: &Path, busy: Duration) -> Result<()> {
    let is_empty = |path: &Path| std::fs::metadata(path).map_or(true, |file| file.len() == 0);
    if is_empty(path) {
        return Ok(());
    }
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(is_empty(&with_suffix(path, "-wal")))
        .busy_timeout(busy)
        .log_statements(tracing::log::LevelFilter::Trace);
    let Ok(connection) = options.connect().await else { return Ok(()) };
    let mut connection = Connection::Sqlite(connection);
    let checked = check_applied(&mut connection, &path.into()).await;
    // A failed close loses nothing, because nothing was written.
    drop(connection.close().await);
    checked.or_else(|error| match error {
        StoreError::OtherSchema { .. } => Err(error),
        _ => Ok(()),
    })
}

impl Store {
    /// Brings the schema up to date.
    pub async fn migrate(&self) -> Result<()> {
        let failed = |source| StoreError::Migrate { database: self.location().clone(), source };
        let mut writer = self.writer.acquire().await.map_err(|error| failed(error.into()))?;
        let migrations = of_engine(&writer);
        // `run` takes a connection or a pool by a trait with which the compiler cannot prove the future
        // `Send`.
        match &mut *writer {
            Connection::Sqlite(writer) => migrations.run_direct(None, writer, false).await.map_err(failed),
            Connection::Postgres(server) => {
                let server = &mut server.connection;
                let lock = "SELECT pg_advisory_lock(hashtextextended('tallyd ' || current_schema(), 0))";
                let unlock = "SELECT pg_advisory_unlock(hashtextextended('tallyd ' || current_schema(), 0))";
                let locked = sqlx::query(lock).execute(&mut *server).await;
                locked.map_err(|error| failed(error.into()))?;
                let migrated = migrations.run_direct(None, &mut *server, false).await;
                // If this fails, the connection is lost, and the lock with it.
                drop(sqlx::query(unlock).execute(server).await);
                migrated.map_err(failed)
            }
        }
    }
}

impl Store {
    /// Refuses to lead a server's schema that a newer version of tallyd made.
    ///
    /// # Errors
    /// [`StoreError::Refused`].
    pub(crate) fn refuse_newer_schema(&self, row: &LeaderRow) -> Result<()> {
        let known = postgres::MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
        match row.schema_version {
            Some(version) if version > known => {
                let reason = format!(
                    "a newer version of tallyd brought its schema to migration {version}, and this version knows {known}, so \
                     it does not lead. Install the newer version on this host too, then `sudo systemctl restart tallyd`"
                );
                Err(StoreError::unusable(self.location(), reason))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the migrations of the connection's engine.
fn of_engine(connection: &Connection) -> &'static Migrator {
    match connection {
        Connection::Sqlite(_) => &MIGRATIONS,
        Connection::Postgres(_) => &postgres::MIGRATIONS,
    }
}

/// Refuses a database whose schema is not exactly that of this program.
pub(super) async fn check_schema(read: &mut Connection, database: &DatabaseLocation) -> Result<()> {
    check_applied(read, database).await?;
    let newest = of_engine(read).iter().map(|m| m.version).max();
    let sql = "SELECT max(version) FROM _sqlx_migrations WHERE success";
    let applied: Option<(Option<i64>,)> = read.first_row(sql, ()).await.opening(database)?;
    let applied = applied.and_then(|(version,)| version);
    if applied == newest {
        return Ok(());
    }
    let value = format!("{applied:?}, this program works with {newest:?}; run the tallyd that matches it");
    Err(StoreError::UnknownValue("a schema version", value))
}

/// Fails if an applied migration has a version of this program and another content.
async fn check_applied(read: &mut Connection, database: &DatabaseLocation) -> Result<()> {
    if let Connection::Postgres(_) = read {
        let found = read.first_row("SELECT to_regclass('_sqlx_migrations') IS NOT NULL", ()).await;
        if found.opening(database)? != Some((true,)) {
            return Err(StoreError::Missing { database: database.clone() });
        }
    }
    let sql = "SELECT version, checksum FROM _sqlx_migrations ORDER BY version";
    let applied: Vec<(i64, Vec<u8>)> = read.rows(sql, ()).await.opening(database)?;
    for (version, checksum) in applied {
        if of_engine(read).iter().any(|m| m.version == version && *m.checksum != *checksum) {
            return Err(StoreError::OtherSchema { database: database.clone(), version });
        }
    }
    Ok(())
}
