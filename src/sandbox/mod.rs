//! The sandbox: a complete, stateful implementation of the platform.
//!
//! Tests, demonstrations and hosts without an account use it instead of the platform. It implements
//! docs/interface.md. It imports nothing of the rest of this crate and has its own wire structs, tables and
//! quota arithmetic. A misread field would have to be misread twice, independently, to stay undetected.
//! Points that docs/interface.md leaves open are decided here and listed in docs/sandbox.md.
//!
//! Path of a request:
//!
//! 1. `http/server.rs`: sockets
//! 2. `http/origin.rs`: no web pages
//! 3. `control.rs`: routing to the control plane
//! 4. `core.rs`: the gates, with `platform/account.rs`, `platform/throttle.rs` and `faults.rs`
//! 5. `operations/mod.rs`: the table of operations
//! 6. the operation's file, with `store.rs` and wire.sql
//!
//! `in_process.rs` offers the control plane's actions to callers in the process. `seed/` generates the
//! initial data.
//!
//! Limits: the sandbox is a single process for tests on one host. It does not speak TLS, and it listens on
//! the loopback interface by default.

mod clock;
mod control;
mod core;
mod faults;
mod http;
mod in_process;
mod operations;
mod platform;
mod random;
mod seed;
mod store;

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::HeaderName;
use clap::{Args, Command, FromArgMatches};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use self::core::SandboxCore;
pub use clock::SandboxClock;
pub use http::answer::SandboxAnswer;
pub use in_process::SandboxStockLevel;
#[cfg(test)]
pub(crate) use platform::call_log::LoggedCall;

/// Longest time that [`Sandbox::stop`] waits for calls in flight. Without the limit, half a request head on
/// an open connection would block the stop forever.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The configuration of a sandbox, and the arguments of `tallyd sandbox`.
#[derive(Debug, Clone, Args)]
pub struct SandboxOptions {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, default_value = "127.0.0.1:8399", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Accept other hosts; the control plane needs no key, so any host that reaches the port can change all data
    #[arg(long)]
    pub allow_remote: bool,
    /// Accept this host name, beside addresses, localhost and names without a dot (may be repeated)
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Store the data in this file [default: in memory]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Seed of the generated data and keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of generated products, at least 10
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(i64::from(seed::catalog::SKUS_MIN)..))]
    pub skus: u32,
    /// Number of generated orders
    #[arg(long, default_value_t = 40)]
    pub orders: u32,
    /// Number of generated warehouses
    #[arg(long, default_value_t = 3)]
    pub warehouses: u32,
    /// Integration key of the default company [default: derived from the seed]
    #[arg(long, value_name = "KEY")]
    pub integration_key: Option<String>,
    /// Gateway key [default: derived from the seed]
    #[arg(long, value_name = "KEY")]
    pub gateway_key: Option<String>,
    /// Names of the headers with the keys.
    #[command(flatten)]
    pub headers: SandboxHeaders,
    /// Maximum calls of a company in any 60 s; 0 means no limit
    #[arg(long, default_value_t = 120)]
    pub calls_per_minute: u32,
    /// Maximum simultaneous calls of an operation by a company; 0 means no limit
    #[arg(long, default_value_t = 3)]
    pub concurrency: u32,
    /// Maximum answers of 400 to a company within 24 h; 0 means no limit
    #[arg(long, default_value_t = 500)]
    pub bad_requests_per_day: u32,
    /// Minimum duration of each call, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub latency_ms: u64,
    /// Answer in the platform's other form: 28.0 for 28, and no field that is not set
    #[arg(long)]
    pub loose_answers: bool,
}

/// Names of the headers with the keys (docs/interface.md, *Authentication*), which a gateway may spell in another way.
#[derive(Debug, Clone, Args)]
pub struct SandboxHeaders {
    /// Header of the integration key
    #[arg(long, default_value = "svc-subscription-key", value_name = "NAME")]
    pub integration_key_header: HeaderName,
    /// Header of the gateway key
    #[arg(long, default_value = "gateway-subscription-key", value_name = "NAME")]
    pub gateway_key_header: HeaderName,
    /// Header of a marketplace application's id
    #[arg(long, default_value = "application-id", value_name = "NAME")]
    pub application_id_header: HeaderName,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        let none = Self::augment_args(Command::new("sandbox")).get_matches_from(["sandbox"]);
        Self::from_arg_matches(&none).expect("every argument has a default or may be missing")
    }
}

