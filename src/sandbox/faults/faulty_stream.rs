//! A connection with a switch that cuts it, for the faults `Drop` and `Truncate`.
//!
//! An HTTP server always answers. A connection that closes without an answer, or within a body of declared
//! length, must be made below the server. The switch limits the bytes that pass and fails the next write; the
//! server then drops the connection like any broken connection.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::sandbox::lock_mutex;

/// Pause after a failed accept (mostly out of file descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, Default)]
enum ByteAllowance {
    #[default]
    Everything,
    /// The head of the next answer and this many bytes of its body.
    HeadAndBody(usize),
    Bytes(usize),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct FaultSwitch(Arc<Mutex<ByteAllowance>>);

impl FaultSwitch {
    pub(crate) fn cut_now(&self) {
        *lock_mutex(&self.0) = ByteAllowance::Bytes(0);
    }

    pub(crate) fn cut_in_body(&self, keep: usize) {
        *lock_mutex(&self.0) = ByteAllowance::HeadAndBody(keep);
    }

    /// Returns the number of bytes that may pass; `None` means all.
    fn allowance(&self, about_to_write: &[u8]) -> Option<usize> {
        let mut passing = lock_mutex(&self.0);
        if let ByteAllowance::HeadAndBody(keep) = *passing {
            let head = about_to_write.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
            *passing = ByteAllowance::Bytes(head + keep);
        }
        match *passing {
            ByteAllowance::Bytes(left) => Some(left),
            ByteAllowance::Everything | ByteAllowance::HeadAndBody(_) => None,
        }
    }

    fn is_open(&self) -> bool {
        matches!(*lock_mutex(&self.0), ByteAllowance::Everything)
    }

    fn count_passed(&self, bytes: usize) {
        if let ByteAllowance::Bytes(left) = &mut *lock_mutex(&self.0) {
            *left -= bytes.min(*left);
        }
    }
}

impl Connected<IncomingStream<'_, FaultListener>> for FaultSwitch {
    fn connect_info(stream: IncomingStream<'_, FaultListener>) -> Self {
        stream.io().switch.clone()
    }
}

#[derive(Debug)]
pub(crate) struct FaultListener(pub(crate) TcpListener);

impl Listener for FaultListener {
    type Io = FaultStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (FaultStream, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok((stream, caller)) => {
                    // Without it a small answer waits 40 ms for the caller's delayed acknowledgement.
                    if let Err(cause) = stream.set_nodelay(true) {
                        tracing::debug!(%cause, "a connection keeps its delay of small writes");
                    }
                    return (FaultStream { stream, switch: FaultSwitch::default() }, caller);
                }
                Err(cause) => {
                    tracing::warn!(%cause, "the sandbox cannot accept a connection; it tries again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[derive(Debug)]
pub(crate) struct FaultStream {
    stream: TcpStream,
    switch: FaultSwitch,
}

impl AsyncRead for FaultStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for FaultStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let part = match self.switch.allowance(buf) {
            None => buf,
            Some(0) => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            Some(left) => &buf[..left.min(buf.len())],
        };
        let written = Pin::new(&mut self.stream).poll_write(cx, part);
        if let Poll::Ready(Ok(bytes)) = written {
            self.switch.count_passed(bytes);
        }
        written
    }

    /// Writes head and body without a copy.
    ///
    /// Otherwise the server would first copy a body of half a megabyte behind its head. A connection that is
    /// about to be cut is written piece by piece, the head before the body.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.switch.is_open() {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        }
        let next = pieces.iter().find(|piece| !piece.is_empty());
        self.poll_write(cx, next.map_or(&[], |piece| &**piece))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn the_switch_lets_the_head_and_the_promised_part_of_the_body_pass() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
        let switch = FaultSwitch::default();
        assert_eq!(switch.allowance(answer), None);
        switch.cut_in_body(1);
        assert_eq!(switch.allowance(answer), Some(answer.len() - 3));
        switch.count_passed(answer.len() - 3);
        assert_eq!(switch.allowance(b"ody"), Some(0));
    }

    #[test]
    fn a_cut_connection_lets_nothing_pass() {
        let switch = FaultSwitch::default();
        switch.cut_now();
        assert_eq!(switch.allowance(b"HTTP/1.1 200 OK\r\n\r\n"), Some(0));
    }

    #[tokio::test]
    async fn pieces_written_at_once_are_cut_as_if_they_were_one() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, _) = FaultListener(listener).accept().await;
        let pieces = [IoSlice::new(b"HTTP/1.1 200 OK\r\n\r\n"), IoSlice::new(b"body")];
        assert_eq!(stream.write_vectored(&pieces).await.unwrap(), 23, "an uncut connection takes all pieces");
        stream.switch.cut_in_body(1);
        assert_eq!(stream.write_vectored(&pieces).await.unwrap(), 19);
        assert_eq!(stream.write_vectored(&pieces[1..]).await.unwrap(), 1);
        assert!(stream.write_vectored(&[IoSlice::new(b"ody")]).await.is_err());
        drop(stream);
        let mut taken = String::new();
        caller.read_to_string(&mut taken).await.unwrap();
        assert_eq!(taken, "HTTP/1.1 200 OK\r\n\r\nbodyHTTP/1.1 200 OK\r\n\r\nb");
    }
}
