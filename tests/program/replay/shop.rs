//! An account whose lists can lack a record, a daemon against it, and a clock advanced by hand.

use crate::support::cluster;
use crate::support::outsider::{Outsider, quoted};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tallyd::client::{HttpSettings, HttpTransport, PlatformRequest, SendFuture, Transport};
use tallyd::config::Config;
use tallyd::daemon::run_job;
use tallyd::daemon::{Daemon, SystemClock};
use tallyd::exec;
use tallyd::model::{CallEffect, Clock, JobKind, Moment, RunTrigger, Timestamp};
use tallyd::sandbox::{self, Sandbox, SandboxOptions};
use tallyd::store::{DatabaseLocation, StoreOptions};

/// The jobs that read the platform, those first on whose facts others depend.
const READS: [JobKind; 11] = [
    JobKind::Warehouses,
    JobKind::Suppliers,
    JobKind::Storefronts,
    JobKind::ListingTemplates,
    JobKind::Shipments,
    JobKind::OrderLines,
    JobKind::KitComponents,
    JobKind::TopSelling,
    JobKind::Balances,
    JobKind::BusinessHealth,
    JobKind::WorkQueue,
];

#[test]
fn every_job_that_reads_is_replayed() {
    let others = [JobKind::Push, JobKind::Settle, JobKind::Prune, JobKind::Backup];
    let known: BTreeSet<JobKind> = READS.into_iter().chain(others).collect();
    assert_eq!(known, JobKind::ALL.iter().copied().collect(), "a job that reads belongs to READS");
}

/// Elapsed time, and the offset by which the calendar alone was set forward.
#[derive(Default)]
struct Moved(AtomicI64, AtomicI64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst) + self.1.load(Ordering::SeqCst))
    }

    fn moment(&self) -> Moment {
        Moment(SystemClock.moment().0 + self.0.load(Ordering::SeqCst))
    }
}

/// A transport that removes the last record of some answers.
struct Shrinking {
    inner: HttpTransport,
    answers: Arc<AtomicI64>,
}

impl Transport for Shrinking {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let is_list = request.operation.effect() == CallEffect::Read;
            let mut answer = self.inner.send(request).await?;
            if is_list && self.answers.fetch_sub(1, Ordering::SeqCst) > 0 {
                answer.body = shrunk(&answer.body).unwrap_or(answer.body);
            }
            Ok(answer)
        })
    }
}

fn shrunk(body: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let records = if value.is_array() { &mut value } else { value.get_mut("data")? };
    records.as_array_mut()?.pop()?;
    if let Some(total) = value.pointer_mut("/pagination/TotalNumberOfEntries") {
        *total = json!(total.as_i64()? - 1);
    }
    Some(value.to_string().into_bytes())
}

pub struct Shop {
    pub sandbox: Sandbox,
    pub database: DatabaseLocation,
    clock: Arc<Moved>,
    shrinking: Arc<AtomicI64>,
    daemon: Option<Daemon>,
    dir: tempfile::TempDir,
}

impl Shop {
    pub async fn open(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let options = SandboxOptions {
            listen,
            seed,
            skus: 12,
            orders: 2,
            calls_per_minute: 0,
            ..SandboxOptions::default()
        };
        let sandbox = sandbox::start_sandbox(options).await.unwrap();
        std::fs::write(dir.path().join("i"), sandbox.integration_key()).unwrap();
        std::fs::write(dir.path().join("g"), sandbox.gateway_key()).unwrap();
        let database = cluster::new_location(&dir.path().join("tallyd.db"));
        let (clock, shrinking) = (Arc::default(), Arc::default());
        let mut shop = Self { sandbox, database, clock, shrinking, daemon: None, dir };
        std::fs::write(shop.path("tallyd.toml"), shop.toml()).unwrap();
        shop.restart().await;
        shop
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn toml(&self) -> String {
        format!(
            "[service]\nbase_url = \"http://{}\"\nintegration_key_file = {:?}\ngateway_key_file = {:?}\n\
             timeout = \"1s\"\n[database]\n{}[limits]\ncalls_per_minute = 6000\n\
             bad_requests_per_day = 500\n[quantities]\nmax_fact_age = \"0s\"\n",
            self.sandbox.local_addr(),
            self.path("i"),
            self.path("g"),
            cluster::location_toml(&self.database)
        )
    }

    /// Ends the daemon as a kill would, and starts the next.
    pub async fn restart(&mut self) {
        self.end();
        let config = Config::from_toml(&self.toml()).unwrap();
        let clock = Arc::<Moved>::clone(&self.clock);
        let keys = config.service.keys.read_keys().unwrap().account;
        let mut settings = HttpSettings::new(&config.service.base_url);
        settings.timeout = Duration::from_secs(1);
        let inner = HttpTransport::new(&settings, &keys).unwrap();
        let transport = Arc::new(Shrinking { inner, answers: Arc::clone(&self.shrinking) });
        let options = StoreOptions::default();
        let started = Daemon::start_with_transport(config, clock, transport, None, options).await;
        self.daemon = Some(started.unwrap());
    }

    /// Ends the daemon, so that commands can take the lock.
    pub fn end(&mut self) {
        drop(self.daemon.take());
    }

    pub fn later(&self, by: Duration) {
        self.clock.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Sets the calendar forward without time passing.
    pub fn jump(&self, by: Duration) {
        self.clock.1.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub fn context(&self) -> &exec::JobContext {
        self.daemon.as_ref().unwrap().context()
    }

    pub async fn track_all(&self) {
        let mut other = self.outsider().await;
        other.track_skus(&self.sandbox.all_skus().await.unwrap()).await;
        other.track_orders(&self.sandbox.order_ids().await.unwrap()).await;
    }

    pub async fn run(&self, kind: JobKind) {
        run_job(self.daemon.as_ref().unwrap().context(), kind, RunTrigger::Once).await.unwrap();
    }

    /// Runs every reading job once.
    pub async fn read_all(&self) {
        for kind in READS {
            self.run(kind).await;
        }
    }

    /// Opens another program's connection.
    pub async fn outsider(&self) -> Outsider {
        Outsider::at(&self.database).await
    }

    /// Opens a replayed mirror, which is a file with either engine.
    pub async fn mirror(&self, file: &str) -> Outsider {
        Outsider::at(&self.path(file).into()).await
    }

    /// Executes statements as another program.
    pub async fn sql(&self, sql: &str) {
        self.outsider().await.run(sql).await.unwrap();
    }

    /// Removes the last record of this many further list answers.
    pub fn shrink(&self, answers: usize) {
        self.shrinking.store(i64::try_from(answers % 8).unwrap(), Ordering::SeqCst);
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.outsider().await.value(sql).await
    }

    pub async fn change(&self, key: &str, kind: &str, body: Value) {
        let row = [key, kind, &body.to_string()].map(quoted).join(", ");
        self.sql(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await;
    }

    /// Sets a fault for the next call of an operation.
    pub async fn fault(&self, operation: &str, what: &Value) {
        let mut fault = json!({"Operation": operation, "Times": 1});
        fault.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        let request =
            axum::http::Request::post("/_sandbox/faults").header("content-type", "application/json");
        let request = request.body(json!([fault]).to_string().into()).unwrap();
        drop(self.sandbox.core().handle_request(request).await);
    }

    pub async fn cli(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(self.path("tallyd.toml")).args(arguments).env_clear();
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }
}
