//! A database is bound to one address and one account.
//!
//! A new key of the account works, another account's key stops the calls.

use super::rig;
use crate::support::{UPDATE, World};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tallyd::client::{HttpTransport, PlatformRequest, SendFuture, Transport};
use tallyd::daemon::{Daemon, SystemClock};
use tallyd::model::Operation;
use tallyd::store::StoreOptions;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Failed account checks: runs that found another account behind the key.
const DIFFERS: &str =
    "SELECT count(*) FROM run WHERE job = 'warehouses' AND trigger = 'operator' AND outcome = 'failed'";

/// Reads the warehouses once and leaves a pending change, so that a wrong account could be harmed.
async fn settled_world() -> (World, std::path::PathBuf) {
    let world = World::new().await;
    let config = rig::config_file(&world, "");
    let output = rig::program(&config, &["run", "--once"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let level = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": -1});
    world.change("a", "quantity.adjust", &body.to_string()).await;
    (world, config)
}

/// Creates another account at the same address, with warehouses of its own; returns its key.
async fn another_company(world: &World) -> String {
    let company = json!({"Name": "Another", "Subscribed": true, "MultiWarehousing": true});
    let made = world.post("/_sandbox/companies", &company).await;
    made["IntegrationKey"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_companys_key_refuses_the_start_before_anything_is_sent() {
    let (world, config) = settled_world().await;
    let own = world.sandbox.integration_key().to_owned();
    world.write_key(&another_company(&world).await);
    for _ in 0..2 {
        let calls = world.sandbox.logged_calls().len();
        let output = rig::program(&config, &["run", "--once"]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("another account and nothing was sent: restore the right key"), "{said}");
        let made: Vec<_> = world.sandbox.logged_calls()[calls..].iter().map(|call| call.operation).collect();
        assert_eq!(made, ["GET /api/Warehouses"]);
    }
    assert_eq!(world.fate("a").await.0, "pending");
    world.write_key(&own);
    rig::program(&config, &["run", "--once"]).await;
    assert_eq!((world.fate("a").await.0.as_str(), world.calls(UPDATE)), ("applied", 1));
    if world.is_on_server("no file has the rows, which are searched for the key") {
        return;
    }
    let dump = std::fs::read(&world.path).unwrap();
    let holds = |key: &str| dump.windows(key.len()).any(|bytes| bytes == key.as_bytes());
    assert!(!holds(&own), "the key itself is nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_address_of_the_same_company_is_proved_with_one_call_and_remembered() {
    let (world, config) = settled_world().await;
    let text = std::fs::read_to_string(&config).unwrap().replace("http://127.0.0.1:", "http://localhost:");
    std::fs::write(&config, text).unwrap();
    for expected in [2, 1] {
        let before = world.calls("GET /api/Warehouses");
        let output = rig::program(&config, &["run", "--once"]).await;
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(world.calls("GET /api/Warehouses") - before, expected, "one of them is the job's own");
    }
    assert_eq!(world.fate("a").await.0, "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_companys_key_read_while_running_sends_nothing_until_the_right_one_is_back() {
    let (world, _) = settled_world().await;
    world.sql("UPDATE outbox SET revision = revision + 1, state_changed_ms = 1, state = 'held', reason = 'brake'").await;
    let own = world.sandbox.integration_key().to_owned();
    let working = world.work().await;
    world.until("the daemon works", async |w| w.number("SELECT count(*) FROM session").await == 2).await;
    world.write_key(&another_company(&world).await);
    working.reload.send(world.config()).await.unwrap();
    world.until("the company was looked at", async |w| w.number(DIFFERS).await == 1).await;
    world.sql("UPDATE outbox SET revision = revision + 1, state_changed_ms = 2, state = 'pending', reason = NULL").await;
    let level = world.shop().await.into_iter().find(|level| level.2 > 20).unwrap();
    let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": -1});
    world.change("b", "quantity.adjust", &body.to_string()).await;
    let refused = "SELECT count(*) FROM run WHERE job = 'push' AND summary LIKE '%refuses the key%'";
    world.until("a push was refused", async |w| w.number(refused).await > 0).await;
    assert_eq!(world.calls(UPDATE), 0);
    world.write_key(&own);
    working.reload.send(world.config()).await.unwrap();
    world.until("the changes are applied", async |w| w.fate("b").await.0 == "applied").await;
    working.stop().await;
}

/// The warehouses in the mirror, as one number.
const WAREHOUSES: &str = "SELECT CAST(sum(id) AS BIGINT) FROM warehouse WHERE missing_since_ms IS NULL";

/// Delays the first list of warehouses between its reservation and its send.
struct Held {
    http: Arc<HttpTransport>,
    is_first: AtomicBool,
    leaving: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl Transport for Held {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let lists = request.operation == Operation::ListWarehouses;
            if lists && self.is_first.swap(false, Ordering::SeqCst) {
                let (open, opened) = oneshot::channel();
                self.leaving.send(open).unwrap();
                opened.await.unwrap();
            }
            self.http.send(request).await
        })
    }
}

/// A call with a reservation is sent with the key that it was planned for.
///
/// Otherwise another account's answer would become our facts, and its warehouses the proof that the account
/// is ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_has_its_place_when_another_companys_key_comes_goes_out_with_the_key_it_was_meant_for() {
    let (world, _) = settled_world().await;
    let ours = world.number(WAREHOUSES).await;
    let http = rig::transport(&world.config());
    let (leaving, mut asking) = mpsc::unbounded_channel();
    let way = Arc::new(Held { http: Arc::clone(&http), is_first: AtomicBool::new(true), leaving });
    let (clock, options) = (Arc::new(SystemClock), StoreOptions::default());
    let daemon = Daemon::start_with_transport(world.config(), clock, way, Some(http), options).await.unwrap();
    let (stop, (reload, changed)) = (CancellationToken::new(), mpsc::channel(1));
    let working = tokio::spawn(daemon.run(stop.clone(), changed));
    let open = asking.recv().await.unwrap();
    world.write_key(&another_company(&world).await);
    reload.send(world.config()).await.unwrap();
    world.until("the company was looked at", async |w| w.number(DIFFERS).await == 1).await;
    open.send(()).unwrap();
    let listed =
        "SELECT count(*) FROM run WHERE job = 'warehouses' AND trigger = 'missed' AND outcome = 'ok'";
    world.until("the warehouses are listed", async |w| w.number(listed).await == 1).await;
    assert_eq!(world.number(WAREHOUSES).await, ours, "the other company's warehouses are no facts");
    stop.cancel();
    working.await.unwrap().unwrap();
}
