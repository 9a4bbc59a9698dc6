//! Check of a PostgreSQL server: what the daemon needs of it and a statement would not show.

use super::connection::Connection;
use super::error::SqlContext;
use super::location::DatabaseLocation;
use super::postgres_database::{Access, PostgresDatabase};
use super::watch;
use crate::model::{Clock, Timestamp};
use crate::store::{Result, StoreError};
use sqlx::ConnectOptions as _;
use std::time::Duration;
use tokio::time::timeout;

/// Oldest version whose SQL has all that the schema uses (`migrations/postgres`).
const OLDEST_VERSION: i64 = 140_000;

/// Time within which a notification of the server arrives.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Properties of a usable server.
#[derive(Clone, Debug)]
pub struct ServerReport {
    /// Version of the server.
    pub version: String,
    /// Difference of the server's clock from this host's.
    pub clock_difference: Duration,
    /// True if a notification arrived, so that changes of other programs are noticed at once.
    pub is_notifying: bool,
}

impl DatabaseLocation {
    /// Checks the server as the daemon's start does, and its clock and notifications; `None` for a file.
    ///
    /// # Errors
    /// Fails with [`StoreError::UnusableServer`] if the daemon cannot work with the server.
    pub async fn check_server(&self, clock: &dyn Clock) -> Result<Option<ServerReport>> {
        let Some(server) = self.server() else { return Ok(None) };
        let version = refuse_unusable(self, server).await?;
        let mut connection = connect(self, server).await?;
        let (before, sql) =
            (clock.now(), "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)");
        let read = connection.first_row(sql, ()).await.opening(self)?;
        let read = read.map_or(before, |(now_ms,): (i64,)| Timestamp(now_ms));
        let here = Timestamp(before.0.midpoint(clock.now().0));
        let is_notifying = is_notified(&mut connection, server).await;
        // Nothing was written.
        drop(connection.close().await);
        let clock_difference = Duration::from_millis((read.0 - here.0).unsigned_abs());
        Ok(Some(ServerReport { version, clock_difference, is_notifying }))
    }
}

/// Refuses a server with which the daemon cannot work, and returns its version.
pub(super) async fn refuse_unusable(
    location: &DatabaseLocation,
    server: &PostgresDatabase,
) -> Result<String> {
    let refused = |reason: String| StoreError::UnusableServer { database: location.clone(), reason };
    let [mut one, mut other] = [connect(location, server).await?, connect(location, server).await?];
    let sql = "SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('server_version'), \
               current_setting('server_encoding')";
    let found: Option<(i64, String, String)> = one.first_row(sql, ()).await.opening(location)?;
    let (number, version, encoding) = found.unwrap_or_default();
    if number < OLDEST_VERSION {
        return Err(refused(format!(
            "the server is PostgreSQL {version}, and tallyd needs 14 or later: upgrade it"
        )));
    }
    if encoding != "UTF8" {
        return Err(refused(format!(
            "the database has the encoding {encoding}, and SKUs may hold any character: create a database with \
             `createdb --encoding=UTF8 --template=template0`"
        )));
    }
    if !have_own_sessions(&mut one, &mut other).await.opening(location)? {
        return Err(refused(
            "a connection pooler between tallyd and the server gives each transaction another session, which \
             breaks notifications and settings of a session: connect to the server itself, or use pool_mode = session"
                .into(),
        ));
    }
    if let Some(reason) = missing_right(&mut one, server).await.opening(location)? {
        return Err(refused(reason));
    }
    for connection in [one, other] {
        // Nothing was written.
        drop(connection.close().await);
    }
    Ok(version)
}

async fn connect(location: &DatabaseLocation, server: &PostgresDatabase) -> Result<Connection> {
    let options = server.connect_options(Access::Read).opening(location)?;
    options.connect().await.map(Connection::postgres).opening(location)
}

/// Returns false if a pooler lends the same session of the server to both connections, or changes it.
async fn have_own_sessions(one: &mut Connection, other: &mut Connection) -> sqlx::Result<bool> {
    const SESSION: &str = "SELECT CAST(pg_backend_pid() AS BIGINT)";
    let first: Option<(i64,)> = one.first_row(SESSION, ()).await?;
    // A pooler that lends sessions for transactions gives this one the session just freed.
    other.run("BEGIN").await?;
    let second: Option<(i64,)> = other.first_row(SESSION, ()).await?;
    let again: Option<(i64,)> = one.first_row(SESSION, ()).await?;
    other.run("ROLLBACK").await?;
    Ok(first == again && first != second)
}

/// Returns the right that the user lacks, with the remedy.
async fn missing_right(
    connection: &mut Connection,
    server: &PostgresDatabase,
) -> sqlx::Result<Option<String>> {
    let sql = "SELECT CAST(current_user AS TEXT), CAST(current_database() AS TEXT), \
                      has_database_privilege(current_database(), 'CREATE'), \
                      (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = $1)";
    let found: Option<(String, String, bool, Option<bool>)> =
        connection.first_row(sql, (server.schema(),)).await?;
    let Some((user, database, may_create, is_owner)) = found else { return Ok(None) };
    let schema = server.schema();
    Ok(match (is_owner, may_create) {
        (Some(true), _) | (None, true) => None,
        (Some(false), _) => Some(format!(
            "the role {user} does not own the schema {schema}, which the daemon creates and migrates: run \
             `ALTER SCHEMA {schema} OWNER TO {user}` as its owner"
        )),
        (None, false) => Some(format!(
            "there is no schema {schema} and the role {user} may not create one: run `CREATE SCHEMA {schema} \
             AUTHORIZATION {user}` in the database {database} as its owner"
        )),
    })
}

async fn is_notified(connection: &mut Connection, server: &PostgresDatabase) -> bool {
    let Ok(mut listener) = watch::listen(server).await else { return false };
    let sql = "SELECT pg_notify($1, $2) IS NULL";
    let sent: sqlx::Result<Option<(bool,)>> =
        connection.first_row(sql, (watch::CHANNEL, server.schema())).await;
    sent.is_ok() && matches!(timeout(NOTIFICATION_TIMEOUT, listener.recv()).await, Ok(Ok(_)))
}
