//! The only room that knows the service speaks JSON over HTTP.
//!
//! A call is built by a function of [`wire`], which refuses what the service would answer with 400; it goes out once
//! through [`Client::send`]; what came of it is judged once, as a [`Verdict`]; and an accepted body is read by a
//! decoder of [`wire`]. Nothing here repeats a call, waits for quota or remembers anything: that is the business of
//! the limiter and the jobs, who match the verdict and never look at a status code.
//!
//! The [`Transport`] stands between, so that a simulation drives the same client without sockets.

mod http;
mod http_setup;
mod mask;
mod message;
mod reply;
mod shape;
mod transport;
mod verdict;
pub mod wire;

pub use http::HttpTransport;
pub use http_setup::{ANSWER_LIMIT_BYTES, HeaderNames, HttpSettings, Keys, SetupError};
pub use reply::Reply;
pub use transport::{FailureKind, Request, Response, Sending, Sent, Transport, TransportError};
pub use verdict::{Throttle, Verdict, classify, retry_after};

use crate::model::Clock;
use std::sync::Arc;

/// Sends requests to the service and judges what comes back.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client over a transport. The clock serves one thing: a `Retry-After` that is a date.
    pub fn new(transport: Arc<dyn Transport>, clock: Arc<dyn Clock>) -> Self {
        Self { transport, clock }
    }

    /// Sends the request once and judges the outcome. Never fails: a failure is a verdict.
    pub async fn send(&self, request: Request) -> Reply {
        let operation = request.operation;
        let outcome = self.transport.send(request).await;
        Reply::judge(operation, outcome, self.clock.now())
    }
}
