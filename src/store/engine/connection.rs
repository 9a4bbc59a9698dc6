//! A connection of either engine, and its slot: one connection with one user at a time.
//!
//! The pool of sqlx tests each connection when it is returned and drives transactions by messages that wait
//! for each other. Round trips to the connection's thread dominate the cost of a small statement. With the
//! pool, a transaction of one statement took twice the time and a read three times (`docs/performance.md`).

use super::error::{commit_unknown, is_connection_lost, is_read_only, was_never_run};
use super::leader::Fence;
use super::postgres;
use super::postgres_database::PostgresConnector;
use super::values::{SqlRow, SqlValues};
use crate::store::Durability;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqlSafeStr};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

/// Time for which a statement waits for another program's write transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(in crate::store) enum Connection {
    Sqlite(SqliteConnection),
    Postgres(ServerConnection),
}

#[derive(Debug)]
pub(in crate::store) struct ServerConnection {
    pub(super) connection: PgConnection,
    /// True if the server is away or ended the connection. It serves no other statement then.
    is_lost: bool,
}

impl ServerConnection {
    /// Notes a lost connection after a statement, and marks the error if the statement may have committed.
    fn note_loss<T>(&mut self, statement: &str, result: sqlx::Result<T>) -> sqlx::Result<T> {
        result.map_err(|error| {
            let is_lost = is_connection_lost(&error);
            // A primary that became a standby keeps the connections of readers.
            self.is_lost |= is_lost || is_read_only(&error);
            let may_be_made = is_lost && statement.ends_with("COMMIT") && !was_never_run(&error);
            if may_be_made { commit_unknown(error) } else { error }
        })
    }
}

impl Connection {
    pub(super) fn postgres(connection: PgConnection) -> Self {
        Self::Postgres(ServerConnection { connection, is_lost: false })
    }

    /// Runs a text and returns the rows of all its statements.
    pub(in crate::store) async fn rows<R: SqlRow>(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
    ) -> sqlx::Result<Vec<R>> {
        match self {
            Self::Sqlite(connection) => {
                sqlx::query_as_with(sql, values.into_sqlite()?).fetch_all(connection).await
            }
            Self::Postgres(server) => {
                let mut rows = Vec::new();
                for statement in postgres::statements(sql.into_sql_str().as_str()).iter() {
                    let values = values.to_postgres(&statement.values)?;
                    let query = sqlx::query_as_with(AssertSqlSafe(Arc::clone(&statement.text)), values);
                    let found = query.fetch_all(&mut server.connection).await;
                    rows.extend(server.note_loss(&statement.text, found)?);
                }
                Ok(rows)
            }
        }
    }

    /// Runs a text and returns the first row of its statements.
    pub(super) async fn first_row<R: SqlRow>(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
    ) -> sqlx::Result<Option<R>> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs a text and returns the number of rows that its statements changed.
    pub(super) async fn change(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
    ) -> sqlx::Result<u64> {
        match self {
            Self::Sqlite(connection) => {
                let query = sqlx::query_with(sql, values.into_sqlite()?);
                Ok(query.execute(connection).await?.rows_affected())
            }
            Self::Postgres(server) => {
                let mut changed = 0;
                for statement in postgres::statements(sql.into_sql_str().as_str()).iter() {
                    let values = values.to_postgres(&statement.values)?;
                    let query = sqlx::query_with(AssertSqlSafe(Arc::clone(&statement.text)), values);
                    let done = query.execute(&mut server.connection).await;
                    changed += server.note_loss(&statement.text, done)?.rows_affected();
                }
                Ok(changed)
            }
        }
    }

    /// Runs a text without values as it is. It is not kept prepared.
    pub(super) async fn run(&mut self, sql: impl SqlSafeStr) -> sqlx::Result<()> {
        let sql = sql.into_sql_str();
        match self {
            Self::Sqlite(connection) => sqlx::raw_sql(sql).execute(connection).await.map(drop),
            Self::Postgres(server) => {
                let done = sqlx::raw_sql(sql.clone()).execute(&mut server.connection).await;
                server.note_loss(sql.as_str(), done).map(drop)
            }
        }
    }

