//! The sandbox's database: one connection, in memory or in a file, with its tables and the views of its
//! answers.
//!
//! One connection behind a lock, not a pool: an in-memory database lives and dies with its connection, and a
//! pool would close it when idle. Operations of one sandbox are so done one after the other, which is what
//! keeps a seed's run the same each time. A file is held exclusively, so that two sandboxes cannot share it.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};

use super::Error;

static TABLES: Migrator = sqlx::migrate!("migrations/sandbox");
/// All statements of the sandbox stay prepared.
const STATEMENTS: usize = 200;
/// A sandbox that has just ended may still be closing the file.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const VIEWS: &str = include_str!("wire.sql");

/// Opens the database, brings its tables up to date and makes the views.
pub(crate) async fn open(data: Option<&Path>) -> Result<SqliteConnection, Error> {
    let at = data.map_or_else(|| "in memory".to_owned(), |path| path.display().to_string());
    let open = |cause: sqlx::Error| Error::Open { at: at.clone(), cause };
    let mut connection = connect(data).await.map_err(open)?;
    TABLES.run(&mut connection).await.map_err(|cause| open(cause.into()))?;
    sqlx::raw_sql(VIEWS).execute(&mut connection).await.map_err(open)?;
    Ok(connection)
}

async fn connect(data: Option<&Path>) -> Result<SqliteConnection, sqlx::Error> {
    let options =
        SqliteConnectOptions::new().statement_cache_capacity(STATEMENTS).busy_timeout(LOCK_PATIENCE);
    let options = match data {
        None => options.in_memory(true),
        Some(path) => options
            .filename(path)
            .create_if_missing(true)
            .locking_mode(SqliteLockingMode::Exclusive)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal),
    };
    options.connect().await
}
