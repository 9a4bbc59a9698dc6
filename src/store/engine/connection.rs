//! Connection slot: one connection with one user at a time.
//!
//! The pool of sqlx tests each connection when it is returned and drives transactions by messages that wait
//! for each other. Round trips to the connection's thread dominate the cost of a small statement. With the
//! pool, a transaction of one statement took twice the time and a read three times (`docs/performance.md`).

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Sqlite};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

/// Time for which a statement waits for another program's write transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Hook called at each commit; `false` rolls back.
pub type CommitHook = Arc<dyn Fn() -> bool + Send + Sync>;

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
    /// True if a start retries without limit while another program locks the database or the disk is full.
    pub retries_forever: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { busy_timeout: BUSY_TIMEOUT, commit_hook: None, is_single: false, retries_forever: false }
    }
}

/// Slot of a connection; clones share it.
#[derive(Clone)]
pub(super) struct ConnectionSlot {
    options: SqliteConnectOptions,
    commit_hook: Option<CommitHook>,
    /// True if a task that acquires the connection yields to the other tasks first. Otherwise the order of
    /// those tasks and the answer of the connection's thread is random.
    yields_first: bool,
    state: Arc<Mutex<SlotState>>,
}

#[derive(Debug)]
pub(in crate::store) enum SlotState {
    /// Not opened yet.
    Unopened,
    Open(SqliteConnection),
    /// Closed for good.
    Closed,
}

pub(super) type ConnectionGuard = OwnedMappedMutexGuard<SlotState, SqliteConnection>;

impl ConnectionSlot {
    pub(super) fn new(options: SqliteConnectOptions, opening: &StoreOptions) -> Self {
        let (commit_hook, yields_first) = (opening.commit_hook.clone(), opening.is_single);
        Self { options, commit_hook, yields_first, state: Arc::new(Mutex::new(SlotState::Unopened)) }
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
        if matches!(*held, SlotState::Unopened) {
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

    async fn connect(&self) -> Result<SqliteConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        if let Some(hook) = self.commit_hook.clone() {
            connection.lock_handle().await?.set_commit_hook(move || hook());
        }
        Ok(connection)
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

/// Connection in a write transaction. Dropped before its end, the transaction is rolled back before the
/// connection becomes free.
#[derive(Debug)]
pub(in crate::store) struct TransactionGuard(Option<ConnectionGuard>);

impl TransactionGuard {
    pub(super) async fn begin(connection: ConnectionGuard, begin: &'static str) -> Result<Self, sqlx::Error> {
        // Constructed before the statement, so that cancellation rolls back too.
        let mut transaction = Self(Some(connection));
        transaction.execute(begin).await?;
        Ok(transaction)
    }

    /// Ends the transaction with a committing statement and returns the rows of the statements before it.
    pub(super) async fn commit_with(
        mut self,
        commit: Query<'static, Sqlite, SqliteArguments>,
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let rows = commit.fetch_all(&mut *self).await?;
        self.0 = None;
        Ok(rows)
    }
}

impl Deref for TransactionGuard {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.0.as_ref().expect("the connection is present until the commit")
    }
}

impl DerefMut for TransactionGuard {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.0.as_mut().expect("the connection is present until the commit")
    }
}

impl Drop for TransactionGuard {
    fn drop(&mut self) {
        let Some(mut connection) = self.0.take() else { return };
        tokio::spawn(async move {
            // It fails where SQLite ended the transaction itself, as on a full or failing disk.
            drop(connection.execute("ROLLBACK").await);
        });
    }
}

impl fmt::Debug for ConnectionSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSlot").finish_non_exhaustive()
    }
}
