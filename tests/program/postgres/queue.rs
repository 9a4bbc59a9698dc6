//! Commands that queue a change beside a server: the daemon that sends it may work on another host.

use super::hosts::{Host, fill, run, write_config};
use crate::support::cluster::Cluster;
use crate::support::{UPDATE, World};
use tokio::time::{Duration, Instant};

#[tokio::test]
async fn a_command_on_any_host_waits_for_the_leader_and_knows_that_there_is_none() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    fill(&world).await;
    let (sku, warehouse, quantity) = world.shop().await.into_iter().find(|level| level.2 >= 50).unwrap();
    let (number, below) = (warehouse.to_string(), (-quantity - 70).to_string());
    let mut leader = Host::start_with(write_config(&world, "leader", &world.toml("")));
    leader.until("daemon.ready").await;
    let mut standby = Host::start_with(write_config(&world, "standby", &world.toml("")));
    standby.until("lead.standby").await;
    let elsewhere = write_config(&world, "elsewhere", &world.toml(""));
    for (host, config) in
        [("leader", &leader.config), ("standby", &standby.config), ("elsewhere", &elsewhere)]
    {
        let adjust = ["quantity", "adjust", &sku, &number, "1", "--key", host, "--wait=60s"];
        let (code, shown) = run(config, &adjust).await;
        assert_eq!(code, Some(0), "{host}: {shown}");
        assert!(shown.contains(&format!("change {host} is applied: ")), "{shown}");
        assert!(!shown.contains("no daemon runs"), "{shown}");
    }
    assert_eq!(world.shop_level(&sku, warehouse).await, quantity + 3);
    let (code, shown) = run(&elsewhere, &["quantity", "adjust", &sku, &number, &below, "--wait=60s"]).await;
    assert_eq!(code, Some(5), "{shown}");

    standby.signal("-TERM").await;
    assert_eq!(standby.ended().await, Some(0));
    leader.child.kill().await.unwrap();
    let begun = Instant::now();
    let wait = ["quantity", "adjust", &sku, &number, "1", "--wait=10m"];
    let (code, shown) = run(&leader.config, &wait).await;
    assert_eq!(code, Some(7), "its own lock tells that the leader is dead: {shown}");
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let (code, shown) = run(&elsewhere, &wait).await;
    assert_eq!(code, Some(7), "the silence of the heartbeat tells on another host: {shown}");
    assert!(shown.contains("no daemon runs"), "{shown}");
}

/// The change is committed, so a lost server must not read as a failed insertion.
#[tokio::test]
async fn a_wait_outlasts_a_restart_of_the_server() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    fill(&world).await;
    let (sku, warehouse, _) = world.shop().await[0].clone();
    let mut leader = Host::start_with(write_config(&world, "leader", &world.toml("")));
    leader.until("daemon.ready").await;
    let refusal = serde_json::json!([{"Operation": UPDATE, "Status": 503}]);
    world.post("/_sandbox/faults", &refusal).await;
    let elsewhere = write_config(&world, "elsewhere", &world.toml(""));
    let number = warehouse.to_string();
    let wait = ["quantity", "adjust", &sku, &number, "1", "--key", "kept", "--wait=20s"];
    let restart = async {
        let found = "SELECT count(*) FROM outbox WHERE key = 'kept'";
        world.until("the change is queued", async |world| world.number(found).await == 1).await;
        cluster.crash();
        cluster.start_server();
    };
    let ((code, shown), ()) = tokio::join!(run(&elsewhere, &wait), restart);
    assert!(
        code == Some(6) || code == Some(7),
        "with or without a daemon that outlasts it: {code:?} {shown}"
    );
    assert!(shown.contains("change kept is queued\nchange kept is "), "{shown}");
}
