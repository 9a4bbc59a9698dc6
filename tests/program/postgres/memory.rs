//! Facts about the account's quota that a leader leaves to the next one, on a host of another boot.

use super::hosts::{fill, separate_boots, write_config};
use crate::support::cluster::Cluster;
use crate::support::{UPDATE, World};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tallyd::config::Config;
use tallyd::daemon::{Daemon, SystemClock, run_job};
use tallyd::limiter::{HoldReason, PastReservation, PersistedState};
use tallyd::model::{Clock, JobKind, Moment, RunTrigger};
use tokio::time::{Duration, sleep};

const QUEUE: &str = "GET /api/Company/WorkQueue";

/// Returns a world on a server whose hosts have boots of their own.
async fn account(cluster: &Cluster, schema: &str) -> World {
    let world = World::on_server(cluster, schema).await;
    fill(&world).await;
    separate_boots(&world).await;
    world
}

/// Starts the daemon of a host, which stands by while another one leads.
async fn lead(world: &World, name: &str) -> Daemon {
    let toml = world.toml("").replace("[database]\n", "[database]\ntakeover_after = \"5s\"\n");
    let file = write_config(world, name, &toml);
    let config = Config::from_toml(&std::fs::read_to_string(file).unwrap()).unwrap();
    Daemon::start_or_stand_by(config, Arc::new(SystemClock)).await.unwrap()
}

/// Returns an account whose key is refused that many times, the first time on the host `one`, whose process died then.
async fn refused_on_one(cluster: &Cluster, times: u32) -> World {
    let world = account(cluster, "north").await;
    world.post("/_sandbox/faults", &json!([{"Operation": QUEUE, "Status": 401, "Times": times}])).await;
    let one = lead(&world, "one").await;
    run(&one, JobKind::WorkQueue).await;
    assert!(one.context().limiter.is_refused());
    world
}

async fn run(daemon: &Daemon, kind: JobKind) -> String {
    run_job(daemon.context(), kind, RunTrigger::Schedule).await.unwrap().summary
}

