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
pub(super) const BUSY: Duration = Duration::from_secs(10);

/// Hook called at each commit; `false` rolls back.
pub type CommitHook = Arc<dyn Fn() -> bool + Send + Sync>;

/// Options for opening a database; the defaults are the daemon's.
#[derive(Clone)]
pub struct Opening {
    /// Time for which a statement waits for another program's write transaction.
    pub busy: Duration,
    /// Hook called at each commit, with which a test ends the process there.
    pub at_commit: Option<CommitHook>,
    /// True if all statements share one connection.
    ///
    /// With several, their threads decide the order. A simulation's seed would then not determine the order
    /// of events.
    pub is_single: bool,
    /// True if a start retries without limit while another program locks the database or the disk is full.
    pub is_patient: bool,
}

impl Default for Opening {
    fn default() -> Self {
        Self { busy: BUSY, at_commit: None, is_single: false, is_patient: false }
    }
}

/// Slot of a connection; clones share it.
#[derive(Clone)]
pub(super) struct Seat {
    options: SqliteConnectOptions,
    at_commit: Option<CommitHook>,
    /// True if a task that acquires the connection yields to the other tasks first. Otherwise the order of
    /// those tasks and the answer of the connection's thread is random. A simulation's seed would then not
    /// determine the order of events.
    is_polite: bool,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug)]
pub(in crate::store) enum Held {
    /// Not opened yet.
    Nothing,
    Open(SqliteConnection),
    /// Closed for good.
    Closed,
}

/// Guard of a connection in use.
pub(super) type Taken = OwnedMappedMutexGuard<Held, SqliteConnection>;

impl Seat {
    pub(super) fn new(options: SqliteConnectOptions, opening: &Opening) -> Self {
        let Opening { at_commit, is_single, .. } = opening.clone();
        Self { options, at_commit, is_polite: is_single, held: Arc::new(Mutex::new(Held::Nothing)) }
    }

    /// Waits until the connection is free and acquires it, in the order of the requests.
    pub(super) async fn take(&self) -> Result<Taken, sqlx::Error> {
        self.sit(self.lock().await).await
    }

    /// Waits for the slot only, for a caller that waits for another slot as well.
    pub(super) async fn lock(&self) -> OwnedMutexGuard<Held> {
        Arc::clone(&self.held).lock_owned().await
    }

    /// Turns a locked slot into its connection, which is opened on first use.
    pub(super) async fn sit(&self, mut held: OwnedMutexGuard<Held>) -> Result<Taken, sqlx::Error> {
        if matches!(*held, Held::Nothing) {
            *held = Held::Open(self.open().await?);
        }
        if self.is_polite {
            tokio::task::yield_now().await;
        }
        let open = OwnedMutexGuard::try_map(held, |held| match held {
            Held::Open(connection) => Some(connection),
            Held::Nothing | Held::Closed => None,
        });
        open.map_err(|_| sqlx::Error::PoolClosed)
    }

    async fn open(&self) -> Result<SqliteConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        if let Some(hook) = self.at_commit.clone() {
            connection.lock_handle().await?.set_commit_hook(move || hook());
        }
        Ok(connection)
    }

    pub(super) fn is_free(&self) -> bool {
        self.held.try_lock().is_ok()
    }

    /// Waits for the current user and closes the slot for good.
    pub(super) async fn close(&self) {
        let before = std::mem::replace(&mut *self.held.lock().await, Held::Closed);
        if let Held::Open(connection) = before {
            // The connection is gone even if SQLite reports an error.
            drop(connection.close().await);
        }
    }
}

/// Connection in a write transaction. Dropped before its end, the transaction is rolled back before the
/// connection becomes free.
#[derive(Debug)]
pub(in crate::store) struct Transaction(Option<Taken>);

impl Transaction {
    /// Begins a transaction with the statement `begin`.
    pub(super) async fn begin(connection: Taken, begin: &'static str) -> Result<Self, sqlx::Error> {
        // Constructed before the statement, so that cancellation rolls back too.
        let mut transaction = Self(Some(connection));
        transaction.execute(begin).await?;
        Ok(transaction)
    }

    /// Ends the transaction with a committing statement and returns the rows of the statements before it.
    pub(super) async fn end(
        mut self,
        commit: Query<'static, Sqlite, SqliteArguments>,
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let rows = commit.fetch_all(&mut *self).await?;
        self.0 = None;
        Ok(rows)
    }
}

impl Deref for Transaction {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.0.as_ref().expect("only its end takes the connection away")
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.0.as_mut().expect("only its end takes the connection away")
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(mut connection) = self.0.take() else { return };
        tokio::spawn(async move {
            // It fails where SQLite ended the transaction itself, as on a full or failing disk.
            drop(connection.execute("ROLLBACK").await);
        });
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}
