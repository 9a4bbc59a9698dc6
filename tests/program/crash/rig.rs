//! Support of the crash tests: a clock advanced by hand, a daemon on it, the program as a child.

use crate::support::{World, cluster};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tallyd::client::{Client, HttpSettings, HttpTransport, PlatformRequest, SendFuture, Transport};
use tallyd::config::Config;
use tallyd::daemon::run_job;
use tallyd::daemon::{Daemon, SystemClock, boot_id};
use tallyd::exec::JobContext;
use tallyd::model::{Clock, JobKind, Moment, Operation, RunTrigger, Timestamp};
use tallyd::store::{DatabaseLocation, DatabaseLock, Durability, Store, StoreError, StoreOptions};

/// The host's clock, advanced by hand.
pub struct Moved(AtomicI64);

impl Moved {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(0)))
    }

    pub fn later(&self, by_ms: i64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }

    fn moment(&self) -> Moment {
        Moment(SystemClock.moment().0 + self.0.load(Ordering::SeqCst))
    }
}

/// Returns the world's configuration with a short time-out, with the settle job, and with more lines.
pub fn toml(world: &World, more: &str) -> String {
    let toml = world.toml(more).replace("[service]\n", "[service]\ntimeout = \"1s\"\n");
    toml.replace("[jobs.settle]\nenabled = false\n", "")
}

pub fn config(world: &World, more: &str) -> Config {
    Config::from_toml(&toml(world, more)).unwrap()
}

/// Creates the transport to the world's sandbox.
pub fn transport(config: &Config) -> Arc<HttpTransport> {
    let keys = config.service.keys.read_keys().unwrap().account;
    Arc::new(HttpTransport::new(&HttpSettings::new(&config.service.base_url), &keys).unwrap())
}

/// Starts a daemon that does nothing by itself.
pub async fn daemon(world: &World, more: &str, clock: &Arc<Moved>) -> Daemon {
    let config = config(world, more);
    let transport = transport(&config);
    daemon_over(config, clock, transport).await
}

pub async fn daemon_over(config: Config, clock: &Arc<Moved>, transport: Arc<dyn Transport>) -> Daemon {
    let options = StoreOptions::default();
    Daemon::start_with_transport(config, Arc::<Moved>::clone(clock), transport, None, options).await.unwrap()
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Claimed, with no byte sent.
    Before,
    /// Carried out by the platform, with the answer unread.
    After,
}

/// Called on both sides of each call; `false` means that the calling process is dead, and the call never
/// returns.
pub type Hook = Box<dyn Fn(Operation, Side) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// A transport with a hook on both sides of each call.
pub struct Wire {
    pub inner: Arc<dyn Transport>,
    pub hook: Hook,
}

impl Transport for Wire {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let operation = request.operation;
            if !(self.hook)(operation, Side::Before).await {
                std::future::pending::<()>().await;
            }
            let answer = self.inner.send(request).await;
            if !(self.hook)(operation, Side::After).await {
                std::future::pending::<()>().await;
            }
            answer
        })
    }
}

/// A life of the process: the parts of a daemon on a database that the test opens.
pub struct Life {
    pub context: JobContext,
    _lock: DatabaseLock,
}

impl Life {
    pub async fn begin(
        world: &World,
        clock: &Arc<Moved>,
        transport: Arc<dyn Transport>,
        opening: StoreOptions,
    ) -> Result<Self, StoreError> {
        Self::begin_at(&world.location, world, clock, transport, opening).await
    }

    /// Begins a life that opens the world's database at another location, as behind a proxy.
    pub async fn begin_at(
        location: &DatabaseLocation,
        world: &World,
        clock: &Arc<Moved>,
        transport: Arc<dyn Transport>,
        opening: StoreOptions,
    ) -> Result<Self, StoreError> {
        // The parts except the store are those of a daemon on a scratch database.
        let scrap = tempfile::tempdir().unwrap();
        let scratch = cluster::new_location(&scrap.path().join("scrap.db"));
        let [own, scratch] = [&world.location, &scratch].map(cluster::location_toml);
        let settings = Config::from_toml(&toml(world, "").replace(&own, &scratch)).unwrap();
        let daemon = daemon_over(settings, clock, Arc::clone(&transport)).await;
        let lock = DatabaseLock::acquire(&world.path)?;
        let store = Store::open_to_lead(location, &lock, opening).await?;
        store.migrate().await?;
        let mut write = store.begin_write(Durability::Full).await?;
        let started = write.session_begin(&boot_id(&**clock), "test", clock.now(), clock.moment()).await?;
        write.commit().await?;
        let settings = (*daemon.context().settings()).clone();
        let limiter = daemon.context().limiter.clone();
        let client = Client::new(transport, Arc::<Moved>::clone(clock));
        let context =
            JobContext::new(store, client, limiter, Arc::<Moved>::clone(clock), started.session_id, settings);
        Ok(Self { context, _lock: lock })
    }

    pub async fn run(&self, kind: JobKind) -> String {
        run_job(&self.context, kind, RunTrigger::Once).await.unwrap().summary
    }
}

/// Writes the configuration to a file; returns its path.
pub fn config_file(world: &World, more: &str) -> PathBuf {
    let file = world.path.with_file_name("tallyd.toml");
    std::fs::write(&file, toml(world, more)).unwrap();
    file
}

pub fn command(config: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config).args(args).stdin(Stdio::null());
    command
}

/// Runs the program beside the work in this process.
pub async fn program(config: &Path, args: &[&str]) -> Output {
    let mut command = command(config, args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Returns a number from a database file.
pub async fn number_in(file: &Path, sql: &str) -> i64 {
    let mut connection = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned())).fetch_one(&mut connection).await.unwrap()
}
