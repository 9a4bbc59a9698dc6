//! The daemon's loop, seen by another program.
//!
//! Every change is noticed at once, and an invalid one does not stop others. A stop leaves no call in doubt
//! whose answer was still to come. The other program is a plain SQL connection that syncs its commits, as any
//! program does by default: its frames are in the write-ahead log some milliseconds before the commit is
//! visible.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

use super::support::outsider::{Outsider, quoted};
use super::support::{cluster, is_on_server};
use crate::client::{PlatformRequest, SendFuture, Transport};
use crate::config::Config;
use crate::daemon::{Daemon, StartError, SystemClock};
use crate::model::{Clock, JobKind};
use crate::sandbox::SandboxOptions;
use crate::store::{DatabaseLocation, StoreOptions};
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Far more than noticing takes, far less than the scan that needs no notification.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);
/// Number of changes; a notification that is lost half of the time would survive them once in 2^16.
const CHANGES: i64 = 16;

/// A daemon at work in a folder of its own, and the other program.
struct Scene {
    outsider: Outsider,
    stop: CancellationToken,
    running: JoinHandle<Result<(), StartError>>,
    _changed: mpsc::Sender<Config>,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// Starts a daemon against the platform at `address`, with these jobs alone.
    async fn begin(address: &str, keys: [&str; 2], jobs: &[JobKind]) -> Self {
        let (dir, location) = place();
        let config = config(&location, address, keys, jobs);
        let daemon = Daemon::start(config, Arc::new(SystemClock)).await.unwrap();
        Self::run(dir, daemon, Outsider::at(&location).await)
    }

    fn run(dir: tempfile::TempDir, daemon: Daemon, outsider: Outsider) -> Self {
        let (stop, (changed, reload)) = (CancellationToken::new(), mpsc::channel(1));
        let running = tokio::spawn(daemon.run(stop.clone(), reload));
        Self { outsider, stop, running, _changed: changed, _dir: dir }
    }

    /// Inserts a change that is rejected as soon as the daemon notices it, and waits for that.
    async fn until_noticed(&mut self) {
        let sql = "INSERT INTO outbox (key, kind, body) VALUES ('noticed', 'no.such.kind', '{}')";
        self.outsider.run(sql).await.unwrap();
        self.until(1, "SELECT count(*) FROM outbox WHERE key = 'noticed' AND state = 'rejected'").await;
    }

    /// Waits until a query counts at least `least`.
    async fn until(&mut self, least: i64, sql: &'static str) {
        self.until_within(NOTICED_WITHIN, least, sql).await;
    }