fn limits(daemon: &Daemon) -> PersistedState {
    daemon.context().limiter.persisted_state()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_the_platform_ordered_binds_the_next_host() {
    let Some(cluster) = Cluster::start() else { return };
    let world = account(&cluster, "north").await;
    let fault = json!([{"Operation": QUEUE, "Status": 429, "RetryAfter": 600, "Times": 1}]);
    world.post("/_sandbox/faults", &fault).await;
    let one = lead(&world, "one").await;
    let waiting = run_job(one.context(), JobKind::WorkQueue, RunTrigger::Schedule);
    tokio::select! {
        _ = waiting => panic!("the run waits for the end of the hold"),
        () = world.until("the call is throttled", async |world| {
            world.number("SELECT count(*) FROM exchange WHERE status = 429 AND ended IS NOT NULL").await == 1
        }) => {}
    }
    let ordered = limits(&one).limiter_state.holds;
    assert_eq!(ordered[0].reason, HoldReason::Rate, "{ordered:?}");
    // Its process dies.
    drop(one);
    let other = lead(&world, "other").await;
    let held = limits(&other).limiter_state.holds;
    assert_eq!(
        (held.len(), held[0].reason, held[0].duration_ms),
        (1, ordered[0].reason, ordered[0].duration_ms)
    );
    assert!((held[0].since.0 - ordered[0].since.0).abs() < 10, "it ends as ordered: {held:?}, {ordered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bad_requests_of_a_host_count_on_the_next_one() {
    let Some(cluster) = Cluster::start() else { return };
    let world = account(&cluster, "north").await;
    world.post("/_sandbox/faults", &json!([{"Operation": QUEUE, "Status": 400, "Times": 3}])).await;
    let one = lead(&world, "one").await;
    for _ in 0..3 {
        run(&one, JobKind::WorkQueue).await;
    }
    let counted = limits(&one).bad_requests;
    assert_eq!(counted.len(), 3);
    drop(one);
    let other = lead(&world, "other").await;
    let remembered = limits(&other).bad_requests;
    assert_eq!(remembered.len(), 3);
    for ((before, operation), (after, same)) in counted.iter().zip(&remembered) {
        assert_eq!(operation, same);
        // By the calendar, in milliseconds. Here both hosts have one clock.
        assert!((before.0 - after.0).abs() < 100, "{counted:?}, {remembered:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_refused_on_a_host_is_only_probed_on_the_next_one() {
    let Some(cluster) = Cluster::start() else { return };
    // Also at the first probe of the next host.
    let world = refused_on_one(&cluster, 2).await;
    let other = lead(&world, "other").await;
    assert!(other.context().limiter.is_refused(), "the key is the same one");
    let calls = world.sandbox.logged_calls().len();
    for kind in [JobKind::WorkQueue, JobKind::Balances, JobKind::Push] {
        run(&other, kind).await;
    }
    assert_eq!(world.sandbox.logged_calls().len(), calls, "nothing but probes is sent");
    assert!(!other.probe_key().await.unwrap() && other.context().limiter.is_refused());
    assert!(other.probe_key().await.unwrap() && !other.context().limiter.is_refused());
    run(&other, JobKind::Balances).await;
    assert!(world.sandbox.logged_calls().len() > calls + 2);
    // The key works again, also for the next one.
    drop(other);
    let next = lead(&world, "one").await;
    assert!(!next.context().limiter.is_refused(), "{:?}", limits(&next).limiter_state.holds);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_works_after_a_restart_is_not_refused_on_the_next_host() {
    let Some(cluster) = Cluster::start() else { return };
    let world = refused_on_one(&cluster, 1).await;
    let again = lead(&world, "one").await;
    assert!(!again.context().limiter.is_refused(), "a start of its own tries the key");
    run(&again, JobKind::WorkQueue).await;
    drop(again);
    let other = lead(&world, "other").await;
    assert!(!other.context().limiter.is_refused(), "{:?}", limits(&other).limiter_state.holds);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_changes_keep_their_lanes_on_the_next_host() {
    let Some(cluster) = Cluster::start() else { return };
    let world = account(&cluster, "north").await;
    let one = lead(&world, "one").await;
    run(&one, JobKind::WorkQueue).await;
    let levels = world.shop().await;
    let adjust =
        |at: usize| json!({"sku": levels[at].0, "warehouse_id": levels[at].1, "delta": 1}).to_string();
    world.change("first", "quantity.adjust", &adjust(0)).await;
    run(&one, JobKind::Push).await;
    let mut outsider = world.outsider().await;
    let lanes = "SELECT lane, count(*) FROM exchange GROUP BY lane ORDER BY lane";
    let before: Vec<(String, i64)> = outsider.rows(lanes).await;
    // More than two calls of 25, and behind them a person's change.
    for at in 1..60 {
        world.change(&format!("bulk{at}"), "quantity.adjust", &adjust(at)).await;
    }
    let (sku, warehouse, _) = levels.last().unwrap();
    world
        .sql(&format!(
            "INSERT INTO outbox (key, kind, body, priority) VALUES ('person', 'quantity.adjust', \
             '{{\"sku\":\"{sku}\",\"warehouse_id\":{warehouse},\"delta\":1}}', 1)"
        ))
        .await;
    drop(one);
    let other = lead(&world, "other").await;
    assert_eq!(outsider.rows::<(String, i64)>(lanes).await, before, "the calls of the last minute, by lane");
    run(&other, JobKind::Push).await;
    let sql = format!(
        "SELECT e.lane, o.key FROM exchange e JOIN outbox o ON o.exchange_id = e.id \
         WHERE e.operation = '{UPDATE}' AND o.key <> 'first' ORDER BY e.id, o.priority DESC LIMIT 1"
    );
    let sent_first: (String, String) = outsider.row(&sql).await;
    assert_eq!(sent_first, ("operator".to_owned(), "person".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_knows_by_its_own_clock_when_each_call_of_the_leader_was_answered() {
    let Some(cluster) = Cluster::start() else { return };
    let world = account(&cluster, "north").await;
    let one = lead(&world, "one").await;
    let before_any_look = 3;
    for _ in 0..before_any_look {
        run(&one, JobKind::WorkQueue).await;
        sleep(Duration::from_millis(700)).await;
    }
    let standby = tokio::spawn({
        let world = Arc::new(world);
        let ours = Arc::clone(&world);
        async move { (lead(&ours, "other").await, ours) }
    });
    for _ in 0..6 {
        run(&one, JobKind::WorkQueue).await;
        sleep(Duration::from_millis(700)).await;
    }
    // The store notes the moments of one kernel, of which the trigger makes two boots.
    let stop = tokio_util::sync::CancellationToken::new();
    let (_reload, changed) = tokio::sync::mpsc::channel(1);
    stop.cancel();
    one.run(stop, changed).await.unwrap();
    let (other, world) = standby.await.unwrap();
    let now = SystemClock.moment();
    let sql = "SELECT answered_moment FROM exchange ORDER BY answered_moment";
    let answered: Vec<(i64,)> = world.outsider().await.rows(sql).await;
    assert!(answered.len() >= before_any_look + 6);
    let mut counted: BTreeMap<Moment, usize> = BTreeMap::new();
    for reservation in limits(&other).reservations {
        let PastReservation::Answered(at) = reservation else { panic!("{reservation:?}") };
        *counted.entry(at).or_default() += 1;
    }
    for (answered,) in answered {
        let bound = *counted
            .range(Moment(answered)..)
            .next()
            .expect("no call counts as answered earlier than it was")
            .0;
        let late = bound.0 - answered;
        assert!(late <= 3_000, "a call counts {late} ms too long, {} ms after its answer", now.0 - answered);
        let left = counted.get_mut(&bound).unwrap();
        *left -= 1;
        if *left == 0 {
            counted.remove(&bound);
        }
    }
}
