//! Read-only connections that see the database as of one moment.

use super::connection::{BUSY_TIMEOUT, Connection};
use super::error::SqlContext;
use super::location::DatabaseLocation;
use super::migrations;
use super::server_check;
use crate::store::{Result, StoreError};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use std::time::Duration;

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
        None => {
            let options = SqliteConnectOptions::new()
                .filename(location.path())
                .read_only(true)
                .busy_timeout(BUSY_TIMEOUT)
                .log_statements(tracing::log::LevelFilter::Trace)
                .log_slow_statements(tracing::log::LevelFilter::Debug, Duration::from_secs(1));
            Connection::Sqlite(options.connect().await.opening(location)?)
        }
    };
    migrations::check_schema(&mut reader, location).await?;
    Ok(reader)
}