    async fn until_within(&mut self, within: Duration, least: i64, sql: &'static str) {
        let looks = async {
            while self.count(sql).await < least {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let came = timeout(within, looks).await;
        assert!(came.is_ok(), "not within {within:?}: {sql}");
    }

    async fn count(&mut self, sql: &'static str) -> i64 {
        self.outsider.value(sql).await
    }

    async fn end(&mut self) {
        self.stop.cancel();
        (&mut self.running).await.unwrap().unwrap();
    }
}

/// Returns a folder of its own and the location of a new database.
fn place() -> (tempfile::TempDir, DatabaseLocation) {
    let dir = tempfile::tempdir().unwrap();
    let location = cluster::new_location(&dir.path().join("t.db"));
    (dir, location)
}

/// A platform that never answers.
struct Silent;

impl Transport for Silent {
    fn send(&self, _: PlatformRequest) -> SendFuture<'_> {
        Box::pin(std::future::pending())
    }
}

fn config(location: &DatabaseLocation, address: &str, keys: [&str; 2], jobs: &[JobKind]) -> Config {
    let database = cluster::location_toml(location);
    let mut text = format!("[service]\nbase_url = \"{address}\"\n[database]\n{database}");
    for job in JobKind::ALL.iter().filter(|job| **job != JobKind::Push) {
        let enabled = jobs.contains(job);
        text.push_str(&format!("[jobs.{job}]\nenabled = {enabled}\n"));
    }
    let file = location.path().with_file_name("tallyd.toml");
    std::fs::write(&file, text).unwrap();
    let names = ["TALLYD_SERVICE__INTEGRATION_KEY", "TALLYD_SERVICE__GATEWAY_KEY"];
    let keys = names.into_iter().zip(keys).map(|(name, key)| (name.to_owned(), key.to_owned()));
    Config::load(&file, keys).unwrap()
}

/// An invalid change needs no platform: it is rejected as soon as it is noticed.
#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_another_program_is_noticed_at_once() {
    let mut scene = Scene::begin("http://127.0.0.1:9", ["k", "k"], &[]).await;
    for change in 1..=CHANGES {
        let sql = format!(
            "INSERT INTO outbox (key, kind, body) VALUES ('change-{change}', 'no.such.kind', '{{}}')"
        );
        scene.outsider.run(&sql).await.unwrap();
        scene.until(change, "SELECT count(*) FROM outbox WHERE state = 'rejected'").await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_no_utf_8_is_rejected_and_stops_nobody_elses_change() {
    let (dir, location) = place();
    if is_on_server(&location, "it refuses such text at the door") {
        return;
    }
    let config = config(&location, "http://127.0.0.1:9", ["k", "k"], &[]);
    let daemon = Daemon::start(config, Arc::new(SystemClock)).await.unwrap();
    let mut scene = Scene::run(dir, daemon, Outsider::at(&location).await);
    let text = |bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("CAST(x'{digits}' AS TEXT)")
    };
    let escaped = br#"{"sku":"\ud800","warehouse_id":1,"quantity":5}"#;
    let latin_1 = b"{\"sku\":\"Gr\xf6\xdfe\",\"warehouse_id\":1,\"quantity\":5}";
    for row in [
        [&b"escaped"[..], b"quantity.set", escaped],
        [b"latin-1", b"quantity.set", latin_1],
        [b"kind", b"gr\xf6\xdfe", b"{}"],
        [b"gr\xf6\xdfe", b"no.such.kind", b"{}"],
    ] {
        let row = row.map(text).join(", ");
        scene.outsider.run(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await.unwrap();
    }
    scene.until(4, "SELECT count(*) FROM outbox WHERE state = 'rejected' AND detail IS NOT NULL").await;
    scene.end().await;
}

/// A failed run is repeated after its delay, and no two runs are concurrent.
///
/// The update of a push is refused twice, which is no proof against its only entry. Afterwards changes arrive
/// during pushes, and each of them triggers the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_tried_again_after_its_delay_and_never_two_at_once() {
    const APPLIED: &str = "SELECT count(*) FROM outbox WHERE state = 'applied'";
    let options =
        SandboxOptions { listen: ([127, 0, 0, 1], 0).into(), latency_ms: 50, ..SandboxOptions::default() };
    let shop = crate::sandbox::start_sandbox(options).await.unwrap();
    let fault = r#"[{"Operation": "POST /api/inventory/updateQuantityOnHand", "Status": 404, "Times": 2}]"#;
    let request = axum::http::Request::post("/_sandbox/faults").header("content-type", "application/json");
    drop(shop.core().handle_request(request.body(fault.into()).unwrap()).await);
    let keys = [shop.integration_key(), shop.gateway_key()];
    let mut scene = Scene::begin(&format!("http://{}", shop.local_addr()), keys, &[]).await;
    for (n, level) in shop.stock_levels().await.unwrap().iter().take(12).enumerate() {
        let body = serde_json::json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "delta": 1});
        let row = [&format!("w{n}"), "quantity.adjust", &body.to_string()].map(quoted).join(", ");
        scene.outsider.run(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await.unwrap();
        if n == 0 {
            // Nothing else triggers the push meanwhile, so it is the retry.
            scene.until_within(Duration::from_secs(50), 1, APPLIED).await;
        }
    }
    scene.until_within(Duration::from_secs(50), 12, APPLIED).await;
    assert_eq!(scene.count("SELECT count(*) FROM run WHERE outcome IN ('failed', 'partial')").await, 2);
    assert!(scene.count("SELECT count(*) FROM run WHERE job = 'push' AND trigger = 'retry'").await > 0);
    scene.end().await;
    let overlapping = "SELECT count(*) FROM run a JOIN run b ON b.job = a.job AND b.id > a.id \
                       WHERE a.ended_ms IS NULL OR b.started_ms < a.ended_ms";
    assert_eq!(scene.count(overlapping).await, 0);
    shop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_the_updates_in_flight() {
    let options =
        SandboxOptions { listen: ([127, 0, 0, 1], 0).into(), latency_ms: 300, ..SandboxOptions::default() };
    let shop = crate::sandbox::start_sandbox(options).await.unwrap();
    let keys = [shop.integration_key(), shop.gateway_key()];
    let mut scene = Scene::begin(&format!("http://{}", shop.local_addr()), keys, &[]).await;
    let mut rows = Vec::new();
    for level in shop.stock_levels().await.unwrap().iter().take(120) {
        let body =
            serde_json::json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "quantity": 4711});
        let key = format!("{} {}", level.sku, level.warehouse_id);
        rows.push(format!("({})", [&key, "quantity.set", &body.to_string()].map(quoted).join(", ")));
    }
    let insert = format!("INSERT INTO outbox (key, kind, body) VALUES {}", rows.join(", "));
    scene.outsider.run(&insert).await.unwrap();
    // Two calls are on their way, and a third waits for its reservation.
    scene.until(50, "SELECT count(*) FROM outbox WHERE state = 'sending'").await;
    scene.end().await;
    assert_eq!(scene.count("SELECT count(*) FROM outbox WHERE state IN ('sending', 'in_doubt')").await, 0);
    assert!(scene.count("SELECT count(*) FROM outbox WHERE state = 'applied'").await >= 50);
    shop.stop().await;
}

