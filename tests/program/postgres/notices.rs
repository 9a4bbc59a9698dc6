//! Notices and pauses of two hosts: a receiver gets each notice once, and a pause outlives its leader.

use super::hosts::{Host, begin, run, write_config};
use crate::notices::{Receiver, SILENT, UP};
use crate::support::cluster::Cluster;
use crate::support::{UPDATE, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::time::{Duration, Instant, sleep, timeout};

/// Time for a notice: each minute collects and delivers, and a takeover delivers at once.
const NOTICE_TIME: Duration = Duration::from_secs(150);

/// Writes the configurations of two hosts with these lines.
fn two_hosts(world: &World, more: &str) -> [PathBuf; 2] {
    let short = world.toml(more).replace("[database]\n", "[database]\ntakeover_after = \"5s\"\n");
    ["one", "other"].map(|name| write_config(world, name, &short))
}

/// Starts a leader and a standby.
async fn start_both([one, other]: &[PathBuf; 2]) -> (Host, Host) {
    let mut leader = Host::start_with(one.clone());
    leader.until("daemon.ready").await;
    let mut standby = Host::start_with(other.clone());
    standby.until("lead.standby").await;
    (leader, standby)
}

/// Kills the leader, and returns the next one and a new standby on the killed host.
async fn kill_leader(mut leader: Host, mut standby: Host) -> (Host, Host) {
    leader.signal("-KILL").await;
    leader.ended().await;
    standby.until("daemon.ready").await;
    let mut again = Host::start_with(leader.config.clone());
    again.until("lead.standby").await;
    (standby, again)
}

/// Waits until this number of notices has this condition.
async fn until_notices(world: &World, count: i64, condition: &str) {
    let begun = Instant::now();
    let sql = format!("SELECT count(*) FROM notice WHERE {condition}");
    while world.number(&sql).await != count {
        assert!(begun.elapsed() < NOTICE_TIME, "not {count} notices: {condition}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns how often each notice came, by its id, and fails if a repetition differs from the first.
fn counted(bodies: &[Value]) -> BTreeMap<String, (usize, Value)> {
    let mut counted = BTreeMap::<String, (usize, Value)>::new();
    for body in bodies {
        let id = body["id"].as_str().unwrap().to_owned();
        let (count, first) = counted.entry(id).or_insert_with(|| (0, body.clone()));
        *count += 1;
        assert_eq!(body, first);
    }
    counted
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits two minutes for the daemon to collect; .ci/long runs it"]
async fn a_notice_comes_once_though_leaders_are_killed_before_and_during_its_delivery() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, _) = begin(&cluster).await;
    let mut receiver = Receiver::start().await;
    let notify = format!("[[notify]]\nwebhook = \"{}/hook\"\nwindow = \"1s\"\n", receiver.address);
    let (leader, standby) = start_both(&two_hosts(&world, &notify)).await;
    world.change("first", "no.such.kind", "{}").await;
    // A notice is due a second after it was collected, so the leader would deliver it with its next minute.
    until_notices(&world, 1, "sent_ms IS NULL").await;
    assert_eq!(receiver.bodies(), [] as [Value; 0]);
    let (leader, standby) = kill_leader(leader, standby).await;
    // The takeover is a notice too.
    until_notices(&world, 2, "sent_ms IS NOT NULL").await;

    receiver.set(SILENT);
    while receiver.arrived.try_recv().is_ok() {}
    world.change("second", "no.such.kind", "{}").await;
    timeout(NOTICE_TIME, receiver.arrived.recv()).await.unwrap().unwrap();
    receiver.set(UP);
    let (leader, standby) = kill_leader(leader, standby).await;
    until_notices(&world, 4, "sent_ms IS NOT NULL").await;
    until_notices(&world, 0, "sent_ms IS NULL").await;

    let counted = counted(&receiver.bodies());
    let mut told: Vec<(usize, &str, &str)> = counted
        .values()
        .map(|(count, body)| (*count, body["event"].as_str().unwrap(), body["key"].as_str().unwrap_or("")))
        .collect();
    told.sort_unstable();
    let recovered = (1, "daemon", "");
    assert_eq!(told, [recovered, recovered, (1, "rejected", "first"), (2, "rejected", "second")]);
    drop((leader, standby));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_outlives_its_leader_and_its_end_sends_what_waited() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, (sku, warehouse, quantity)) = begin(&cluster).await;
    let (leader, standby) = start_both(&two_hosts(&world, "")).await;
    let (code, said) = run(&leader.config, &["pause", "--why", "stocktaking"]).await;
    assert_eq!(code, Some(0), "{said}");
    let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": 1}).to_string();
    world.change("before", "quantity.adjust", &body).await;
    let (leader, standby) = kill_leader(leader, standby).await;
    world.change("after", "quantity.adjust", &body).await;
    let (_, said) = run(&leader.config, &["status"]).await;
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("push is paused since ") && first.contains("2 changes pending"), "{said}");
    let (code, said) = run(&leader.config, &["job", "run", "push"]).await;
    assert!(code == Some(1) && said.contains("it did not run, because push is paused since"), "{said}");
    assert_eq!(world.calls(UPDATE), 0);

    // A command on the other host reaches the leader by the database.
    let (code, said) = run(&standby.config, &["resume"]).await;
    assert_eq!((code, said.as_str()), (Some(0), "push: resumed\n"));
    let applied = "SELECT count(*) FROM outbox WHERE state = 'applied'";
    world.until("both are applied", async |world| world.number(applied).await == 2).await;
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity + 2);
    assert_eq!(world.calls(UPDATE), 1, "both in one call");
}
