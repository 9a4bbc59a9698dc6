//! Body of a request that is checked once more when its connection takes it.
//!
//! A process may be stopped between the check of the caller and the write of the connection, while another host takes
//! over. A body that fails its check ends the connection before a byte of the request is flushed.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Check that a request may still be sent; its error is the reason for an operator.
pub(crate) type SendCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct CheckFailed(pub(super) String);

pub(super) struct CheckedBody {
    /// `None` once the connection has taken it.
    bytes: Option<Bytes>,
    check: SendCheck,
}

impl CheckedBody {
    pub(super) fn new(bytes: Vec<u8>, check: SendCheck) -> Self {
        Self { bytes: Some(bytes.into()), check }
    }
}

impl Body for CheckedBody {
    type Data = Bytes;
    type Error = CheckFailed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CheckFailed>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        let checked = (self.check)().map(|()| Frame::data(bytes));
        Poll::Ready(Some(checked.map_err(CheckFailed)))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
    }
}
