//! The sandbox's HTTP server: a thin shell of hyper around [`SandboxCore::handle_request`].
//!
//! Bodies are read up to the limit and the rest is discarded. A caller that sends 50 MB would otherwise see a
//! broken connection instead of the 413. A call runs to its end in its own task, as at the platform: a
//! disconnect of the caller undoes nothing.
//!
//! An HTTP server always answers. For the faults `Drop` and `Truncate` the service fails instead, hyper gives the socket
//! back, and the promised part of the answer is written to it before it is closed.

use std::error::Error as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::answer::{SandboxAnswer, SandboxRefusal};
use super::request::BODY_BYTES_MAX;
use crate::sandbox::core::SandboxCore;

/// Pause after a failed accept (mostly out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The part of an answer after which its connection is closed.
#[derive(Debug, Error)]
#[error("a fault cut the connection")]
struct CutAnswer(Vec<u8>);

/// Serves until `stop`, then completes the answers in progress. Dropped, it closes all connections.
pub(crate) async fn serve_http(listener: TcpListener, core: Arc<SandboxCore>, stop: CancellationToken) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(open.spawn(serve_connection(stream, Arc::clone(&core), stop.clone()))),
                Err(cause) => {
                    tracing::warn!(%cause, "the sandbox cannot accept a connection; it tries again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = open.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    while open.join_next().await.is_some() {}
}

async fn serve_connection(stream: TcpStream, core: Arc<SandboxCore>, stop: CancellationToken) {
    // Without it a small answer waits 40 ms for the caller's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| Box::pin(answer_request(Arc::clone(&core), request)));
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = poll_fn(|context| connection.poll_without_shutdown(context)) => ended,
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|context| connection.poll_without_shutdown(context)).await
        }
    };
    let cut = ended.as_ref().err().and_then(|error| error.source()?.downcast_ref());
    if let Some(CutAnswer(part)) = cut {
        // The caller may be gone, which ends the connection too.
        let _ = connection.into_parts().io.into_inner().write_all(part).await;
    }
}

async fn answer_request(
    core: Arc<SandboxCore>,
    request: Request<Incoming>,
) -> Result<Response<Body>, CutAnswer> {
    let (parts, body) = request.into_parts();
    let body = match read_body(Body::new(body)).await {
        Ok(body) => body,
        Err(refused) => return Ok(refused.to_response().map(Body::from)),
    };
    let request = Request::from_parts(parts, body);
    match tokio::spawn(async move { core.handle_request(request).await }).await {
        Ok(SandboxAnswer::Full(response)) => Ok(response.map(Body::from)),
        Ok(SandboxAnswer::Cut { response, keep }) => Err(cut_answer(&response, keep)),
        Ok(SandboxAnswer::Dropped) => Err(CutAnswer(Vec::new())),
        Err(cause) => {
            tracing::error!(%cause, "a call of the sandbox broke off; the caller is answered 500");
            Ok(SandboxRefusal::internal_error().to_response().map(Body::from))
        }
    }
}

/// Returns the head of a response, with the length of its whole body, and the first `keep` bytes of the body.
fn cut_answer(response: &Response<Bytes>, keep: usize) -> CutAnswer {
    let mut part = format!("HTTP/1.1 {}\r\ncontent-length: {}\r\n", response.status(), response.body().len())
        .into_bytes();
    for (name, value) in response.headers() {
        part.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    part.extend_from_slice(b"\r\n");
    part.extend_from_slice(&response.body()[..keep]);
    CutAnswer(part)
}

/// Reads at most a byte more than the limit, to detect a body that is too large.
async fn read_body(mut body: Body) -> Result<Bytes, SandboxRefusal> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame
            .map_err(|cause| SandboxRefusal::bad_request(format!("The body cannot be read: {cause}.")))?;
        let Ok(data) = frame.into_data() else { continue };
        let room = (BODY_BYTES_MAX + 1).saturating_sub(bytes.len());
        bytes.extend_from_slice(&data[..room.min(data.len())]);
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_answer_is_its_head_and_the_promised_part_of_the_body() {
        let mut response = Response::new(Bytes::from_static(b"body"));
        response.headers_mut().insert("retry-after", "7".parse().unwrap());
        let CutAnswer(part) = cut_answer(&response, 1);
        assert_eq!(part, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nretry-after: 7\r\n\r\nb");
    }
}