/// The start reads the missed schedules and the waiting changes. If the disk fails meanwhile, the daemon reads
/// them again.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_disk_that_passes_ends_no_daemon_at_its_start() {
    let (dir, location) = place();
    if is_on_server(&location, "the log is a file") {
        return;
    }
    let config = config(&location, "http://127.0.0.1:9", ["k", "k"], &[]);
    let daemon = Daemon::start(config, Arc::new(SystemClock)).await.unwrap();
    let outsider = Outsider::at(&location).await;
    // A read of a frame that is not there is an I/O error.
    let log = dir.path().join("t.db-wal");
    let (mut frames, mut log) =
        (Vec::new(), std::fs::File::options().read(true).write(true).open(log).unwrap());
    log.read_to_end(&mut frames).unwrap();
    log.set_len(0).unwrap();
    let mut scene = Scene::run(dir, daemon, outsider);
    tokio::time::sleep(Duration::from_secs(1)).await;
    log.rewind().unwrap();
    log.write_all(&frames).unwrap();
    assert!(!scene.running.is_finished(), "{:?}", (&mut scene.running).await);
    scene.until_noticed().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_delays_a_request_of_a_command_and_ends_no_daemon() {
    let (dir, location) = place();
    let config = config(&location, "http://127.0.0.1:9", ["k", "k"], &[]);
    let options = StoreOptions { busy_timeout: Duration::from_millis(20), ..StoreOptions::default() };
    let daemon = loop {
        let (clock, transport) = (Arc::new(SystemClock), Arc::new(Silent));
        match Daemon::start_with_transport(config.clone(), clock, transport, None, options.clone()).await {
            Ok(daemon) => break daemon,
            // On a server the databases of other tests are migrated at the same time, one after the other.
            Err(error) => assert!(format!("{error:?}").contains("lock timeout"), "{error:?}"),
        }
    };
    let mut scene = Scene::run(dir, daemon, Outsider::at(&location).await);
    scene.until(1, "SELECT count(*) FROM run WHERE job = 'push' AND outcome = 'ok'").await;
    let asked_at = SystemClock.now().to_rfc3339();
    let add = format!("INSERT INTO request (kind, input, asked_at) VALUES ('keys', '{{}}', '{asked_at}')");
    scene.outsider.run(&add).await.unwrap();
    scene.outsider.run("BEGIN; UPDATE journal_sequence SET position = position").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.outsider.run("ROLLBACK").await.unwrap();
    assert!(!scene.running.is_finished(), "{:?}", (&mut scene.running).await);
    scene.until(1, "SELECT count(*) FROM exchange").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_unknown_age_is_refused_without_a_call() {
    let mut scene = Scene::begin("http://127.0.0.1:9", ["k", "k"], &[]).await;
    let add = "INSERT INTO request (kind, input, asked_at) VALUES ('keys', '{}', 'never')";
    scene.outsider.run(add).await.unwrap();
    scene.until(1, "SELECT count(*) FROM request WHERE answer LIKE '%too old%'").await;
    assert_eq!(scene.count("SELECT count(*) FROM exchange").await, 0);
    scene.end().await;
}

#[tokio::test]
async fn a_probe_that_the_database_stops_is_a_failed_run() {
    let (_dir, location) = place();
    let config = config(&location, "http://127.0.0.1:9", ["k", "k"], &[]);
    let daemon = Daemon::start(config, Arc::new(SystemClock)).await.unwrap();
    let mut outsider = Outsider::at(&location).await;
    let refusal = match location.server() {
        Some(_) => "FOR EACH ROW EXECUTE FUNCTION refuse('refused')",
        None => "BEGIN SELECT RAISE(ABORT, 'refused'); END",
    };
    outsider.run(&format!("CREATE TRIGGER refusal BEFORE INSERT ON exchange {refusal}")).await.unwrap();
    assert!(!daemon.probe_key().await.unwrap());
    let ended = outsider.rows("SELECT outcome, summary FROM run").await;
    let [(outcome, summary)]: &[(String, String)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(outcome, "failed", "{summary}");
    assert!(summary.contains("refused"), "{summary}");
}
