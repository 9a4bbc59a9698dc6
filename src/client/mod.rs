//! Client of the platform: the only module that knows its JSON over HTTP.
//!
//! A function of [`wire`] builds a call. [`Client::send`] sends the call once and classifies its outcome once, as
//! a [`Verdict`]. A decoder of [`wire`] reads an accepted body. Nothing here retries, waits for quota or keeps
//! state; the limiter and the jobs do, and they match the verdict, never a status code.
//!
//! [`run_aside`] does what may block, such as the read of a key's file, away from the runtime.
//!
//! The [`Transport`] is a trait, so that a simulation drives the same client without sockets. Names in
//! italics are sections of docs/interface.md.

mod aside;
mod message;
mod shape;
mod transport;
mod verdict;
pub(crate) mod wire;

pub(crate) use aside::run_aside;
pub use transport::{
    AccountKeys, FailureKind, HttpSettings, HttpTransport, PlatformRequest, PlatformResponse, SendFuture,
    Transport, TransportError,
};
pub(crate) use transport::{
    CallReply, HeaderNames, ReceiverClient, SendCheck, SetupError, is_proxy_url, mask_account_keys,
    parse_base_url, receiver_host,
};
pub(crate) use verdict::{ThrottleKind, Verdict, classify_outcome};

use crate::model::Clock;
use std::sync::Arc;

#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// Creates a client. The clock is used only for a `Retry-After` that is a date.
    pub fn new(transport: Arc<dyn Transport>, clock: Arc<dyn Clock>) -> Self {
        Self { transport, clock }
    }

    /// Sends the request, unless its check fails before the connection takes its body.
    pub(crate) async fn send(&self, request: PlatformRequest, check: Option<SendCheck>) -> CallReply {
        let operation = request.operation;
        let outcome = match check {
            Some(check) => self.transport.send_checked(request, check).await,
            None => self.transport.send(request).await,
        };
        CallReply::from_outcome(operation, outcome, self.clock.now())
    }
}
