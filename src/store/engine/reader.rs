//! Connections beside those of a [`Store`](crate::store::Store): to read a state of the database, and to copies.

use super::connection::{BUSY_TIMEOUT, Connection};
use super::error::SqlContext;
use super::location::DatabaseLocation;
use super::{migrations, server_check};
use crate::store::{Result, StoreError};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use std::path::Path;
use std::time::Duration;
use tracing::log::LevelFilter;

/// Opens a read-only connection and begins a transaction that sees the present state.
pub(in crate::store) async fn open_snapshot(location: &DatabaseLocation) -> Result<Connection> {
    let mut reader = open_reader(location).await?;
    let begin = match reader {
        Connection::Sqlite(_) => "BEGIN",
        Connection::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
    };
    reader.run(begin).await.context("begin to read the journal")?;
    Ok(reader)
}

pub(super) async fn open_reader(location: &DatabaseLocation) -> Result<Connection> {
    let mut reader = match location.server() {
        Some(server) => {
            server_check::refuse_pooler(location, server).await?;
            server_check::connect(location, server).await?
        }
        None if location.is_missing_file() => {
            return Err(StoreError::Missing { database: location.clone() });
        }
        None => connect_file(location.path(), true).await?,
    };
    migrations::check_schema(&mut reader, location).await?;
    Ok(reader)
}

/// Connects to a database file as it is.
pub(super) async fn connect_file(path: &Path, read_only: bool) -> Result<Connection> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .read_only(read_only)
        .busy_timeout(BUSY_TIMEOUT)
        .log_statements(LevelFilter::Trace)
        .log_slow_statements(LevelFilter::Debug, Duration::from_secs(1));
    options.connect().await.map(Connection::Sqlite).opening(&path.into())
}
