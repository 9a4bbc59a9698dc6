//! A gate between the daemon and the platform.
//!
//! While it is closed, a call waits in front of it, in the journal but not sent, until the test lets it pass.
//! So a test can act between a read and a call, at any load of the machine.

use super::support::Dock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tallyd::client::{HttpTransport, PlatformRequest, SendFuture, Transport};
use tallyd::model::Operation;
use tokio::sync::{mpsc, oneshot};

/// Creates a dock whose calls pass a gate, which is open.
pub async fn gated() -> (Dock, Gate) {
    let (closed, (leaving, calls)) = (Arc::<AtomicBool>::default(), mpsc::unbounded_channel());
    let gate = Gate { closed: Arc::clone(&closed), calls };
    (Dock::open_over(|http| Some(Arc::new(Way { http, closed, leaving }))).await, gate)
}

/// The gate, on the test's side.
pub struct Gate {
    closed: Arc<AtomicBool>,
    calls: mpsc::UnboundedReceiver<Leaving>,
}

impl Gate {
    /// Stops every call until [`Leaving::go`].
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Lets all further calls pass.
    pub fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    /// Returns the next call in front of the gate.
    pub async fn leaving(&mut self) -> Leaving {
        self.calls.recv().await.unwrap()
    }

    /// Returns the next call of this operation; calls before it pass.
    pub async fn leaving_to(&mut self, operation: Operation) -> Leaving {
        self.leaving_to_any(&[operation]).await
    }

    /// Returns the next call of one of these operations; calls before it pass.
    pub async fn leaving_to_any(&mut self, operations: &[Operation]) -> Leaving {
        loop {
            let leaving = self.leaving().await;
            if operations.contains(&leaving.operation) {
                return leaving;
            }
            leaving.go();
        }
    }
}

/// A call that is not sent yet.
pub struct Leaving {
    pub operation: Operation,
    go: oneshot::Sender<()>,
}

impl Leaving {
    /// Sends the call.
    pub fn go(self) {
        self.go.send(()).unwrap();
    }
}

/// The gate, on the daemon's side.
struct Way {
    http: HttpTransport,
    closed: Arc<AtomicBool>,
    leaving: mpsc::UnboundedSender<Leaving>,
}

impl Transport for Way {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(async move {
            if self.closed.load(Ordering::SeqCst) {
                let (go, gone) = oneshot::channel();
                self.leaving.send(Leaving { operation: request.operation, go }).unwrap();
                gone.await.unwrap();
            }
            self.http.send(request).await
        })
    }
}
