//! Check of a PostgreSQL server: what the daemon needs of it and a statement would not show.

use super::connection::Connection;
use super::error::SqlContext;
use super::location::DatabaseLocation;
use super::postgres_database::{Access, PostgresDatabase, in_connect_time};
use super::watch;
use crate::model::{Clock, Timestamp, format_elapsed};
use crate::store::{Result, Store, StoreError};
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use std::time::Duration;
use tokio::time::timeout;

/// Oldest version whose SQL has all that the schema uses (`migrations/postgres`).
const OLDEST_VERSION: i64 = 140_000;

/// Difference of the clocks that does no harm.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// Difference of the clocks with which no daemon starts.
const CLOCK_LIMIT: Duration = Duration::from_secs(30);

/// Longest duration of a look or a notification; a server that is slower is one that does not answer.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct ServerReport {
    pub version: String,
    pub role: String,
    /// Warning about a difference of the clocks.
    pub clock_warning: Option<String>,
    /// True if a notification arrived, so that changes of other programs are noticed at once.
    pub is_notifying: bool,
}

impl DatabaseLocation {
    /// Checks the server as the daemon's start does, and its notifications; `None` for a file.
    ///
    /// Fails with [`StoreError::Refused`] if the daemon cannot work with the server.
    pub async fn check_server(&self, clock: &dyn Clock) -> Result<Option<ServerReport>> {
        let Some(server) = self.server() else { return Ok(None) };
        let (version, role) = refuse_unusable(self, server).await?;
        let mut connection = connect(self, server).await?;
        let clock_warning = compare_clocks(&mut connection, self, clock).await?;
        let is_notifying = is_notified(&mut connection, server).await;
        // Nothing was written.
        drop(connection.close().await);
        Ok(Some(ServerReport { version, role, clock_warning, is_notifying }))
    }
}

impl Store {
    /// Returns a warning if the clocks of the server and of this host differ by more than 2 s; `None` for a
    /// file. Fails with [`StoreError::Refused`] if they differ by more than 30 s.
    pub(crate) async fn check_clocks(&self, clock: &dyn Clock) -> Result<Option<String>> {
        if self.location().server().is_none() {
            return Ok(None);
        }
        // A standby needs this connection anyway, and no other.
        let mut writer = self.writer.acquire().await.opening(self.location())?;
        compare_clocks(&mut writer, self.location(), clock).await
    }
}

async fn compare_clocks(
    connection: &mut Connection,
    location: &DatabaseLocation,
    clock: &dyn Clock,
) -> Result<Option<String>> {
    let (before, sql) = (clock.now(), "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)");
    let read = connection.first_row(sql, ()).await.opening(location)?;
    let read = read.map_or(before, |(now_ms,): (i64,)| Timestamp(now_ms));
    let here = before.0.midpoint(clock.now().0);
    let difference = Duration::from_millis((read.0 - here).unsigned_abs());
    let warning = format!(
        "the clocks of the server and of this host differ by {}; set both by NTP, because a count is compared with \
         the time of a read",
        format_elapsed(difference)
    );
    if difference > CLOCK_LIMIT {
        let reason = format!("{warning}. Above {} s no daemon starts", CLOCK_LIMIT.as_secs());
        return Err(StoreError::unusable(location, reason));
    }
    Ok((difference > CLOCK_TOLERANCE).then_some(warning))
}

/// Refuses a server with which the daemon cannot work, and returns its version and the role.
pub(super) async fn refuse_unusable(
    location: &DatabaseLocation,
    server: &PostgresDatabase,
) -> Result<(String, String)> {
    refuse_pooler(location, server).await?;
    let refused = |reason: String| StoreError::unusable(location, reason);
    let mut connection = connect(location, server).await?;
    let sql = "SELECT CAST(current_setting('server_version_num') AS BIGINT), current_setting('server_version'), \
               current_setting('server_encoding'), pg_is_in_recovery(), CAST(current_user AS TEXT)";
    let found: Option<(i64, String, String, bool, String)> =
        connection.first_row(sql, ()).await.opening(location)?;
    let (number, version, encoding, is_standby, role) = found.unwrap_or_default();
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
    if is_standby {
        return Err(refused(
            "the server is a standby, which is read-only: let `database.url` name the primary, or promote this server"
                .into(),
        ));
    }
    // Nothing was written.
    drop(connection.close().await);
    Ok((version, role))
}

/// Refuses a pooler that lends sessions of the server for transactions.
///
/// It sends no setting and prepares no statement, because both would stay in a session of other programs.
pub(super) async fn refuse_pooler(location: &DatabaseLocation, server: &PostgresDatabase) -> Result<()> {
    let options = server.bare_options().opening(location)?;
    let mut one = in_connect_time(options.connect()).await.opening(location)?;
    let mut other = in_connect_time(options.connect()).await.opening(location)?;
    let (first, second) = (session_id(&mut one).await, session_id(&mut other).await);
    let (first, second) = (first.opening(location)?, second.opening(location)?);
    // A pooler lends the session freed last, or the one freed first.
    let again = (session_id(&mut other).await, session_id(&mut one).await);
    if first == second || (again.0.opening(location)?, again.1.opening(location)?) != (second, first) {
        let reason = "a connection pooler between tallyd and the server gives each transaction another session, which \
                      breaks notifications and settings of a session: connect to the server itself, or use \
                      pool_mode = session";
        return Err(StoreError::unusable(location, reason));
    }
    for connection in [one, other] {
        // Nothing was written.
        drop(connection.close().await);
    }
    Ok(())
}

pub(super) async fn connect(location: &DatabaseLocation, server: &PostgresDatabase) -> Result<Connection> {
    let connector = server.connector(Access::Read).opening(location)?;
    connector.connect().await.map(Connection::postgres).opening(location)
}

async fn session_id(connection: &mut PgConnection) -> sqlx::Result<i32> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

async fn is_notified(connection: &mut Connection, server: &PostgresDatabase) -> bool {
    let Ok(mut listener) = watch::listen(server).await else { return false };
    let sql = "SELECT pg_notify($1, $2) IS NULL";
    let sent: sqlx::Result<Option<(bool,)>> =
        connection.first_row(sql, (watch::CHANNEL, server.schema())).await;
    sent.is_ok() && matches!(timeout(LOOK_TIMEOUT, listener.recv()).await, Ok(Ok(_)))
}
