//! Noticing what other programs wrote, without polling.
//!
//! A commit by anybody appends to the write-ahead log, and inotify says so; only then is the database asked. Where
//! inotify is not to be had (a network file system, a container without it), a look each quarter of a second serves.
//! What if a word is lost: the daemon's loop looks each minute in any case.

use super::error::Doing;
use super::event::{LIFTED, RELEASED, RESOLVED, RETRIED};
use super::{Store, StoreError};
use crate::model::Position;
use rustix::fs::inotify;
use sqlx::FromRow;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// The look where there is no inotify: a quarter of a second, as promised to the programs beside us.
const LOOK_WITHOUT_WATCH: Duration = Duration::from_millis(250);

/// A watch on the database's write-ahead log, and on the names of the database itself.
#[derive(Debug)]
pub struct Watch {
    descriptor: Option<AsyncFd<OwnedFd>>,
}

/// The newest of what others leave for the daemon; each number only grows while there is something, and is 0 where there is nothing.
#[derive(Clone, Copy, Debug, FromRow)]
pub struct News {
    /// The newest wish.
    pub wish: i64,
    /// The position of the last word that a person spoke: on a wish, a brake, an entry set aside or a wait.
    pub word: i64,
    /// The newest request nobody answered yet.
    pub request: i64,
    /// The turn of the order that somebody named last.
    pub order: i64,
}

impl Store {
    /// What there is to notice, `heard` being the last word that was heard. One statement for all: a statement goes to
    /// its connection's thread and back, and every commit is followed by looks.
    pub async fn news(&self, heard: Position) -> Result<News, StoreError> {
        let sql = "SELECT coalesce((SELECT max(id) FROM outbox), 0) AS wish,
                          coalesce((SELECT max(position) FROM event WHERE position > ?1 AND kind IN (?2, ?3, ?4, ?5)), 0) AS word,
                          coalesce((SELECT max(id) FROM request WHERE answered_at IS NULL), 0) AS request,
                          coalesce((SELECT max(id) FROM order_read_request), 0) AS \"order\"";
        let query =
            sqlx::query_as(sql).bind(heard.0).bind(RESOLVED).bind(RELEASED).bind(RETRIED).bind(LIFTED);
        query.fetch_one(&mut *self.read().await?).await.doing("look for wishes, words, requests and orders")
    }

    /// Begins to watch. Anything written after this call wakes the next [`Watch::changed`].
    pub fn watch(&self) -> Watch {
        let mut name = self.path().as_os_str().to_owned();
        name.push("-wal");
        Watch { descriptor: descriptor(&PathBuf::from(name), self.path()).ok() }
    }
}

impl Watch {
    /// Waits until somebody (also we ourselves) may have written.
    pub async fn changed(&mut self) {
        if let Some(descriptor) = &self.descriptor
            && let Ok(mut ready) = descriptor.readable().await
        {
            drain(descriptor.get_ref());
            ready.clear_ready();
            return;
        }
        tokio::time::sleep(LOOK_WITHOUT_WATCH).await;
    }
}

#[expect(
    deprecated,
    reason = "the replacement is an unsafe fn; an OwnedFd keeps what it asks for: one open descriptor"
)]
fn descriptor(wal: &Path, database: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
    let descriptor = inotify::init(flags)?;
    inotify::add_watch(&descriptor, wal, inotify::WatchFlags::MODIFY)?;
    // Removing the file or putting another in its place changes its number of names.
    let moved = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::MOVE_SELF;
    inotify::add_watch(&descriptor, database, moved)?;
    AsyncFd::new(descriptor)
}

/// Takes all events; what they say beyond "something was written" does not matter.
fn drain(descriptor: &OwnedFd) {
    let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
    let mut events = inotify::Reader::new(descriptor, &mut buffer);
    while events.next().is_ok() {}
}
