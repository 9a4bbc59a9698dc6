//! One connection, one user at a time.
//!
//! The library's pool asks a connection whether it still works each time it comes back, and keeps its transactions by
//! messages that wait for each other. Ways to the connection's thread and back are what a small statement costs, so that
//! a transaction of one statement took twice the time there, and a read three times (`docs/performance.md`).

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Sqlite};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

/// How long a statement waits for a program beside us that is writing.
pub(super) const BUSY: Duration = Duration::from_secs(10);

/// Asked at each commit; `false` undoes it.
pub type CommitHook = Arc<dyn Fn() -> bool + Send + Sync>;

/// How a database is opened. The defaults are the daemon's; the rest serves tests of what goes wrong.
#[derive(Clone)]
pub struct Opening {
    /// How long a statement waits for a program beside us that is writing.
    pub busy: Duration,
    /// Asked at each commit, so that a test can let the process end at any of them.
    pub at_commit: Option<CommitHook>,
    /// Whether all statements go over one connection, one after the other: between several, their threads would decide
    /// which comes first, and a simulation's seed would have many orders of events.
    pub is_single: bool,
    /// True if a start waits for who holds a lock and for room on the disk, however long. A command gives up.
    pub is_patient: bool,
}

impl Default for Opening {
    fn default() -> Self {
        Self { busy: BUSY, at_commit: None, is_single: false, is_patient: false }
    }
}

/// The place of a connection. Clones share it.
#[derive(Clone)]
pub(super) struct Seat {
    options: SqliteConnectOptions,
    at_commit: Option<CommitHook>,
    /// Whoever gets it lets all others go on first. Otherwise it is chance who is quicker, they or the connection's thread
    /// with its answer, and a simulation's seed would have many orders of events.
    is_polite: bool,
    held: Arc<Mutex<Held>>,
}

/// What a place holds.
#[derive(Debug)]
pub(super) enum Held {
    /// Nobody needed it yet.
    Nothing,
    Open(SqliteConnection),
    /// For good.
    Closed,
}

/// A connection while somebody uses it.
pub(super) type Taken = OwnedMappedMutexGuard<Held, SqliteConnection>;

impl Seat {
    /// Opens nothing yet.
    pub(super) fn new(options: SqliteConnectOptions, opening: &Opening) -> Self {
        let Opening { at_commit, is_single, .. } = opening.clone();
        Self { options, at_commit, is_polite: is_single, held: Arc::new(Mutex::new(Held::Nothing)) }
    }

    /// Waits until nobody else uses the connection; whoever came first is first.
    pub(super) async fn take(&self) -> Result<Taken, sqlx::Error> {
        self.sit(self.lock().await).await
    }

    /// The first half of taking, for who may wait for another seat as well.
    pub(super) async fn lock(&self) -> OwnedMutexGuard<Held> {
        Arc::clone(&self.held).lock_owned().await
    }

    /// The second half: the connection, opened where nobody needed it yet.
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

    /// Whether nobody uses it.
    pub(super) fn is_free(&self) -> bool {
        self.held.try_lock().is_ok()
    }

    /// Waits for whoever uses it; nobody can take it afterwards.
    pub(super) async fn close(&self) {
        let before = std::mem::replace(&mut *self.held.lock().await, Held::Closed);
        if let Held::Open(connection) = before {
            // It is gone, whatever SQLite had to say.
            drop(connection.close().await);
        }
    }
}

/// A connection in a write transaction. Dropped before its end, the transaction is undone before anybody else gets the
/// connection.
#[derive(Debug)]
pub(super) struct Transaction(Option<Taken>);

impl Transaction {
    /// Begins with a statement that says so.
    pub(super) async fn begin(connection: Taken, begin: &'static str) -> Result<Self, sqlx::Error> {
        // Before it begins: it is undone too where the caller stops waiting.
        let mut transaction = Self(Some(connection));
        transaction.execute(begin).await?;
        Ok(transaction)
    }

    /// Ends with a statement that commits; the rows of those before it are returned.
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
            // It fails where SQLite ended the transaction itself, as it does when the disk is full or fails.
            drop(connection.execute("ROLLBACK").await);
        });
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}
