//! Notification about writes of other programs, without polling.
//!
//! Every commit appends to the write-ahead log, and inotify reports that; only then is the database queried. A
//! server sends a notification from a trigger (`notify_daemon`). Without either (a network file system, some
//! containers, a server that is away) the database is queried every 250 ms. A lost notification delays a
//! reaction by at most a minute, because the daemon's loop queries each minute in any case.

use super::files::with_suffix;
use super::postgres_database::{Access, PostgresDatabase};
use crate::model::Position;
use crate::store::journal::event::{
    BRAKE_RELEASED, ENTRY_RETRIED, JOB_PAUSED, JOB_RESUMED, OUTBOX_RESOLVED, QUOTA_LIFTED,
};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store};
use rustix::fs::inotify;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx_macros::FromRow;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Interval of the queries without notifications, as promised to other programs.
const POLL_WITHOUT_WATCH: Duration = Duration::from_millis(250);

/// Channel of the notifications; their payload is the schema.
pub(super) const CHANNEL: &str = "tallyd";

/// Follows the schema in the notification of a leader that gives the lead up.
pub(super) const RELEASED: &str = " released";

/// Watch on the writes of other programs.
#[derive(Debug)]
pub(crate) struct DatabaseWatch(WriteSignal);

#[derive(Debug)]
enum WriteSignal {
    /// inotify on the write-ahead log and on the directory entries of the database file.
    Log(AsyncFd<OwnedFd>),
    /// Notifications with this payload.
    Server {
        server: PostgresDatabase,
        payload: String,
        listener: Option<PgListener>,
    },
    Unavailable,
}

/// Newest entries that other programs left for the daemon. Each number grows; 0: there are none.
#[derive(Clone, Copy, Debug, FromRow)]
pub(crate) struct NewEntries {
    pub change: i64,
    /// Position of the last decision of a person: on a change, a brake, a quarantined entry, an ordered
    /// wait or a job, or position of the end of a pause.
    pub decision: i64,
    /// Id of the newest unanswered request.
    pub request: i64,
    /// Id of the newest request for an order.
    pub order_read_request: i64,
}

impl Store {
    /// Returns the newest entries; of decisions only one after the position `last_seen`. A single statement
    /// reads all, because each statement crosses to the connection's thread and a query follows every commit.
    pub(crate) async fn new_entries(&self, last_seen: Position) -> Result<NewEntries> {
        let sql = "SELECT coalesce((SELECT max(id) FROM outbox), 0) AS change,
                          coalesce((SELECT max(position) FROM event WHERE position > $1 AND kind IN (SELECT atom FROM json_each($2))), 0) AS decision,
                          coalesce((SELECT max(id) FROM request WHERE answered_at IS NULL), 0) AS request,
                          coalesce((SELECT max(id) FROM order_read_request), 0) AS order_read_request";
        let kinds = [OUTBOX_RESOLVED, BRAKE_RELEASED, ENTRY_RETRIED, QUOTA_LIFTED, JOB_PAUSED, JOB_RESUMED];
        self.fetch_one(sql, (last_seen, json_rows(&kinds)), "read the new entries").await
    }

    /// Begins to watch for a leader that gives the lead up; `None` for a file.
    pub(crate) fn watch_release(&self) -> Option<DatabaseWatch> {
        let server = self.location().server()?.clone();
        let payload = format!("{}{RELEASED}", server.schema());
        Some(DatabaseWatch(WriteSignal::Server { server, payload, listener: None }))
    }

    /// Begins to watch; a write after this call wakes the next [`DatabaseWatch::wait_for_write`].
    pub(crate) fn watch_writes(&self) -> DatabaseWatch {
        DatabaseWatch(match self.location().server() {
            Some(server) => WriteSignal::Server {
                server: server.clone(),
                payload: server.schema().to_owned(),
                listener: None,
            },
            None => watch_descriptor(&with_suffix(self.path(), "-wal"), self.path())
                .map_or(WriteSignal::Unavailable, WriteSignal::Log),
        })
    }
}

impl DatabaseWatch {
    /// Waits until a program, possibly this one, may have written, or a leader may have given the lead up.
    pub(crate) async fn wait_for_write(&mut self) {
        let is_notified = match &mut self.0 {
            WriteSignal::Log(descriptor) => wait_for_log(descriptor).await,
            WriteSignal::Server { server, payload, listener } => {
                wait_for_notification(server, payload, listener).await
            }
            WriteSignal::Unavailable => false,
        };
        if !is_notified {
            tokio::time::sleep(POLL_WITHOUT_WATCH).await;
        }
    }
}

async fn wait_for_log(descriptor: &AsyncFd<OwnedFd>) -> bool {
    let Ok(mut ready) = descriptor.readable().await else { return false };
    discard_events(descriptor.get_ref());
    ready.clear_ready();
    true
}

/// Waits for a notification with this payload and returns true. With a new connection it returns at once, because
/// notifications from before are lost. Returns false if there is no connection.
async fn wait_for_notification(
    server: &PostgresDatabase,
    payload: &str,
    listener: &mut Option<PgListener>,
) -> bool {
    let Some(open) = listener else {
        *listener = listen(server).await.ok();
        return listener.is_some();
    };
    loop {
        match open.try_recv().await {
            Ok(Some(notification)) if notification.payload() == payload => return true,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                *listener = None;
                return false;
            }
        }
    }
}

pub(super) async fn listen(server: &PostgresDatabase) -> sqlx::Result<PgListener> {
    let connector = server.connector(Access::Read)?;
    let options = connector.options.clone();
    let one = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let one = one.after_connect(move |connection, _| {
        let connector = connector.clone();
        Box::pin(async move { connector.apply_settings(connection).await })
    });
    let mut listener = PgListener::connect_with(&one.connect_lazy_with(options)).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

#[expect(
    deprecated,
    reason = "the replacement is an unsafe fn; an OwnedFd keeps what it asks for: one open descriptor"
)]
fn watch_descriptor(wal: &Path, database: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
    let descriptor = inotify::init(flags)?;
    inotify::add_watch(&descriptor, wal, inotify::WatchFlags::MODIFY)?;
    // ATTRIB reports a removed or replaced file, because its number of links changes.
    let moved = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::MOVE_SELF;
    inotify::add_watch(&descriptor, database, moved)?;
    AsyncFd::new(descriptor)
}

fn discard_events(descriptor: &OwnedFd) {
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    let mut events = inotify::Reader::new(descriptor, &mut buffer);
    while events.next().is_ok() {}
}
