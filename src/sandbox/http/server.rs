//! The sandbox's HTTP server: a thin shell of axum around [`SandboxCore::handle_request`].
//!
//! Bodies are read up to the limit and the rest is discarded. A caller that sends 50 MB would otherwise see a
//! broken connection instead of the 413. A call runs to its end in its own task, as at the platform: a
//! disconnect of the caller undoes nothing.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::Response;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::answer::{SandboxAnswer, SandboxRefusal};
use super::request::BODY_BYTES_MAX;
use crate::sandbox::core::SandboxCore;
use crate::sandbox::faults::faulty_stream::{FaultListener, FaultSwitch};

pub(crate) async fn serve_http(listener: TcpListener, core: Arc<SandboxCore>, stop: CancellationToken) {
    let service = Router::new()
        .fallback(answer_request)
        .with_state(core)
        .into_make_service_with_connect_info::<FaultSwitch>();
    let serving =
        axum::serve(FaultListener(listener), service).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(cause) = serving.await {
        tracing::error!(%cause, "the sandbox stopped serving");
    }
}

async fn answer_request(
    State(core): State<Arc<SandboxCore>>,
    ConnectInfo(switch): ConnectInfo<FaultSwitch>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(refused) => return refused.to_response().map(Body::from),
    };
    let request = Request::from_parts(parts, body);
    match tokio::spawn(async move { core.handle_request(request).await }).await {
        Ok(SandboxAnswer::Full(response)) => response.map(Body::from),
        Ok(SandboxAnswer::Cut { response, keep }) => {
            switch.cut_in_body(keep);
            response.map(Body::from)
        }
        Ok(SandboxAnswer::Dropped) => {
            switch.cut_now();
            Response::new(Body::empty())
        }
        Err(cause) => {
            tracing::error!(%cause, "a call of the sandbox broke off; the caller is answered 500");
            SandboxRefusal::internal_error().to_response().map(Body::from)
        }
    }
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
