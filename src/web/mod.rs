//! The page: what the command line knows, to look at, and the decisions that the command line takes.
//!
//! It is a program beside the daemon. It opens the same database, reads it with the functions of the store, and
//! writes only decisions and changes. docs/web.md is the operator's side. Each page is HTML made on the server; the
//! same address with `Accept: application/json` gives its data. Every action is a form, so a browser without scripts
//! can do all of it.
//!
//! | file | subject |
//! | --- | --- |
//! | `server.rs` | sockets: limits of connections, heads and times |
//! | `guard.rs` | the checks of a request before its page sees it, and the headers of each answer |
//! | `access.rs` | the token, the cookies, and the forms that were sent |
//! | `hosts.rs` | the names under which the page may be asked for |
//! | `request.rs` | a request as a page sees it: session, fields, wanted form of the answer |
//! | `layout.rs` | the frame of a page, and its small parts: times, texts, links |
//! | `chart.rs` | charts as SVG |
//! | `live.rs` | server-sent events |
//! | `actions.rs` | what each form does |
//! | `decisions.rs` | the answer to a form |
//! | `pages/` | one file per page |
//!
//! Every text of the platform, of a program or of a key is hostile: [`layout::text`] masks and isolates it, and the
//! templates escape it. Nothing is loaded from another host.

mod access;
mod actions;
mod chart;
mod decisions;
mod guard;
mod hosts;
mod layout;
mod live;
mod pages;
mod request;
mod server;

use self::access::AccessControl;
use self::live::STREAMS_MAX;
use crate::config::Config;
use crate::model::{Clock, Decider, Timestamp};
use crate::present::ViewError;
use crate::store::Store;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
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

struct WebState {
    config: Config,
    store: Store,
    clock: Arc<dyn Clock>,
    access: AccessControl,
    /// Places of the streams of events.
    streams: Arc<Semaphore>,
    is_read_only: bool,
    stop: CancellationToken,
}

impl WebState {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Starts the page.
pub async fn start_pages(
    config: Config,
    clock: Arc<dyn Clock>,
    options: PagesOptions,
) -> Result<RunningPages, ViewError> {
    if !options.listen.ip().is_loopback() && config.web.allow_hosts.is_empty() {
        return Err(ViewError::Invalid(format!(
            "the page does not listen on {}: anyone on the network could reach it without encryption. Listen on \
             127.0.0.1 behind a reverse proxy, and name the proxy's host in `web.allow_hosts`",
            options.listen
        )));
    }
    let token_file = config.web.token_file.clone().unwrap_or_else(|| {
        // A file for each user, so that the page of a person and that of the service do not exclude each other.
        let mut beside = config.database.path.clone().into_os_string();
        beside.push(format!("-web-token-{}", rustix::process::geteuid()));
        beside.into()
    });
    // The journal names the file of the token with each decision.
    let token_name = token_file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let store = Store::open_beside(config.database.location()?).await?;
    store.refuse_moved().await?;
    let store = store.decided_by(&Decider::PageToken(token_name));
    let failed = |error| ViewError::Unknown(format!("cannot listen on {}: {error}", options.listen));
    let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (access, token) = AccessControl::open(&token_file, address.port())?;
    let stop = CancellationToken::new();
    let web = Arc::new(WebState {
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        is_read_only: options.is_read_only,
        stop: stop.clone(),
        config,
        store,
        clock,
        access,
    });
    let ended = tokio::spawn(server::serve(listener, pages::router(web), stop.clone()));
    Ok(RunningPages { url: format!("http://{address}/?token={token}"), stop, ended })
}