/// The error of a start, or of a refused action in the process.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The address is reachable from other hosts, without permission.
    #[error(
        "the sandbox does not listen on {0}: anyone on the network could use it; add --allow-remote to do so"
    )]
    RemoteAddress(SocketAddr),
    #[error("the sandbox cannot listen on {at}: {cause}; choose another address with --listen")]
    Listen { at: SocketAddr, cause: std::io::Error },
    #[error("the sandbox cannot open its database ({at}): {cause}; is another sandbox using it?")]
    Open { at: String, cause: sqlx::Error },
    #[error("the sandbox's database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// The sandbox refused an order or a sale.
    #[error("the sandbox refused ({status}): {message}")]
    Refused {
        /// Status that the control plane would answer.
        status: u16,
        /// `Message` that the control plane would answer.
        message: String,
    },
}

impl From<http::answer::SandboxRefusal> for SandboxError {
    fn from(refusal: http::answer::SandboxRefusal) -> Self {
        Self::Refused { status: refusal.status.as_u16(), message: refusal.message }
    }
}

/// A running sandbox. Dropping it aborts it, [`Sandbox::stop`] ends it in order.
#[derive(Debug)]
pub struct Sandbox {
    core: Arc<SandboxCore>,
    addr: SocketAddr,
    stop: CancellationToken,
    serving: AbortOnDropHandle<()>,
}

/// Starts a sandbox on `options.listen`, which must be a loopback address unless remote callers are allowed.
pub async fn start_sandbox(options: SandboxOptions) -> Result<Sandbox, SandboxError> {
    if !options.listen.ip().is_loopback() && !options.allow_remote {
        return Err(SandboxError::RemoteAddress(options.listen));
    }
    let at = options.listen;
    let listener = TcpListener::bind(at).await.map_err(|cause| SandboxError::Listen { at, cause })?;
    start_on(listener, &options).await
}

/// Starts a sandbox on a bound listener and ignores `options.listen`.
pub(crate) async fn start_on(
    listener: TcpListener,
    options: &SandboxOptions,
) -> Result<Sandbox, SandboxError> {
    let addr = listener.local_addr().map_err(|cause| SandboxError::Listen { at: options.listen, cause })?;
    let core = Arc::new(SandboxCore::open(options, SandboxClock::from_host()).await?);
    let stop = CancellationToken::new();
    let serving = tokio::spawn(http::server::serve_http(listener, Arc::clone(&core), stop.clone()));
    Ok(Sandbox { core, addr, stop, serving: AbortOnDropHandle::new(serving) })
}

impl Sandbox {
    /// Returns the address with the bound port.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the sandbox without its sockets.
    pub fn core(&self) -> &Arc<SandboxCore> {
        &self.core
    }

    /// Stops accepting calls, answers those in flight, and ends.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if tokio::time::timeout(STOP_TIMEOUT, self.serving).await.is_err() {
            tracing::warn!("the sandbox ended with a connection still open");
        }
    }
}

/// Its actions and its call log are those of the core.
impl Deref for Sandbox {
    type Target = SandboxCore;

    fn deref(&self) -> &SandboxCore {
        &self.core
    }
}

/// Locks a mutex. A poisoned lock is used, because no statement under a lock of the sandbox can fail half way.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
fn assert_outcome<T: std::fmt::Debug + PartialEq>(
    outcome: Result<T, String>,
    expected: Result<T, &str>,
    case: &str,
) {
    match (outcome, expected) {
        (Err(message), Err(part)) => assert!(message.contains(part), "{case}: {message}"),
        (outcome, expected) => assert_eq!(outcome, expected.map_err(str::to_owned), "{case}"),
    }
}
