//! Leaders that are paused at each step of a call with changes, and woken after their takeover.
//!
//! Ignored by default, because it waits for minutes; `.ci/long` runs it.

#![allow(clippy::print_stdout, reason = "a measurement prints its figures")]

use super::hosts::{Host, Inserting, fill, judge, separate_boots, settling, write_config};
use crate::support::World;
use crate::support::cluster::Cluster;
use crate::support::proxy::{CommitFate, Proxy, SeenTransaction, TransactionStage};
use crate::support::road::open_road;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tallyd::sandbox::SandboxOptions;
use tallyd::store::DatabaseLocation;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};

/// Step at which a leader is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// In the transaction of the claim, before its commit.
    BeforeClaim,
    /// The commit of the claim is on its way.
    AtClaim,
    /// The claim is committed; the leader does not know it yet.
    AfterClaim,
    /// The request is on its way; the platform answers while the leader is stopped.
    AfterSend,
    /// In the transaction of the conclusion, before its commit.
    BeforeConclusion,
    /// The commit of the conclusion is on its way.
    AtConclusion,
}

const STEPS: [Step; 6] = [
    Step::BeforeClaim,
    Step::AtClaim,
    Step::AfterClaim,
    Step::AfterSend,
    Step::BeforeConclusion,
    Step::AtConclusion,
];

/// Kind of change whose call is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Quantity,
    Shipment,
}

impl Subject {
    fn path(self) -> &'static str {
        match self {
            Self::Quantity => "/api/inventory/updateQuantityOnHand",
            Self::Shipment => "/api/Shipments/Create",
        }
    }
}

/// Returns the step that a transaction is at, and the kind of change that it claims or concludes.
fn step_of(stage: TransactionStage, seen: &SeenTransaction) -> Option<(Step, Subject)> {
    if seen.mentions("state = 'sending'") {
        let subjects = [Subject::Quantity, Subject::Shipment];
        let subject = subjects.into_iter().find(|subject| seen.mentions(subject.path()))?;
        let step = match stage {
            TransactionStage::Runs => Step::BeforeClaim,
            TransactionStage::Commits => Step::AtClaim,
            TransactionStage::Made => Step::AfterClaim,
        };
        return Some((step, subject));
    }
    if !seen.mentions("UPDATE exchange SET ended") || !seen.mentions("UPDATE outbox SET") {
        return None;
    }
    let subject = if seen.mentions("INTO shipment") { Subject::Shipment } else { Subject::Quantity };
    match stage {
        TransactionStage::Runs => Some((Step::BeforeConclusion, subject)),
        TransactionStage::Commits => Some((Step::AtConclusion, subject)),
        TransactionStage::Made => None,
    }
}

/// Trap that stops a process at a step.
#[derive(Default)]
struct Trap {
    set_for: Mutex<Option<(Step, Subject)>>,
    pid: AtomicU32,
    sprung: Notify,
    last_sent: Mutex<Option<Instant>>,
}

impl Trap {
    /// Stops the process if the trap is set for this step.
    fn pass(&self, at: (Step, Subject)) {
        if self.set_for.lock().unwrap().take_if(|set_for| *set_for == at).is_some() {
            let pid = self.pid.load(Ordering::SeqCst).to_string();
            assert!(std::process::Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
            self.sprung.notify_one();
        }
    }

    fn note_sent(&self, bytes: &[u8]) {
        *self.last_sent.lock().unwrap() = Some(Instant::now());
        for subject in [Subject::Quantity, Subject::Shipment] {
            let path = subject.path().as_bytes();
            if bytes.windows(path.len()).any(|part| part == path) {
                self.pass((Step::AfterSend, subject));
            }
        }
    }
}

/// Host whose ways to the server and to the platform are watched.
struct Watched {
    config: PathBuf,
    trap: Arc<Trap>,
    _proxy: Proxy,
}

impl Watched {
    async fn new(world: &World, name: &str) -> Self {
        let trap = Arc::new(Trap::default());
        let (on_road, on_way) = (Arc::clone(&trap), Arc::clone(&trap));
        let platform = world.sandbox.local_addr();
        let road = open_road(platform.ip(), platform, move |bytes| on_road.note_sent(bytes)).await;
        let proxy = Proxy::observe(&world.location, move |stage, seen| {
            step_of(stage, seen).into_iter().for_each(|at| on_way.pass(at));
            CommitFate::Passes
        });
        let proxy = proxy.await;
        let url = |location: &DatabaseLocation| location.server().unwrap().url().to_owned();
        let config = settling(world)
            .replace("[database]\n", "[database]\ntakeover_after = \"5s\"\n")
            .replace(&url(&world.location), &url(&proxy.location))
            .replace(&platform.to_string(), &road.to_string());
        Self { config: write_config(world, name, &config), trap, _proxy: proxy }
    }

    fn start(&self) -> Host {
        let host = Host::start_with(self.config.clone());
        self.trap.pid.store(host.child.id().unwrap(), Ordering::SeqCst);
        host
    }
}

/// Orders with two units of a line each, of which a change ships one: a second shipment would be possible, and seen.
struct Orders(Vec<(i64, i64)>);

impl Orders {
    async fn place(world: &World, count: usize) -> Self {
        let levels = world.shop().await;
        let mut orders = Vec::new();
        for level in levels.iter().filter(|level| level.2 >= 20).cycle().take(count) {
            let order = world.sandbox.place_order(&[(level.0.as_str(), 2)]).await.unwrap();
            let line = Self::line(world, order).await["OrderLineItemId"].as_i64().unwrap();
            orders.push((order, line));
        }
        Self(orders)
    }