    /// Begins a write transaction. It waits for other writers, so each of its statements sees all that was
    /// committed before. On a server, a daemon's transaction begins only while it leads.
    async fn begin_write(&mut self, durability: Durability, fence: &Fence) -> sqlx::Result<()> {
        // The texts are not kept prepared: SQLite applies a pragma when it is prepared, and a server takes both
        // statements in one message.
        let begin = match (&self, durability) {
            (Self::Sqlite(_), Durability::Full) => {
                return self.run("PRAGMA synchronous = FULL; BEGIN IMMEDIATE").await;
            }
            (Self::Sqlite(_), Durability::Normal) => {
                return self.run("PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE").await;
            }
            (Self::Postgres(_), _) => "BEGIN; SELECT position FROM journal_sequence",
        };
        let leads = fence.session_id().map(|id| format!(" WHERE session_id = {id}")).unwrap_or_default();
        let found = self.message(AssertSqlSafe(format!("{begin}{leads} FOR UPDATE"))).await?;
        fence.check(found)
    }

    /// Sends a text without values to a server in one message and returns the first number of its rows.
    async fn message(&mut self, sql: impl SqlSafeStr) -> sqlx::Result<Option<i64>> {
        let Self::Postgres(server) = self else { return self.run(sql).await.map(|()| None) };
        let sql = sql.into_sql_str();
        let rows = sqlx::raw_sql(sql.clone()).fetch_all(&mut server.connection).await;
        let rows = server.note_loss(sql.as_str(), rows)?;
        rows.first().map(|row| sqlx::Row::try_get(row, 0)).transpose()
    }

    /// Commits, and returns the position of the journal; of a file only if `notes_position`.
    async fn commit(&mut self, notes_position: bool) -> sqlx::Result<Option<i64>> {
        const POSITION: &str = "SELECT position FROM journal_sequence; COMMIT";
        match self {
            Self::Postgres(_) => self.message(POSITION).await,
            Self::Sqlite(_) if notes_position => {
                let rows: Vec<(i64,)> = self.rows(POSITION, ()).await?;
                Ok(rows.first().map(|(position,)| *position))
            }
            Self::Sqlite(_) => self.rows::<(i64,)>("COMMIT", ()).await.map(|_| None),
        }
    }

    /// Marks a connection whose answer is not waited for; it serves no other statement.
    pub(super) fn give_up(&mut self) {
        if let Self::Postgres(server) = self {
            server.is_lost = true;
        }
    }

    pub(super) async fn close(self) -> sqlx::Result<()> {
        match self {
            Self::Sqlite(connection) => connection.close().await,
            Self::Postgres(server) => server.connection.close().await,
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Postgres(ServerConnection { is_lost: true, .. }))
    }
}

/// The database that a slot connects to. It has no `Debug`, because the options hold a password.
#[derive(Clone)]
pub(super) enum ConnectTo {
    Sqlite(SqliteConnectOptions),
    Postgres(PostgresConnector),
}

/// Hook called at each commit; `false` rolls back.
pub(crate) type CommitHook = Arc<dyn Fn() -> bool + Send + Sync>;

/// Options for opening a database; the defaults are the daemon's.
#[derive(Clone)]
pub struct StoreOptions {
    /// Time for which a statement waits for another program's write transaction.
    pub busy_timeout: Duration,
    /// Hook called at each commit, with which a test ends the process there.
    pub commit_hook: Option<CommitHook>,
    /// True if all statements share one connection. With several, their threads decide the order of events,
    /// and a simulation's seed does not.
    pub is_single: bool,
    /// True if a start waits without limit while the database is locked, the disk is full, or another host leads.
    pub waits_to_start: bool,
    /// True if time is that of this host: its clock must agree with the server's, and a standby listens for the end
    /// of the leader. A simulation has a time of its own.
    pub is_real_time: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            busy_timeout: BUSY_TIMEOUT,
            commit_hook: None,
            is_single: false,
            waits_to_start: false,
            is_real_time: false,
        }
    }
}

/// Slot of a connection; clones share it.
#[derive(Clone)]
pub(super) struct ConnectionSlot {
    to: ConnectTo,
    commit_hook: Option<CommitHook>,
    /// True if a task that acquires the connection yields to the other tasks first. Otherwise the order of
    /// those tasks and the answer of the connection's thread is random.
    yields_first: bool,
    state: Arc<Mutex<SlotState>>,
}

