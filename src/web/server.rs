//! The page's connections: limits of their number, of heads, and of the time for a head.
//!
//! A connection that sends its head slowly is closed after [`REQUEST_TIMEOUT`], or after [`CROWDED_HEAD_TIMEOUT`] while
//! half of the connections are taken. Above [`CONNECTIONS_MAX`] a new connection waits until one is closed, so memory
//! and descriptors are bounded, and idle connections keep nobody out for long.

use axum::Router;
use futures_util::future::poll_fn;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time for the head of a request, for its body, and for the next request of an open connection.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CROWDED_HEAD_TIMEOUT: Duration = Duration::from_millis(500);
/// Largest head, and buffer, of a request in bytes.
pub(super) const HEAD_MAX_BYTES: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// Largest number of connections; a process has 1024 descriptors by default.
const CONNECTIONS_MAX: usize = 512;
/// Time for which the bytes of a refused form are read and forgotten after the answer: a socket that is closed with
/// unread bytes may lose the answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
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
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = stop.cancelled() => break,
        };
        let is_crowded = slots.available_permits() < CONNECTIONS_MAX / 2;
        let head_timeout = if is_crowded { CROWDED_HEAD_TIMEOUT } else { REQUEST_TIMEOUT };
        let served = serve_connection(stream, router.clone(), head_timeout, stop.clone());
        open.spawn(async move {
            served.await;
            drop(slot);
        });
    }
    open.close();
    open.wait().await;
}

async fn serve_connection(
    stream: TcpStream,
    router: Router,
    head_timeout: Duration,
    stop: CancellationToken,
) {
    // A page is one small answer, which Nagle's algorithm would delay.
    let _ = stream.set_nodelay(true);
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_MAX_BYTES);
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |request| Box::pin(service.call(request)));
    let mut connection = server.serve_connection(TokioIo::new(stream), service);
    // The error of a connection is its client's: a head that is no HTTP, too large or too slow.
    tokio::select! {
        _ = poll_fn(|context| connection.poll_without_shutdown(context)) => {}
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            let _ = timeout(STOP_TIMEOUT, poll_fn(|context| connection.poll_without_shutdown(context))).await;
        }
    }
    let mut stream = connection.into_parts().io.into_inner();
    let rest = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER_TIMEOUT, rest).await;
}