    async fn line(world: &World, order: i64) -> serde_json::Value {
        let answer = world.post("/api/orders/getOrderLineItems", &json!({"OrderId": order})).await;
        let data = &answer["data"];
        data.get(0).unwrap_or(data).clone()
    }

    /// Queues the shipment of an order.
    async fn ship(&self, world: &World, number: usize) {
        let (order, line) = self.0[number];
        let body = json!({"order_id": order, "lines": [{"line_item_id": line, "quantity": 1}]});
        world.change(&format!("s{number}"), "shipment.create", &body.to_string()).await;
    }

    /// Asserts that the first `shipped` orders were shipped once each.
    async fn judge(&self, world: &World, shipped: usize) {
        for (order, _) in &self.0[..shipped] {
            let left = &Self::line(world, *order).await["QuantityNotTiedToShipment"];
            assert_eq!(left, 1, "order {order} is shipped once");
        }
    }
}

/// Stops the leader, at a step of a kind of change or, with `None`, at any time.
async fn stop(
    site: &Watched,
    leader: &Host,
    world: &World,
    at: Option<(Step, Subject)>,
    shipment: impl Future,
) {
    let Some(at) = at else {
        let at_ms = world.sandbox.logged_calls().len() as u64 * 37 % 400;
        sleep(Duration::from_millis(at_ms)).await;
        return leader.signal("-STOP").await;
    };
    *site.trap.set_for.lock().unwrap() = Some(at);
    if at.1 == Subject::Shipment {
        shipment.await;
    }
    let sprung = timeout(Duration::from_secs(120), site.trap.sprung.notified());
    if sprung.await.is_err() {
        panic!("the leader does not come to {at:?}: {:#?}", leader.log_tail());
    }
}

/// Pauses leaders at these steps in turn and wakes them after the takeover. Returns how many sent something then.
async fn pauses(cluster: &Cluster, schema: &str, steps: &[Option<(Step, Subject)>]) -> usize {
    // More stock levels than the calls in doubt hold up for a minute.
    let options = SandboxOptions { skus: 400, orders: 6, calls_per_minute: 0, ..SandboxOptions::default() };
    let mut world = World::with(options, "").await;
    world.location = cluster.location(schema, &world.path);
    fill(&world).await;
    separate_boots(&world).await;
    let shipments = steps.iter().flatten().filter(|at| at.1 == Subject::Shipment).count();
    let orders = Orders::place(&world, shipments).await;
    let before = world.shop().await;
    let sites = [Watched::new(&world, "one").await, Watched::new(&world, "other").await];
    let inserting = Inserting::start(&world, Duration::from_millis(40)).await;
    let mut leader = sites[0].start();
    leader.until("daemon.ready").await;
    let mut standby = sites[1].start();
    let (mut late, mut shipped) = (0, 0);
    for (round, at) in steps.iter().enumerate() {
        standby.until("lead.standby").await;
        let site = &sites[round % 2];
        stop(site, &leader, &world, *at, orders.ship(&world, shipped)).await;
        shipped += usize::from(at.is_some_and(|at| at.1 == Subject::Shipment));
        standby.until("lead.taken").await;
        let taken = Instant::now();
        standby.until("daemon.ready").await;
        leader.signal("-CONT").await;
        assert_eq!(leader.ended().await, Some(1), "a replaced leader ends");
        leader.until("lead.lost").await;
        let sent_late = site.trap.last_sent.lock().unwrap().is_some_and(|sent| sent > taken);
        if sent_late {
            println!("{schema}, round {round}: sent after the takeover, stopped at {at:?}");
        }
        late += usize::from(sent_late);
        leader = std::mem::replace(&mut standby, site.start());
    }
    let inserted = inserting.stop().await;
    drop(standby);
    judge(&world, &before, inserted, leader).await;
    orders.judge(&world, shipped).await;
    late
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes twenty minutes; .ci/long runs it"]
async fn two_hundred_paused_leaders_commit_nothing_after_their_takeover() {
    let Some(cluster) = Cluster::start() else { return };
    let subjects = [Subject::Quantity, Subject::Shipment];
    let each = STEPS.into_iter().flat_map(|step| subjects.map(|subject| Some((step, subject))));
    let steps: Vec<_> = each.chain([None]).cycle().take(200).collect();
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"];
    let part = |schema, number: usize| pauses(&cluster, schema, &steps[number * 40..][..40]);
    let (a, b, c, d, e) = tokio::join!(part(a, 0), part(b, 1), part(c, 2), part(d, 3), part(e, 4));
    let late = a + b + c + d + e;
    println!("{late} of 200 paused leaders sent something after their takeover");
    assert!(late <= 1, "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_paused_between_claim_and_send_sends_nothing_after_its_takeover() {
    let Some(cluster) = Cluster::start() else { return };
    let steps = [Step::AtClaim, Step::AfterClaim].map(|step| Some((step, Subject::Quantity)));
    assert_eq!(pauses(&cluster, "north", &steps).await, 0);
}
