//! Server-sent events: a browser is told that the database changed, and reads its page again.
//!
//! Each open stream reads the mark of the database every [`REPORT_INTERVAL`], so a commit is reported within that time,
//! and a page under load is made twice a second at most.

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
use tokio::time::sleep;

pub(super) const STREAMS_MAX: usize = 32;
const REPORT_INTERVAL: Duration = Duration::from_millis(400);
/// Interval of a line without meaning, at which a closed connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pause of the browser before it opens a stream again that has ended.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Returns the state of the database as far as pages show it: position, newest change, newest run.
pub(super) async fn change_mark(store: &Store) -> Result<String, StoreError> {
    let (position, change, run) = store.change_mark().await?;
    Ok(format!("{position} {change} {run}"))
}

/// `/events`: an event for each change of the database. A failed read ends the stream, and the browser opens another.
pub(super) async fn stream_events(State(web): State<Arc<WebState>>) -> PageResult {
    let Ok(place) = Arc::clone(&web.streams).try_acquire_owned() else {
        let text = "32 pages are live already; this one is read again every 30 seconds\n";
        return Ok((StatusCode::SERVICE_UNAVAILABLE, text).into_response());
    };
    // The first event differs from the mark of a page that was made before the last commit. Dropping the stream frees
    // its place.
    let events = unfold((web, None, place), async |(web, last, place)| {
        let next = async {
            loop {
                if last.is_some() {
                    sleep(REPORT_INTERVAL).await;
                }
                let mark = change_mark(&web.store).await.ok()?;
                if last.as_ref() != Some(&mark) {
                    return Some(mark);
                }
            }
        };
        let mark = tokio::select! {
            mark = next => mark?,
            () = web.stop.cancelled() => return None,
        };
        let event = Event::default().retry(RETRY_PAUSE).data(&mark);
        Some((Ok::<_, Infallible>(event), (web, Some(mark), place)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}
