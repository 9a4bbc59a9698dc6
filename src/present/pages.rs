//! The start of the page, as `main` passes it to the command line.
//!
//! The command line and the page do not import each other, so the function that starts the page is a value.

use super::ViewError;
use crate::config::Config;
use crate::model::Clock;
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
pub(crate) type PagesStart = Pin<Box<dyn Future<Output = Result<RunningPages, ViewError>> + Send>>;

/// The function that starts the page.
pub(crate) type StartPages = fn(Config, Arc<dyn Clock>, PagesOptions) -> PagesStart;
