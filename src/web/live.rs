//! Server-sent events: a browser is told that the database changed, and reads its page again.
//!
//! The database has one watching task for all browsers, which rests while there are none. A commit is reported at once;
//! the next report follows after [`REPORT_INTERVAL`], so a page under load is made twice a second at most.

use super::WebState;
use super::layout::PageResult;
use crate::store::{Store, StoreError};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const STREAMS_MAX: usize = 32;
const REPORT_INTERVAL: Duration = Duration::from_millis(400);
/// Interval of a line without meaning, at which a closed connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Checks after a write of the log. The log is written before the commit is readable, so the first may come too early.
const CHECKS_AFTER_WRITE: u32 = 4;
/// Pause after an error, here and in the browser.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct ChangeFeed {
    marks: watch::Sender<String>,
    wake: Arc<Notify>,
    streams: Arc<Semaphore>,
}

/// Returns the state of the database as far as pages show it: position, newest change, newest run.
pub(super) async fn change_mark(store: &Store) -> Result<String, StoreError> {
    let (position, change, run) = store.change_mark().await?;
    Ok(format!("{position} {change} {run}"))
}

impl ChangeFeed {
    pub(super) fn start(store: Store, stop: CancellationToken) -> Self {
        let (marks, wake) = (watch::Sender::default(), Arc::new(Notify::new()));
        let (reports, woken) = (marks.clone(), Arc::clone(&wake));
        tokio::spawn(async move {
            tokio::select! {
                () = follow_database(&store, &reports, &woken) => {}
                () = stop.cancelled() => {}
            }
        });
        Self { marks, wake, streams: Arc::new(Semaphore::new(STREAMS_MAX)) }
    }
}

async fn follow_database(store: &Store, reports: &watch::Sender<String>, wake: &Notify) {
    loop {
        while reports.receiver_count() == 0 {
            wake.notified().await;
        }
        if let Err(error) = report_changes(store, reports).await {
            tracing::debug!("cannot watch the database: {error}");
            sleep(RETRY_PAUSE).await;
        }
    }
}

async fn report_changes(store: &Store, reports: &watch::Sender<String>) -> Result<(), StoreError> {
    let mut written = store.watch_writes();
    let is_on_server = store.location().server().is_some();
    let mut checks_left = CHECKS_AFTER_WRITE;
    while reports.receiver_count() > 0 {
        let mark = change_mark(store).await?;
        reports.send_if_modified(|last| {
            let is_new = *last != mark;
            last.clone_from(&mark);
            is_new
        });
        sleep(REPORT_INTERVAL).await;
        checks_left -= 1;
        if checks_left == 0 {
            tokio::select! {
                () = written.wait_for_write() => {}
                // Facts cause no notification on a server.
                () = sleep(REPORT_INTERVAL), if is_on_server => {}
                () = reports.closed() => {}
            }
            checks_left = CHECKS_AFTER_WRITE;
        }
    }
    Ok(())
}

/// A browser's stream; dropping it frees its place.
struct EventStream {
    marks: watch::Receiver<String>,
    stop: CancellationToken,
    /// The mark of the last event. The first event differs from the mark of a page made before the last commit.
    last: String,
    has_begun: bool,
    _place: OwnedSemaphorePermit,
}

impl EventStream {
    async fn next_event(&mut self) -> Option<Event> {
        while self.has_begun {
            tokio::select! {
                changed = self.marks.changed() => changed.ok()?,
                () = self.stop.cancelled() => return None,
            }
            let mark = self.marks.borrow_and_update().clone();
            if mark != self.last {
                self.last = mark;
                break;
            }
        }
        self.has_begun = true;
        Some(Event::default().retry(RETRY_PAUSE).data(&self.last))
    }
}

/// `/events`: an event for each change of the database.
pub(super) async fn stream_events(State(web): State<Arc<WebState>>) -> PageResult {
    let Ok(place) = Arc::clone(&web.feed.streams).try_acquire_owned() else {
        let text = "32 pages are live already; this one is read again every 30 seconds\n";
        return Ok((StatusCode::SERVICE_UNAVAILABLE, text).into_response());
    };
    let marks = web.feed.marks.subscribe();
    web.feed.wake.notify_one();
    let last = change_mark(&web.store).await?;
    let stream = EventStream { marks, stop: web.stop.clone(), last, has_begun: false, _place: place };
    let events = unfold(stream, async |mut stream| {
        let event = stream.next_event().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}
