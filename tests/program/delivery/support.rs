//! A dock: a daemon's parts and a sandbox over HTTP on loopback, with a clock advanced by hand.
//!
//! Pushes and settles are run one by one, so that a test controls the events between them.

use crate::support::outsider::{Outsider, SharedOutsider, quoted};
use crate::support::{cluster, is_on_server, replayed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tallyd::client::{AccountKeys, HttpSettings, HttpTransport, Transport};
use tallyd::config::Config;
use tallyd::daemon::run_job;
use tallyd::daemon::{Daemon, SystemClock};
use tallyd::model::time::{SleepFuture, whole_millis};
use tallyd::model::{Clock, JobKind, Moment, RunTrigger, Timestamp};
use tallyd::sandbox::{self, Sandbox, SandboxOptions};
use tallyd::store::{DatabaseLocation, StoreOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

pub const SHIP: &str = "POST /api/Shipments/Create";
pub const TRACK: &str = "POST /api/Shipments/submitTrackingInfo";
pub const UPDATE: &str = "POST /api/inventory/updateQuantityOnHand";
pub const BALANCES: &str = "POST /api/product/getProductBalances";
pub const LINES: &str = "POST /api/orders/getOrderLineItems";
pub const PRODUCT: &str = "POST /api/Inventory";
pub const PRODUCT_PUT: &str = "PUT /api/Inventory";
pub const WAREHOUSE: &str = "POST /api/Warehouses";
pub const TEMPLATE: &str = "POST /api/storefronts/{storefrontid}/listingTemplates";

/// Time-out of a call; the quiet time of a quantity is twice this, and at least 5 s.
pub const TIMEOUT: Duration = Duration::from_secs(1);
/// Longer than the quiet time of a quantity, and than the distance of two checks.
pub const A_MOMENT: Duration = Duration::from_secs(6);
/// Longer than the quiet time of a create.
pub const LONG: Duration = Duration::from_secs(11 * 60);

/// Callback at each read of the clock.
pub type AtNow = Box<dyn FnMut() + Send>;

/// The host's clock, advanced by hand.
#[derive(Default)]
pub struct Moved {
    ahead_ms: Arc<AtomicI64>,
    at_now: Mutex<Option<AtNow>>,
    skips_pauses: AtomicBool,
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        if let Some(act) = &mut *self.at_now.lock().unwrap() {
            act();
        }
        Timestamp(SystemClock.now().0 + self.ahead_ms.load(Ordering::SeqCst))
    }

    fn moment(&self) -> Moment {
        Moment(SystemClock.moment().0 + self.ahead_ms.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> SleepFuture {
        if !self.skips_pauses.load(Ordering::SeqCst) {
            return Box::pin(tokio::time::sleep(duration));
        }
        let ahead_ms = Arc::clone(&self.ahead_ms);
        Box::pin(async move {
            ahead_ms.fetch_add(whole_millis(duration), Ordering::SeqCst);
        })
    }
}

pub struct Dock {
    pub sandbox: Sandbox,
    clock: Arc<Moved>,
    daemon: Option<Daemon>,
    /// Transport between the two, if not plain HTTP.
    between: Option<Arc<dyn Transport>>,
    location: DatabaseLocation,
    /// Another program's connection while the daemon is the same.
    beside: SharedOutsider,
    dir: tempfile::TempDir,
    more: String,
}

/// A daemon that runs by itself until it is dropped.
pub struct AtWork(CancellationToken);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Drop for Dock {
    /// At the end of every test, the projection of the journal equals the mirror.
    fn drop(&mut self) {
        replayed::assert_replayed_on_drop(&self.location);
    }
}

impl Dock {
    pub async fn open() -> Self {
        Self::over("", |_| None).await
    }

    /// Opens a dock with more lines for the configuration.
    pub async fn open_with(more: &str) -> Self {
        Self::over(more, |_| None).await
    }

    /// Opens a dock with a transport in between, made from the sandbox's address and keys.
    pub async fn open_over(between: impl FnOnce(HttpTransport) -> Option<Arc<dyn Transport>>) -> Self {
        Self::over("", between).await
    }

    /// Opens a dock with a transport in between and with more lines for the configuration.
    pub async fn open_with_over(
        more: &str,
        between: impl FnOnce(HttpTransport) -> Option<Arc<dyn Transport>>,
    ) -> Self {
        Self::over(more, between).await
    }

    async fn over(more: &str, between: impl FnOnce(HttpTransport) -> Option<Arc<dyn Transport>>) -> Self {
        let listen = ([127, 0, 0, 1], 0).into();
        let options =
            SandboxOptions { listen, skus: 30, orders: 0, calls_per_minute: 0, ..SandboxOptions::default() };
        let sandbox = sandbox::start_sandbox(options).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("i"), sandbox.integration_key()).unwrap();
        std::fs::write(dir.path().join("g"), sandbox.gateway_key()).unwrap();
        let location = cluster::new_location(&dir.path().join("tallyd.db"));
        let keys = AccountKeys {
            integration: sandbox.integration_key().into(),
            gateway: sandbox.gateway_key().into(),
        };
        let address = format!("http://{}", sandbox.local_addr());
        let mut settings = HttpSettings::new(&address);
        settings.timeout = TIMEOUT;
        let between = between(HttpTransport::new(&settings, &keys).unwrap());
        let mut dock = Self {
            sandbox,
            clock: Arc::default(),
            daemon: None,
            between,
            location,
            beside: SharedOutsider::default(),
            dir,
            more: more.into(),
        };
        dock.restart().await;
        dock.run(JobKind::Warehouses).await;
        dock
    }

    /// Returns the configuration as a file's text.
    pub fn toml(&self) -> String {
        let dir = self.dir.path();
        format!(
            "[service]\nbase_url = \"http://{}\"\nintegration_key_file = {:?}\ngateway_key_file = {:?}\n\
             timeout = \"{}s\"\n[database]\n{}[limits]\ncalls_per_minute = 6000\n\
             {}{}",
            self.sandbox.local_addr(),
            dir.join("i"),
            dir.join("g"),
            TIMEOUT.as_secs(),
            cluster::location_toml(&self.location),
            if self.more.contains("[quantities]") { "" } else { "[quantities]\nmax_fact_age = \"0s\"\n" },
            self.more
        )
    }

    /// Writes a file beside the database; returns its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Ends the daemon as a kill would, and starts the next.
    pub async fn restart(&mut self) {
        self.leave();
        let (config, clock) = (self.config(), self.clock());
        let daemon = match self.between.clone() {
            Some(between) => {
                Daemon::start_with_transport(config, clock, between, None, StoreOptions::default()).await
            }
            None => Daemon::start(config, clock).await,
        };
        self.daemon = Some(daemon.unwrap());
    }

    /// Returns the daemon, to run it by itself.
    pub fn take_daemon(&mut self) -> Daemon {
        self.daemon.take().unwrap()
    }

    /// Ends the daemon, so that another process can take the database's lock.
    pub fn leave(&mut self) {
        self.beside = SharedOutsider::default();
        drop(self.daemon.take());
    }

    pub fn config(&self) -> Config {
        Config::from_toml(&self.toml()).unwrap()
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::<Moved>::clone(&self.clock)
    }

    /// Lets the daemon run by itself; no job is run by hand afterwards.
    pub fn work(&mut self) -> AtWork {
        let stop = CancellationToken::new();
        let (_, reload) = tokio::sync::mpsc::channel(1);
        let daemon = self.daemon.take().unwrap();
        drop(tokio::spawn(daemon.run(stop.clone(), reload)));
        AtWork(stop)
    }

    /// Waits until a change has this state.
    pub async fn until(&self, key: &str, state: &str) {
        self.until_fate(key, |(now, ..)| now == state).await;
    }

    /// Polls the change until `done`; fails after 30 s.
    pub async fn until_fate(&self, key: &str, done: impl Fn(&(String, String, String)) -> bool) {
        let started = tokio::time::Instant::now();
        loop {
            let fate = self.fate(key).await;
            if done(&fate) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "{key} stays {fate:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Runs the program beside the daemon, as an operator does; returns its exit code and output.
    pub async fn tallyd(&self, args: &[&str]) -> (i32, String) {
        let config = self.dir.path().join("tallyd.toml");
        std::fs::write(&config, self.toml()).unwrap();
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tallyd"));
        let command = command.arg("--config").arg(&config).args(args).env("SUDO_USER", "anna");
        let output = command.output().await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    /// Runs a command, asserts success, and returns its output.
    pub async fn done(&self, args: &[&str]) -> String {
        let (code, said) = self.tallyd(args).await;
        assert_eq!(code, 0, "{args:?}: {said}");
        said
    }

    /// Runs a command, asserts that it is refused, and returns the message.
    pub async fn refused(&self, args: &[&str]) -> String {
        let (code, said) = self.tallyd(args).await;
        assert_eq!(code, 1, "{args:?}: {said}");
        said
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    pub fn later(&self, by: Duration) {
        self.clock.ahead_ms.fetch_add(whole_millis(by), Ordering::SeqCst);
    }

    /// Lets each pause of the daemon end at once; the clock advances by it. For jobs that pause between
    /// attempts.
    pub fn skip_pauses(&self) {
        self.clock.skips_pauses.store(true, Ordering::SeqCst);
    }

    /// Sets the callback at each read of the daemon's clock.
    pub fn at_now(&self, act: Option<AtNow>) {
        *self.clock.at_now.lock().unwrap() = act;
    }

    pub fn path(&self) -> &Path {
        self.location.path()
    }

    pub fn location(&self) -> &DatabaseLocation {
        &self.location
    }

    /// Returns true if the database is on a server, where this test does not run, and prints the reason.
    pub fn is_on_server(&self, why: &str) -> bool {
        is_on_server(&self.location, why)
    }

    /// Runs a job once; returns its summary.
    pub async fn run(&self, kind: JobKind) -> String {
        run_job(self.daemon().context(), kind, RunTrigger::Once).await.unwrap().summary
    }

    pub async fn push(&self) -> String {
        self.run(JobKind::Push).await
    }

    pub async fn settle(&self) -> String {
        self.run(JobKind::Settle).await
    }

    /// Runs two checks after the quiet time, far enough apart.
    pub async fn settle_after(&self, quiet: Duration) {
        self.later(quiet);
        self.settle().await;
        self.later(A_MOMENT);
        self.settle().await;
    }

    /// Opens another program's connection.
    pub async fn outsider(&self) -> Outsider {
        Outsider::at(&self.location).await
    }

    /// Tracks these SKUs as a program would.
    pub async fn track_skus(&self, skus: &[impl AsRef<str>]) {
        self.beside.ask(&self.location, async |other| other.track_skus(skus).await).await;
    }

    /// Tracks all SKUs of the platform.
    pub async fn track_all_skus(&self) {
        self.track_skus(&self.sandbox.all_skus().await.unwrap()).await;
    }

    /// Tracks these orders as a program would.
    pub async fn track_orders(&self, orders: &[i64]) {
        self.beside.ask(&self.location, async |other| other.track_orders(orders).await).await;
    }

    /// Inserts a change as a program would.
    pub async fn change(&self, key: &str, kind: &str, body: Value) {
        let row = [key, kind, &body.to_string()].map(quoted).join(", ");
        self.done_sql(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await;
    }

    /// Returns (state, reason, detail) of a change.
    pub async fn fate(&self, key: &str) -> (String, String, String) {
        let sql = "SELECT state, coalesce(reason, ''), coalesce(detail, '') FROM outbox WHERE key =";
        let sql = format!("{sql} {}", quoted(key));
        self.beside.ask(&self.location, async |other| other.row(&sql).await).await
    }

    pub async fn state(&self, key: &str) -> String {
        self.fate(key).await.0
    }

    pub async fn reason(&self, key: &str) -> String {
        self.fate(key).await.1
    }

    /// Returns a number from the database.
    pub async fn number(&self, sql: &str) -> i64 {
        self.beside.ask(&self.location, async |other| other.value(sql).await).await
    }

    /// Executes a statement as another program.
    pub async fn done_sql(&self, sql: &str) {
        self.beside.ask(&self.location, async |other| other.run(sql).await).await.unwrap();
    }

    /// Waits until the query returns this number; fails after 30 s.
    pub async fn until_number(&self, sql: &str, number: i64) {
        let started = tokio::time::Instant::now();
        loop {
            let now = self.number(sql).await;
            if now == number {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "{sql} stays {now}, not {number}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the id of the record that a change made.
    pub async fn made(&self, key: &str) -> i64 {
        let sql = "SELECT created_id FROM delivery JOIN outbox ON id = change_id WHERE key =";
        let sql = format!("{sql} {}", quoted(key));
        self.beside.ask(&self.location, async |other| other.value(&sql).await).await
    }

    /// Returns the number of calls of one operation so far.
    pub fn calls(&self, operation: &str) -> usize {
        self.sandbox.logged_calls().iter().filter(|call| call.operation == operation).count()
    }

    /// Sets faults at the platform.
    pub async fn faults(&self, faults: Value) {
        self.request("POST", "/_sandbox/faults", &faults.to_string()).await;
    }

    /// Sets a single fault.
    pub async fn fault(&self, operation: &str, what: Value) {
        let mut fault = json!({"Operation": operation, "Times": 1});
        fault.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        self.faults(json!([fault])).await;
    }

    /// Places an order with these lines; returns its id and its line ids.
    pub async fn order(&self, lines: &[(&str, i64)]) -> (i64, Vec<i64>) {
        let order = self.sandbox.place_order(lines).await.unwrap();
        let ids = self.lines(order).await.iter().map(|line| whole(&line["OrderLineItemId"])).collect();
        (order, ids)
    }

    /// Returns an order's lines at the platform, read as another program.
    pub async fn lines(&self, order: i64) -> Vec<Value> {
        self.data("POST", "/api/orders/getOrderLineItems", &json!({"OrderId": order}).to_string()).await
    }

    /// Returns the units left of each line.
    pub async fn left(&self, order: i64) -> Vec<i64> {
        self.lines(order).await.iter().map(|line| whole(&line["QuantityNotTiedToShipment"])).collect()
    }

    /// Returns a shipment's items at the platform.
    pub async fn items(&self, shipment: i64) -> Vec<Value> {
        self.data("GET", &format!("/api/Shipments/{shipment}/LineItems"), "").await
    }

    /// Sends a call as another program; returns `data` of the answer.
    pub async fn data(&self, method: &str, path: &str, body: &str) -> Vec<Value> {
        let answer = self.request(method, path, body).await;
        match &answer["data"] {
            Value::Array(data) => data.clone(),
            other => vec![other.clone()],
        }
    }

    /// Returns two SKUs that are no kits and have enough stock.
    pub async fn two_skus(&self) -> (String, String) {
        let stock = self.sandbox.stock_levels().await.unwrap();
        let mut skus: Vec<String> =
            stock.into_iter().filter(|row| row.quantity >= 10).map(|row| row.sku).collect();
        skus.dedup();
        (skus[0].clone(), skus[1].clone())
    }

    pub async fn level(&self, sku: &str, warehouse: i64) -> i64 {
        let stock = self.sandbox.stock_levels().await.unwrap();
        stock.iter().find(|row| row.sku == sku && row.warehouse_id == warehouse).unwrap().quantity
    }

    /// Sends a raw call, as a person on the platform's own pages would cause it.
    pub async fn request(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = tokio::net::TcpStream::connect(self.sandbox.local_addr()).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: s\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             svc-subscription-key: {}\r\ngateway-subscription-key: {}\r\nConnection: close\r\n\r\n{body}",
            body.len(),
            self.sandbox.integration_key(),
            self.sandbox.gateway_key()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// Returns the operator as the journal names them: behind `sudo` where the tests run as root, else the account.
pub fn operator() -> String {
    let id = |option| {
        let output = std::process::Command::new("id").arg(option).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let name = if id("-u") == "0" { "anna".to_owned() } else { id("-un") };
    format!("user:{name}")
}

pub fn whole(value: &Value) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "ids and quantities of a test are small")]
    let whole = value.as_f64().unwrap() as i64;
    whole
}
