//! A daemon and a sandbox side by side.
//!
//! They use real HTTP on loopback, or a transport in between that a test controls.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test takes what it needs, and ends at the first surprise"
)]

pub mod cluster;
pub mod network;
pub mod outsider;
pub mod proxy;
pub mod replayed;
pub mod road;

use cluster::{Cluster, reserve_port};
use outsider::{Outsider, SharedOutsider, quoted};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tallyd::config::Config;
use tallyd::daemon::{Daemon, OnceReport, SystemClock};
use tallyd::sandbox::{self, Sandbox, SandboxOptions};
use tallyd::store::{DatabaseLocation, DatabaseLock, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Time limit of every wait; a daemon that takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a socket that refuses connections: it is bound, so no other test gets its port, and never listens.
pub fn refusing_socket() -> TcpSocket {
    reserve_port(Ipv4Addr::LOCALHOST.into())
}

/// A sandbox with a small account, and a folder for a daemon's database.
pub struct World {
    pub sandbox: Sandbox,
    pub path: PathBuf,
    pub location: DatabaseLocation,
    extra: String,
    is_waiting: AtomicBool,
    /// Another program's connection during a wait. Afterwards it is closed: while it is open, SQLite has no log to
    /// recover after a kill.
    beside: SharedOutsider,
    _dir: tempfile::TempDir,
}

pub struct Working {
    pub stop: CancellationToken,
    pub reload: mpsc::Sender<Config>,
    pub ended: JoinHandle<Result<(), tallyd::daemon::StartError>>,
}

impl World {
    /// Creates an account of 40 SKUs in 3 warehouses, without a quota, so that no call waits for it.
    pub async fn new() -> Self {
        Self::with(
            SandboxOptions { skus: 40, orders: 6, calls_per_minute: 0, ..SandboxOptions::default() },
            "",
        )
        .await
    }

    /// Creates an account with these options, and adds lines to the usual configuration.
    pub async fn with(options: SandboxOptions, extra: &str) -> Self {
        let options = SandboxOptions { listen: ([127, 0, 0, 1], 0).into(), ..options };
        let sandbox = sandbox::start_sandbox(options).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("i"), sandbox.integration_key()).unwrap();
        std::fs::write(dir.path().join("g"), sandbox.gateway_key()).unwrap();
        let path = dir.path().join("tallyd.db");
        let location = cluster::new_location(&path);
        Self {
            sandbox,
            path,
            location,
            extra: extra.into(),
            is_waiting: AtomicBool::new(false),
            beside: SharedOutsider::default(),
            _dir: dir,
        }
    }

    /// Creates the account of [`World::new`] with its database in a schema of a server.
    pub async fn on_server(cluster: &Cluster, schema: &str) -> Self {
        let mut world = Self::new().await;
        world.location = cluster.location(schema, &world.path);
        world
    }

    /// Returns the configuration as text, with more lines.
    pub fn toml(&self, more: &str) -> String {
        let dir = self._dir.path();
        let jobs: String = tallyd::model::JobKind::ALL
            .iter()
            .filter(|kind| **kind != tallyd::model::JobKind::Push)
            .filter(|kind| {
                !["balances", "order_lines", "warehouses", "storefronts", "work_queue"]
                    .contains(&kind.as_str())
            })
            .map(|kind| format!("[jobs.{kind}]\nenabled = false\n"))
            .collect();
        let limits = if self.extra.contains("[limits]") || more.contains("[limits]") {
            ""
        } else {
            "[limits]\ncalls_per_minute = 6000\n"
        };
        format!(
            "[service]\nbase_url = \"http://{}\"\nintegration_key_file = {:?}\ngateway_key_file = {:?}\n\
             [database]\n{}{limits}{jobs}{}\n{more}",
            self.sandbox.local_addr(),
            dir.join("i"),
            dir.join("g"),
            cluster::location_toml(&self.location),
            self.extra
        )
    }

    pub fn config(&self) -> Config {
        Config::from_toml(&self.toml("")).unwrap()
    }

    pub fn write_key(&self, key: &str) {
        std::fs::write(self._dir.path().join("i"), key).unwrap();
    }

    pub async fn daemon(&self) -> Daemon {
        Daemon::start(self.config(), Arc::new(SystemClock)).await.unwrap()
    }

    pub async fn once(&self) -> OnceReport {
        self.daemon().await.run_once().await.unwrap()
    }

    /// Starts a daemon that runs until it is stopped.
    pub async fn work(&self) -> Working {
        let daemon = self.daemon().await;
        let stop = CancellationToken::new();
        let (reload, changed) = mpsc::channel(1);
        let ended = tokio::spawn(daemon.run(stop.clone(), changed));
        Working { stop, reload, ended }
    }

    /// Creates the database without starting a daemon.
    pub async fn make(&self) {
        let lock = DatabaseLock::acquire(&self.path).unwrap();
        Store::open(&self.location, &lock).await.unwrap().close().await.unwrap();
    }

    /// Opens another program's connection.
    pub async fn outsider(&self) -> Outsider {
        Outsider::at(&self.location).await
    }

    pub async fn sql(&self, sql: &str) {
        self.outsider().await.run(sql).await.unwrap();
    }

    /// Tracks every SKU and order of the account.
    pub async fn track_all(&self) {
        self.make().await;
        let mut other = self.outsider().await;
        other.track_skus(&self.sandbox.all_skus().await.unwrap()).await;
        other.track_orders(&self.sandbox.order_ids().await.unwrap()).await;
    }

    /// Inserts a change as a program would.
    pub async fn change(&self, key: &str, kind: &str, body: &str) {
        let row = [key, kind, body].map(quoted).join(", ");
        self.sql(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await;
    }

    /// Returns (state, reason, detail) of a change.
    pub async fn fate(&self, key: &str) -> (String, String, String) {
        let sql = "SELECT state, coalesce(reason, ''), coalesce(detail, '') FROM outbox WHERE key =";
        let sql = format!("{sql} {}", quoted(key));
        self.ask(async |other| other.row(&sql).await).await
    }

    /// Renames all SKUs in the mirror, so that the platform seems to have lost them.
    pub async fn make_strangers_of_all_skus(&self) {
        self.sql("UPDATE product SET sku = sku || ' (lost)'; UPDATE tracked_sku SET sku = sku || ' (lost)'")
            .await;
    }

    /// Returns true if the database is on a server, where this test does not run, and prints the reason.
    pub fn is_on_server(&self, why: &str) -> bool {
        is_on_server(&self.location, why)
    }

    /// Returns true if the database is a file, with which this test does not run, and prints the reason.
    #[allow(clippy::print_stdout, reason = "a test that skips says so")]
    pub fn is_on_file(&self, why: &str) -> bool {
        let is_on_file = self.location.server().is_none();
        if is_on_file {
            println!("skipped: the database is a file: {why}");
        }
        is_on_file
    }

    /// Asserts that a file is undamaged; a server has no such check.
    pub async fn assert_sound(&self) {
        if self.location.server().is_none() {
            let sound = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'";
            assert_eq!(self.number(sound).await, 1);
        }
    }

    /// Returns a number from the database.
    pub async fn number(&self, sql: &str) -> i64 {
        self.ask(async |other| other.value(sql).await).await
    }

    /// Asks as another program, during a wait by one connection.
    async fn ask<T>(&self, question: impl AsyncFnOnce(&mut Outsider) -> T) -> T {
        let answer = self.beside.ask(&self.location, question).await;
        if !self.is_waiting.load(Ordering::SeqCst) {
            self.beside.close().await;
        }
        answer
    }

    /// Returns (sku, warehouse, quantity) of every stock level in the view `stock`.
    pub async fn mirror(&self) -> Vec<(String, i64, i64)> {
        let sql = "SELECT sku, warehouse_id, quantity FROM stock ORDER BY sku, warehouse_id";
        self.ask(async |other| other.rows(sql).await).await
    }

    /// Returns (sku, warehouse, quantity) at the platform, without kits, which have no stock of their own.
    pub async fn shop(&self) -> Vec<(String, i64, i64)> {
        let rows = self.sandbox.stock_levels().await.unwrap();
        let mut levels: Vec<_> = rows.into_iter().map(|r| (r.sku, r.warehouse_id, r.quantity)).collect();
        levels.sort();
        levels
    }

    /// Returns the platform's quantity of one stock level.
    pub async fn shop_level(&self, sku: &str, warehouse: i64) -> i64 {
        let levels = self.shop().await;
        levels.iter().find(|(s, w, _)| s == sku && *w == warehouse).unwrap().2
    }

    /// Returns the number of calls of one operation so far.
    pub fn calls(&self, operation: &str) -> usize {
        self.sandbox.logged_calls().iter().filter(|call| call.operation == operation).count()
    }

    /// Sends a POST to the sandbox with the account's keys, as another program; returns the answer's body.
    pub async fn post(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: s\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             svc-subscription-key: {}\r\ngateway-subscription-key: {}\r\nConnection: close\r\n\r\n{body}",
            body.to_string().len(),
            self.sandbox.integration_key(),
            self.sandbox.gateway_key(),
        );
        let mut stream = tokio::net::TcpStream::connect(self.sandbox.local_addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
        serde_json::from_str(body).unwrap_or_default()
    }

    /// Polls until `done`; fails after a minute with the last runs.
    pub async fn until(&self, what: &str, done: impl AsyncFn(&World) -> bool) {
        let started = Instant::now();
        self.is_waiting.store(true, Ordering::SeqCst);
        while !done(self).await {
            if started.elapsed() >= PATIENCE {
                panic!("waited in vain until {what}; the last runs: {:#?}", self.last_runs().await);
            }
            sleep(Duration::from_millis(10)).await;
        }
        self.is_waiting.store(false, Ordering::SeqCst);
        self.beside.close().await;
    }

    /// Returns (job, trigger, outcome, summary) of the last runs, newest first.
    async fn last_runs(&self) -> Vec<(String, String, Option<String>, Option<String>)> {
        let sql = "SELECT job, trigger, outcome, summary FROM run ORDER BY id DESC LIMIT 20";
        self.outsider().await.rows(sql).await
    }
}

impl Working {
    /// Stops the daemon and returns the time that took.
    pub async fn stop(self) -> Duration {
        let started = Instant::now();
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
        started.elapsed()
    }
}

pub const BALANCES: &str = "POST /api/product/getProductBalances";
pub const UPDATE: &str = "POST /api/inventory/updateQuantityOnHand";

/// Returns true if a database is on a server, where a test does not run, and prints the reason.
#[allow(clippy::print_stdout, reason = "a test that skips says so")]
pub fn is_on_server(location: &DatabaseLocation, why: &str) -> bool {
    let is_on_server = location.server().is_some();
    if is_on_server {
        println!("skipped: the database is on a server: {why}");
    }
    is_on_server
}

/// Returns true if the host has the tool; prints its name if not.
#[allow(clippy::print_stdout, reason = "a test that skips says so")]
pub fn tool(name: &str) -> bool {
    let found = std::process::Command::new(name).arg("--version").output().is_ok();
    if !found {
        println!("skipped: this host has no {name}");
    }
    found
}
