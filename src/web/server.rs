//! The page's connections: limits of their number, of heads, and of the time for a head.
//!
//! A connection that sends its head slowly is closed after [`HEAD_TIMEOUT`]. Above [`CONNECTIONS_MAX`] a new
//! connection is closed at once, so memory and descriptors are bounded.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time for the head of a request, and for the next request of an open connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head, and buffer, of a request in bytes.
pub(super) const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Largest number of headers.
pub(super) const HEADERS_MAX: usize = 100;
/// Largest number of connections; a process has 1024 descriptors by default.
const CONNECTIONS_MAX: usize = 512;
/// Time for answers in progress at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after an error of the listener, such as too few descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then completes the answers in progress.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let (slots, open) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let Ok((stream, _)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        let served = serve_connection(stream, router.clone(), stop.clone());
        open.spawn(async move {
            served.await;
            drop(slot);
        });
    }
    open.close();
    open.wait().await;
}

async fn serve_connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    // A page is one small answer, which Nagle's algorithm would delay.
    let _ = stream.set_nodelay(true);
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_MAX_BYTES);
    let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // The error of a connection is its client's: a head that is no HTTP, too large or too slow.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(STOP_TIMEOUT, connection).await;
        }
    }
}