#[derive(Debug)]
pub(in crate::store) enum SlotState {
    Unopened,
    Open(Connection),
    Closed,
}

pub(super) type ConnectionGuard = OwnedMappedMutexGuard<SlotState, Connection>;

impl ConnectionSlot {
    pub(super) fn new(to: ConnectTo, opening: &StoreOptions) -> Self {
        let (commit_hook, yields_first) = (opening.commit_hook.clone(), opening.is_single);
        Self { to, commit_hook, yields_first, state: Arc::new(Mutex::new(SlotState::Unopened)) }
    }

    /// Waits until the connection is free and acquires it, in the order of the requests.
    pub(super) async fn acquire(&self) -> Result<ConnectionGuard, sqlx::Error> {
        self.open_locked(self.lock_slot().await).await
    }

    /// Waits for the slot only, for a caller that waits for another slot as well.
    pub(super) async fn lock_slot(&self) -> OwnedMutexGuard<SlotState> {
        Arc::clone(&self.state).lock_owned().await
    }

    /// Turns a locked slot into its connection, which is opened on first use.
    pub(super) async fn open_locked(
        &self,
        mut held: OwnedMutexGuard<SlotState>,
    ) -> Result<ConnectionGuard, sqlx::Error> {
        let must_connect = match &*held {
            SlotState::Unopened => true,
            SlotState::Open(connection) => connection.is_lost(),
            SlotState::Closed => false,
        };
        if must_connect {
            *held = SlotState::Open(self.connect().await?);
        }
        if self.yields_first {
            tokio::task::yield_now().await;
        }
        let open = OwnedMutexGuard::try_map(held, |held| match held {
            SlotState::Open(connection) => Some(connection),
            SlotState::Unopened | SlotState::Closed => None,
        });
        open.map_err(|_| sqlx::Error::PoolClosed)
    }

    async fn connect(&self) -> Result<Connection, sqlx::Error> {
        let mut connection = match &self.to {
            ConnectTo::Sqlite(options) => options.connect().await?,
            ConnectTo::Postgres(connector) => return connector.connect().await.map(Connection::postgres),
        };
        if let Some(hook) = self.commit_hook.clone() {
            connection.lock_handle().await?.set_commit_hook(move || hook());
        }
        Ok(Connection::Sqlite(connection))
    }

    pub(super) fn is_free(&self) -> bool {
        self.state.try_lock().is_ok()
    }

    /// Waits for the current user and closes the slot for good.
    pub(super) async fn close(&self) {
        let before = std::mem::replace(&mut *self.state.lock().await, SlotState::Closed);
        if let SlotState::Open(connection) = before {
            // The connection is gone even if SQLite reports an error.
            drop(connection.close().await);
        }
    }
}

/// Connection in a write transaction. If dropped, it rolls back before the connection becomes free.
#[derive(Debug)]
pub(in crate::store) struct TransactionGuard(Option<ConnectionGuard>);

impl TransactionGuard {
    pub(super) async fn begin(
        connection: ConnectionGuard,
        durability: Durability,
        fence: &Fence,
    ) -> sqlx::Result<Self> {
        // Constructed before the statement, so that cancellation rolls back too.
        let mut transaction = Self(Some(connection));
        transaction.begin_write(durability, fence).await?;
        Ok(transaction)
    }

    pub(super) async fn commit(mut self, notes_position: bool) -> sqlx::Result<Option<i64>> {
        let position = Connection::commit(&mut self, notes_position).await?;
        self.0 = None;
        Ok(position)
    }
}

impl Deref for TransactionGuard {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0.as_ref().expect("the connection is present until the commit")
    }
}

impl DerefMut for TransactionGuard {
    fn deref_mut(&mut self) -> &mut Connection {
        self.0.as_mut().expect("the connection is present until the commit")
    }
}

impl Drop for TransactionGuard {
    fn drop(&mut self) {
        let Some(mut connection) = self.0.take() else { return };
        tokio::spawn(async move {
            // It fails where SQLite ended the transaction itself, as on a full or failing disk.
            drop(connection.run("ROLLBACK").await);
        });
    }
}

impl fmt::Debug for ConnectionSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSlot").finish_non_exhaustive()
    }
}
