//! The start of the page, as `main` passes it to the command line.
//!
//! The command line and the page do not import each other, so the function that starts the page is a value.

use crate::config::{Config, KeyError};
use crate::model::Clock;
use crate::store::StoreError;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Options of the page.
#[derive(Clone, Copy, Debug)]
pub struct PagesOptions {
    /// Address to listen on; port 0 takes a free port.
    pub listen: SocketAddr,
    /// True if the page takes no decision.
    pub is_read_only: bool,
}

/// A failure to start the page.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// The address or the token file cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The operating system refused something.
    #[error("{0}")]
    System(String),
    /// The database cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The password of the server cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The page while it is served.
#[derive(Debug)]
pub struct RunningPages {
    /// Address with the token, for a browser.
    pub url: String,
    /// Ends the page.
    pub stop: CancellationToken,
    /// The server; it ends after `stop`.
    pub ended: JoinHandle<()>,
}

impl RunningPages {
    /// Stops the page and waits for its end.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        // A panic of the server is in its log.
        let _ = self.ended.await;
    }
}

/// The result of a start.
pub(crate) type PagesStart = Pin<Box<dyn Future<Output = Result<RunningPages, PagesError>> + Send>>;

/// The function that starts the page.
pub(crate) type StartPages = fn(Config, Arc<dyn Clock>, PagesOptions) -> PagesStart;
