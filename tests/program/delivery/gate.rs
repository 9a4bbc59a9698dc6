//! A gate between the daemon and the service: while it is closed a call stands before it, written down and not sent, until
//! the test lets it go. What must happen between a look and a call happens then, whatever the machine is busy with.

use super::support::Dock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tallyd::client::{HttpTransport, Request, Sending, Transport};
use tallyd::model::Operation;
use tokio::sync::{mpsc, oneshot};

/// A dock whose calls go through a gate, which is open.
pub async fn gated() -> (Dock, Gate) {
    let (closed, (leaving, calls)) = (Arc::<AtomicBool>::default(), mpsc::unbounded_channel());
    let gate = Gate { closed: Arc::clone(&closed), calls };
    (Dock::open_over(|http| Some(Arc::new(Way { http, closed, leaving }))).await, gate)
}

/// The test's side.
pub struct Gate {
    closed: Arc<AtomicBool>,
    calls: mpsc::UnboundedReceiver<Leaving>,
}

impl Gate {
    /// Lets no call out before [`Leaving::go`].
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Lets every call out again.
    pub fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    /// The next call that stands before the gate.
    pub async fn leaving(&mut self) -> Leaving {
        self.calls.recv().await.unwrap()
    }

    /// The next call of this operation; those before it go.
    pub async fn leaving_to(&mut self, operation: Operation) -> Leaving {
        self.leaving_to_any(&[operation]).await
    }

    /// The next call of one of these operations; those before it go.
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
    /// Sends it.
    pub fn go(self) {
        self.go.send(()).unwrap();
    }
}

/// The daemon's side.
struct Way {
    http: HttpTransport,
    closed: Arc<AtomicBool>,
    leaving: mpsc::UnboundedSender<Leaving>,
}

impl Transport for Way {
    fn send(&self, request: Request) -> Sending<'_> {
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
