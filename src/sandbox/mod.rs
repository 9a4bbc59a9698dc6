//! The sandbox: a complete, stateful implementation of the service in service-interface.md, for tests,
//! demonstrations and fresh machines without an account.
//!
//! It is an island. It imports nothing of the rest of this crate and has its own reading of the document:
//! wire structs, tables, quota arithmetic. A field that is misread must be misread twice, independently, to
//! stay unseen. What the document leaves open is decided here once and written down in docs/sandbox.md.
//!
//! The way of a request: `server` (sockets) → `caller` (no web pages) → `control` (whether it is the control plane's) → `core` (the gates) →
//! `account`, `throttle`, `fault` → `operations` (the table) → one file per concept → `store` and wire.sql. What the
//! control plane does is there for callers in the process too (`world`).
//!
//! Limits: it is one process, made for one machine's tests; it does not speak TLS, and it listens on the loopback
//! interface unless it is told otherwise.

mod account;
mod answer;
mod assortment;
mod caller;
mod calls;
mod clock;
mod contact;
mod control;
mod core;
mod fault;
mod history;
mod kits;
mod line;
mod links;
mod lists;
mod operations;
mod orders;
mod page;
mod product_body;
mod products;
mod quantity;
mod random;
mod reports;
mod request;
mod sales;
mod server;
mod shipments;
mod shop;
mod stock;
mod store;
mod templates;
mod throttle;
mod tracking;
mod warehouses;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use self::core::Core;
pub use answer::Answer;
pub use assortment::SKUS_MIN;
pub use calls::Call;
pub use clock::Clock;
pub use world::StockRow;

/// How long [`Sandbox::stop`] waits for calls in flight. Half a request head on an open connection would hold
/// it for ever.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// How a sandbox is set up. The defaults are those of `tallyd sandbox`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether `listen` may be reachable from other hosts.
    pub allow_remote: bool,
    /// Names it may be called by, beside addresses, `localhost` and names of one word.
    pub hosts: Vec<String>,
    /// The file the shop is kept in; without one it is in memory and gone at the end.
    pub data: Option<PathBuf>,
    /// What the generated shop, the keys and the chance of faults follow from.
    pub seed: u64,
    /// Products of the generated shop, kits among them (at least 10).
    pub skus: u32,
    /// Orders of the generated shop.
    pub orders: u32,
    /// Warehouses of the generated shop (at least 1).
    pub warehouses: u32,
    /// The default company's integration key; without one it follows from the seed.
    pub integration_key: Option<String>,
    /// The gateway key of all companies; without one it follows from the seed.
    pub gateway_key: Option<String>,
    /// Calls of one company in any 60 s; 0 for no limit.
    pub calls_per_minute: u32,
    /// Simultaneous calls of one operation by one company; 0 for no limit.
    pub concurrency: u32,
    /// Answers of 400 to one company within 24 h before it is refused; 0 for no limit.
    pub bad_requests_per_day: u32,
    /// What every call takes at least, ms.
    pub latency_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8399)),
            allow_remote: false,
            hosts: Vec::new(),
            data: None,
            seed: 1,
            skus: 200,
            orders: 40,
            warehouses: 3,
            integration_key: None,
            gateway_key: None,
            calls_per_minute: 120,
            concurrency: 3,
            bad_requests_per_day: 500,
            latency_ms: 0,
        }
    }
}

/// Why a sandbox could not be started, or refused what it was asked in the process.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is reachable from elsewhere and nobody said that it may be.
    #[error(
        "the sandbox does not listen on {0}: anyone on the network could use it; add --allow-remote to do so"
    )]
    Remote(SocketAddr),
    /// The address cannot be had.
    #[error("the sandbox cannot listen on {at}: {cause}; choose another address with --listen")]
    Listen {
        /// The address that was asked for.
        at: SocketAddr,
        /// What the host said.
        cause: std::io::Error,
    },
    /// The database cannot be opened.
    #[error("the sandbox cannot open its database ({at}): {cause}; is another sandbox using it?")]
    Open {
        /// The file, or "in memory".
        at: String,
        /// What the database said.
        cause: sqlx::Error,
    },
    /// The database failed later.
    #[error("the sandbox's database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// An order or a sale that the shop refuses.
    #[error("the sandbox refused ({status}): {message}")]
    Refused {
        /// The status the control plane would answer.
        status: u16,
        /// The control plane's `Message`.
        message: String,
    },
}

impl From<answer::Refusal> for Error {
    fn from(refusal: answer::Refusal) -> Self {
        Self::Refused { status: refusal.status.as_u16(), message: refusal.message }
    }
}

/// A sandbox that is serving. Dropping it ends it at once, [`Sandbox::stop`] in good order.
#[derive(Debug)]
pub struct Sandbox {
    core: Arc<Core>,
    addr: SocketAddr,
    stop: CancellationToken,
    serving: AbortOnDropHandle<()>,
}

/// Starts a sandbox on `options.listen`.
///
/// # Errors
/// When the address is not allowed or cannot be had, or the database cannot be opened.
pub async fn start(options: Options) -> Result<Sandbox, Error> {
    if !options.listen.ip().is_loopback() && !options.allow_remote {
        return Err(Error::Remote(options.listen));
    }
    let at = options.listen;
    let listener = TcpListener::bind(at).await.map_err(|cause| Error::Listen { at, cause })?;
    start_on(listener, &options).await
}

/// Starts a sandbox on a listener that is bound already; `options.listen` is not looked at.
///
/// # Errors
/// When the database cannot be opened, or the listener has no address.
pub async fn start_on(listener: TcpListener, options: &Options) -> Result<Sandbox, Error> {
    let addr = listener.local_addr().map_err(|cause| Error::Listen { at: options.listen, cause })?;
    let core = Arc::new(Core::open(options, Clock::host()).await?);
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server::serve(listener, Arc::clone(&core), stop.clone()));
    Ok(Sandbox { core, addr, stop, serving: AbortOnDropHandle::new(serving) })
}

impl Sandbox {
    /// Where it listens, with the port it was given.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The sandbox without its sockets.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The default company's integration key.
    pub fn integration_key(&self) -> &str {
        self.core.integration_key()
    }

    /// The gateway key, the same for all companies.
    pub fn gateway_key(&self) -> &str {
        self.core.gateway_key()
    }

    /// All cells of the default company; kits are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn stock(&self) -> Result<Vec<StockRow>, Error> {
        self.core.stock().await
    }

    /// All SKUs of the default company, kits too.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn skus(&self) -> Result<Vec<String>, Error> {
        self.core.skus().await
    }

    /// All orders of the default company.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn orders(&self) -> Result<Vec<i64>, Error> {
        self.core.orders().await
    }

    /// All calls of operations so far, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.core.calls()
    }

    /// Places an order of the default company: SKUs with quantities. Gives the order's id.
    ///
    /// # Errors
    /// [`Error::Refused`] when a SKU is unknown or too little is there.
    pub async fn place_order(&self, lines: &[(&str, i64)]) -> Result<i64, Error> {
        self.core.place_order(lines).await
    }

    /// Sells from one cell of the default company; gives what is left there.
    ///
    /// # Errors
    /// [`Error::Refused`] when the cell is unknown or holds too little.
    pub async fn sale(&self, sku: &str, warehouse_id: i64, quantity: i64) -> Result<i64, Error> {
        self.core.sale(sku, warehouse_id, quantity).await
    }

    /// Takes no new calls, answers those in flight, and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        if tokio::time::timeout(STOP_PATIENCE, self.serving).await.is_err() {
            tracing::warn!("the sandbox ended with a connection still open");
        }
    }
}
