//! Notification about writes of other programs, without polling.
//!
//! Every commit appends to the write-ahead log, and inotify reports that; only then is the database queried.
//! Without inotify (a network file system, some containers) it is queried every 250 ms. A lost notification
//! delays a reaction by at most a minute, because the daemon's loop queries each minute in any case.

use super::files::with_suffix;
use crate::model::Position;
use crate::store::journal::event::{BRAKE_RELEASED, ENTRY_RETRIED, OUTBOX_RESOLVED, QUOTA_LIFTED};
use crate::store::{Result, Store};
use rustix::fs::inotify;
use sqlx_macros::FromRow;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Interval of the queries without inotify, as promised to other programs.
const POLL_WITHOUT_WATCH: Duration = Duration::from_millis(250);

/// Watch on the database's write-ahead log and on the directory entries of the database file.
#[derive(Debug)]
pub struct DatabaseWatch {
    descriptor: Option<AsyncFd<OwnedFd>>,
}

/// Newest entries that other programs left for the daemon. Each number grows; 0: there are none.
#[derive(Clone, Copy, Debug, FromRow)]
pub struct NewEntries {
    /// Id of the newest change.
    pub change: i64,
    /// Position of the last decision of a person: on a change, a brake, a quarantined entry or an ordered
    /// wait.
    pub decision: i64,
    /// Id of the newest unanswered request.
    pub request: i64,
    /// Id of the newest request for an order.
    pub order_read_request: i64,
}

impl Store {
    /// Returns the newest entries; of decisions only one after the position `last_seen`.
    ///
    /// A single statement reads all, because each statement crosses to the connection's thread and a query
    /// follows every commit.
    pub async fn new_entries(&self, last_seen: Position) -> Result<NewEntries> {
        let sql = "SELECT coalesce((SELECT max(id) FROM outbox), 0) AS change,
                          coalesce((SELECT max(position) FROM event WHERE position > $1 AND kind IN ($2, $3, $4, $5)), 0) AS decision,
                          coalesce((SELECT max(id) FROM request WHERE answered_at IS NULL), 0) AS request,
                          coalesce((SELECT max(id) FROM order_read_request), 0) AS order_read_request";
        let values = (last_seen.0, OUTBOX_RESOLVED, BRAKE_RELEASED, ENTRY_RETRIED, QUOTA_LIFTED);
        self.fetch_one(sql, values, "read the new entries").await
    }

    /// Begins to watch; a write after this call wakes the next [`DatabaseWatch::wait_for_write`].
    pub fn watch_writes(&self) -> DatabaseWatch {
        DatabaseWatch { descriptor: watch_descriptor(&with_suffix(self.path(), "-wal"), self.path()).ok() }
    }
}

impl DatabaseWatch {
    /// Waits until a program, possibly this one, may have written.
    pub async fn wait_for_write(&mut self) {
        if let Some(descriptor) = &self.descriptor
            && let Ok(mut ready) = descriptor.readable().await
        {
            discard_events(descriptor.get_ref());
            ready.clear_ready();
            return;
        }
        tokio::time::sleep(POLL_WITHOUT_WATCH).await;
    }
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
